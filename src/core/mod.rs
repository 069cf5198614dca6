//! The portable core: `no_std` + `alloc`, no unsafe, no I/O, no statics, no vendor or system name.
#![forbid(unsafe_code)]

pub mod adaptive;
pub mod anchored;
pub mod bands;
pub mod error;
pub mod estimator;
pub mod executor;
pub mod kind;
pub mod line;
pub mod manual;
pub mod plan;
pub mod points;
pub mod port;
pub mod rate;
pub mod reactor;
mod ready;
pub mod step;
mod sync;
mod text;
pub mod time;
pub mod wait;
