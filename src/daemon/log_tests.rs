//! Which stream is the journal's.

use super::*;

#[test]
fn only_the_named_stream_is_the_journal() {
    assert!(names("8:1234", 8, 1234));
    for other in ["", "8", "8:", ":1234", "8:1235", "9:1234", "8:1234:1", "x:1234"] {
        assert!(!names(other, 8, 1234), "{other}");
    }
}
