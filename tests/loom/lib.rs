//! The lock-free files of the library, compiled over a model checker's atomics and fences.
//!
//! They are the very files that the daemon and its clients run: only the `sync` files and the
//! memory behind `shm::words` are the checker's. Each test runs every interleaving of its
//! threads, and every value that a Relaxed load may answer, within the bound that [`check`] sets.
//!
//! Run: `cargo test --release -p parkd-loom`

// The unit tests of these files run in the package that owns them.
#![cfg(not(test))]

extern crate alloc;

/// The error registry, which the code under test answers with, and the executor's wakers.
#[path = "../../src/core"]
pub mod core {
    pub mod error;
    pub mod ready;

    /// The checker's atomics in the place of the CPU's.
    pub mod sync {
        pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    }
}

/// Entries, layouts and limits.
#[path = "../../src/proto"]
pub mod proto {
    pub mod entry;
    pub mod layout;
    pub mod limits;
}

/// Rings, bells, lanes and pages.
#[path = "../../src/shm"]
pub mod shm {
    pub mod bells;
    pub mod control;
    pub mod lanes;
    pub mod result_ring;
    pub mod ring;
    pub mod status;
    pub mod submit_ring;
    pub mod words;

    /// The checker's fences in the place of the CPU's.
    pub mod sync {
        pub use loom::sync::atomic::{Ordering, fence};
    }
}

pub mod futex;
pub mod memory;

/// Runs a model: all interleavings with up to `preemptions` involuntary switches.
pub fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
