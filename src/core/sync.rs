//! The atomics that [`ready`](super::ready) shares with other threads.
//!
//! `tests/loom` compiles that file with the model checker's atomics in their place.

pub use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
