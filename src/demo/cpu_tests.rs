use std::time::{Duration, Instant};

use super::*;

#[test]
fn times_are_found_behind_any_name() {
    let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20";
    assert_eq!(ticks(stat), Some(42));
    assert_eq!(ticks("12 (x) S 1"), None);
    assert_eq!(ticks(""), None);
}

#[test]
fn work_shows() {
    let pid = std::process::id();
    let before = of_process(pid).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while of_process(pid).unwrap() == before {
        assert!(Instant::now() < deadline);
    }
    assert!(of_process(u32::MAX).is_err());
}
