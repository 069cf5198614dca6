//! parkd: many local processes wait for accelerator work without burning a core each.
//!
//! The crate is the daemon, its client library and the parts both are made of, in folders whose
//! imports run one way (`docs/ARCHITECTURE.md` has the table; `tests/tidy.rs` enforces it).
//! Without the feature `std`, and on targets other than Linux, only [`core`] remains.
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
#[cfg(all(feature = "std", target_os = "linux"))]
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
