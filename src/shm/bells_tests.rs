use super::*;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::status::StatusPage;

fn memory() -> (Region<ReadWrite>, Region<ReadWrite>) {
    let lanes = Region::heap(lanes::bytes(64)).unwrap();
    (lanes, Region::heap(status::BYTES).unwrap())
}

#[test]
fn a_ring_is_counted_always_and_wakes_only_the_parked() {
    let (lanes, status) = memory();
    let page = StatusPage::new(&status).unwrap();
    let view = BellsView::new(lanes.read_only()).unwrap();
    let bell = Bell::new(&lanes, status.read_only(), 3).unwrap();
    assert_eq!(bell.ring(), Ring::Awake);
    assert_eq!(view.read(3), 1);
    page.park();
    assert_eq!(bell.ring(), Ring::MustWake);
    assert_eq!(view.read(3), 2);
    page.unpark();
    assert_eq!(bell.ring(), Ring::Awake);
    assert_eq!(view.read(3), 3);
}

#[test]
fn each_bell_is_a_word_of_its_own() {
    let (lanes, status) = memory();
    let view = BellsView::new(&lanes).unwrap();
    for number in 0..lanes::BELLS {
        let bell = Bell::new(&lanes, &status, number).unwrap();
        for _ in 0..=number {
            let _ = bell.ring();
        }
        assert_eq!(bell.address(), view.address(number));
        assert_eq!(bell.address(), lanes.address(0) + lanes::bell(number));
    }
    for number in 0..lanes::BELLS {
        assert_eq!(view.read(number), number + 1);
    }
    assert_eq!(lanes.load64(lanes::lane(0)), 0, "no bell is a lane");
}

#[test]
fn a_bell_moves_past_the_end_of_u32() {
    let (lanes, status) = memory();
    lanes.store32(lanes::bell(0), u32::MAX);
    let view = BellsView::new(&lanes).unwrap();
    let bell = Bell::new(&lanes, &status, 0).unwrap();
    assert_eq!(view.moved(0, u32::MAX), None);
    assert_eq!(bell.ring(), Ring::Awake);
    assert_eq!(view.moved(0, u32::MAX), Some(0));
}

#[test]
fn small_areas_and_bells_past_the_last_are_refused() {
    let (lanes, status) = memory();
    let past = Bell::new(&lanes, &status, lanes::BELLS);
    assert_eq!(past.unwrap_err().code, ErrorCode::NoSuchDevice);
    let small = Region::heap(64).unwrap();
    assert_eq!(Bell::new(&small, &status, 0).unwrap_err().code, ErrorCode::SessionMemory);
    assert_eq!(Bell::new(&lanes, &small, 0).unwrap_err().code, ErrorCode::SessionMemory);
    assert_eq!(BellsView::new(&small).unwrap_err().code, ErrorCode::SessionMemory);
}

/// The park protocol with a futex in a memfd's place: a thread that sleeps only when nothing moved
/// after it said that it parks hears every ring.
#[test]
fn no_ring_is_lost_between_two_threads() {
    let (lanes, status) = memory();
    let rings = if cfg!(miri) { 20 } else { 20_000 };
    let page = StatusPage::new(status.clone()).unwrap();
    let view = BellsView::new(lanes.read_only()).unwrap();
    let daemon = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < rings {
            page.park();
            match view.moved(0, seen) {
                Some(count) => seen = count,
                None => std::thread::park(),
            }
            page.unpark();
        }
    });
    let bell = Bell::new(&lanes, status.read_only(), 0).unwrap();
    for _ in 0..rings {
        if bell.ring() == Ring::MustWake {
            daemon.thread().unpark();
        }
    }
    daemon.join().unwrap();
}
