//! What the members need of the tests' support.

use std::time::{Duration, Instant};

#[path = "../../../tests/support/raw.rs"]
pub mod raw;

/// How long anything may take before it counts as never.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until there is something to see.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
