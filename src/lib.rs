//! parkd: many local processes wait for accelerator work without burning a core each.
//!
//! The crate is the daemon, its client library and the parts both are made of, in folders whose
//! imports run one way (`docs/ARCHITECTURE.md` has the table; `tests/tidy.rs` enforces it).
//! Without the feature `std` only [`core`] remains; on targets other than Linux the daemon and its
//! clients are missing, and waits in process stand on [`host::std_host`].
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

pub mod core;

#[cfg(all(feature = "std", target_os = "linux"))]
pub mod client;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod ctl;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod daemon;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod demo;
#[cfg(feature = "std")]
pub mod engine;
#[cfg(feature = "std")]
#[allow(unsafe_code)]
pub mod host;
#[cfg(feature = "std")]
pub mod proto;
#[cfg(all(feature = "std", target_os = "linux"))]
#[allow(unsafe_code)]
pub mod shm;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod soft;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
