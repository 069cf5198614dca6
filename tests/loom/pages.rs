//! Lanes, the status page and the control line: who sees the announcement sees what it announces.

use loom::thread;
use parkd_loom::check;
use parkd_loom::core::error::ErrorCode;
use parkd_loom::memory::Memory;
use parkd_loom::proto::layout::{SessionState, lanes};
use parkd_loom::shm::control::{Control, ControlReader};
use parkd_loom::shm::lanes::{LanesView, LanesWriter};
use parkd_loom::shm::status::{StatusPage, StatusReader};
use parkd_loom::shm::sync::{Ordering, fence};
use parkd_loom::shm::words::{ReadWords, WriteWords};

#[test]
fn who_sees_a_lane_reached_sees_the_work_before_it() {
    check(3, || {
        let memory = Memory::lanes();
        let (work, writer) = (memory.clone(), LanesWriter::new(memory.clone(), 64).unwrap());
        let device = thread::spawn(move || {
            work.store64(lanes::lane(1), 5);
            writer.store(0, 1);
        });
        let view = LanesView::new(memory, 64).unwrap();
        if view.load(0) == 1 {
            assert_eq!(view.peek(1), 5);
        }
        device.join().unwrap();
    });
}

#[test]
fn a_lane_of_32_bits_vouches_for_the_work_too() {
    check(3, || {
        // The checker knows no word in two sizes: the low half stands for the lane.
        let memory = Memory::new(lanes::bytes(64), [lanes::lane(0)], [(lanes::lane(1), false)]);
        let (work, writer) = (memory.clone(), LanesWriter::new(memory.clone(), 64).unwrap());
        let device = thread::spawn(move || {
            work.store64(lanes::lane(1), 5);
            writer.store_low(0, 1);
        });
        if memory.load32(lanes::lane(0)) == 1 {
            fence(Ordering::Acquire);
            assert_eq!(memory.load64(lanes::lane(1)), 5);
        }
        device.join().unwrap();
    });
}

#[test]
fn who_sees_a_generation_sees_its_executor() {
    check(3, || {
        let memory = Memory::status();
        let page = StatusPage::new(memory.clone()).unwrap();
        let daemon = thread::spawn(move || page.begin(1, "naive"));
        let reader = StatusReader::new(memory).unwrap();
        if reader.generation() == 1 {
            assert_eq!(reader.executor(), "naive");
        }
        daemon.join().unwrap();
    });
}

#[test]
fn who_sees_a_session_closed_sees_why() {
    check(3, || {
        let (memory, sizes) = Memory::rings(0);
        let control = Control::new(memory.clone(), sizes).unwrap();
        let daemon = thread::spawn(move || control.close(ErrorCode::RingIndex));
        let reader = ControlReader::new(memory).unwrap();
        if reader.state() == Some(SessionState::Closed) {
            assert_eq!(reader.close_code(), Some(ErrorCode::RingIndex));
        }
        daemon.join().unwrap();
    });
}
