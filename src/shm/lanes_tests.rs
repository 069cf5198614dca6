use super::*;
use crate::shm::region::Region;

#[test]
fn numbers_stored_are_seen_in_their_own_lane_only() {
    let memory = Region::heap(lanes::bytes(128)).unwrap();
    let writer = LanesWriter::new(memory.clone(), 128).unwrap();
    let view = LanesView::new(memory.read_only(), 128).unwrap();
    assert_eq!((writer.lanes(), view.lanes()), (128, 128));
    for lane in 0..128 {
        writer.store(lane, u64::MAX - u64::from(lane));
    }
    for lane in 0..128 {
        assert_eq!(view.load(lane), u64::MAX - u64::from(lane));
        assert_eq!(view.peek(lane), view.load(lane));
    }
    assert_eq!(memory.load32(lanes::bell(lanes::BELLS - 1)), 0, "no lane is a bell");
}

/// Miri's weak-memory model knows no word that is accessed in two sizes.
#[cfg(not(miri))]
#[test]
fn a_narrow_store_leaves_the_high_half_alone() {
    let memory = Region::heap(lanes::bytes(64)).unwrap();
    let writer = LanesWriter::new(&memory, 64).unwrap();
    let view = LanesView::new(&memory, 64).unwrap();
    writer.store(2, 0xdead_beef_0000_0001);
    writer.store_low(2, 7);
    assert_eq!(view.load(2), 0xdead_beef_0000_0007);
}

#[test]
fn counts_that_do_not_fit_are_refused() {
    let memory = Region::heap(lanes::bytes(512)).unwrap();
    assert!(LanesView::new(&memory, 512).is_ok());
    assert_eq!(LanesView::new(&memory, 1024).unwrap_err().code, ErrorCode::SessionMemory);
    for count in [0, 96, 8192] {
        assert_eq!(LanesView::new(&memory, count).unwrap_err().code, ErrorCode::LimitExceeded);
        assert_eq!(LanesWriter::new(&memory, count).unwrap_err().code, ErrorCode::LimitExceeded);
    }
}
