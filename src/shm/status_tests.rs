use super::*;
use crate::core::error::ErrorCode;
use crate::shm::region::Region;

#[test]
fn what_the_daemon_says_is_read() {
    let memory = Region::heap(status::BYTES).unwrap();
    let page = StatusPage::new(memory.clone()).unwrap();
    let reader = StatusReader::new(memory.read_only()).unwrap();
    assert_eq!((reader.generation(), reader.executor().as_str()), (0, ""));
    page.begin(7, "io-uring");
    page.beat(1 << 40);
    assert_eq!((reader.generation(), page.generation()), (7, 7));
    assert_eq!(reader.heartbeat(), 1 << 40);
    assert_eq!(reader.executor(), "io-uring");
    assert!(!reader.parked());
    page.park();
    assert!(reader.parked());
    page.unpark();
    assert!(!reader.parked());
}

#[test]
fn a_label_replaces_a_longer_one_and_is_cut_at_its_room() {
    let memory = Region::heap(status::BYTES).unwrap();
    let page = StatusPage::new(&memory).unwrap();
    let reader = StatusReader::new(&memory).unwrap();
    let long = "x".repeat(70);
    page.begin(1, &long);
    assert_eq!(reader.executor(), long[..64]);
    page.begin(2, "naive");
    assert_eq!(reader.executor(), "naive");
    assert_eq!(memory.load64(status::EXECUTOR + 64), 0);
}

#[test]
fn a_small_page_is_refused() {
    let memory = Region::heap(64).unwrap();
    assert_eq!(StatusPage::new(&memory).unwrap_err().code, ErrorCode::SessionMemory);
    assert_eq!(StatusReader::new(&memory).unwrap_err().code, ErrorCode::SessionMemory);
}
