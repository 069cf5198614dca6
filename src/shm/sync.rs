//! The fences that order the words of peer memory.
//!
//! Two patterns, and no other, are used in this folder:
//! - *publish*: stores, `fence(Release)`, store of the word that announces them; on the other side
//!   load of that word, `fence(Acquire)`, loads. Who sees the announcement sees what it announces.
//! - *meet*: store of one word, `fence(SeqCst)`, load of another; on the other side the same two
//!   words the other way round. At least one of the two sees what the other stored. (A Release
//!   store followed by a load of another word reorders, also on x86.)
//!
//! `tests/loom` compiles the files beside this one with the model checker's fences in its place.

pub use std::sync::atomic::{Ordering, fence};
