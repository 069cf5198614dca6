//! The portable core: `no_std` + `alloc`, no unsafe, no I/O, no statics, no vendor or system name.
#![forbid(unsafe_code)]

pub mod bands;
pub mod error;
pub mod estimator;
pub mod line;
pub mod plan;
pub mod points;
pub mod step;
mod text;
pub mod time;
