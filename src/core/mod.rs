//! The portable core: `no_std` + `alloc`, no unsafe, no I/O, no statics, no vendor or system name.
#![forbid(unsafe_code)]

pub mod error;
