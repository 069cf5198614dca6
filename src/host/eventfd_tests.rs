use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::host::fill::tests::{bell_fd, bump, set_blocking};
use crate::host::interrupt::{Interrupt, Tid};

#[test]
fn room_is_seen() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        look_and_ring();
        done.send(()).unwrap();
    });
    ended.recv_timeout(std::time::Duration::from_secs(20)).expect("it failed, or it blocks");
}

fn look_and_ring() {
    let bell = bell_fd();
    assert!(has_room(bell.as_raw_fd()));
    assert_eq!(ring(bell.as_raw_fd()), 8);
    bump(&bell, u64::MAX - 2);
    assert!(!has_room(bell.as_raw_fd()));
    assert_eq!(ring(bell.as_raw_fd()), -libc::EAGAIN);
    set_blocking(&bell);
    assert_eq!(ring(bell.as_raw_fd()), -libc::EAGAIN);
    assert!(!has_room(1 << 29));
    assert_eq!(ring(1 << 29), -libc::EBADF);
}

/// The window: the peer fills the counter after the look. The writer stands until interrupted.
#[test]
fn a_blocked_write_ends_when_interrupted() {
    let bell = bell_fd();
    set_blocking(&bell);
    bump(&bell, u64::MAX - 1);
    let interrupt = Interrupt::install().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tx, rx) = std::sync::mpsc::channel();
        let (bell, done) = (&bell, &done);
        let writer = scope.spawn(move || {
            tx.send(Tid::current()).unwrap();
            let result = write_one(bell.as_raw_fd());
            done.store(true, Ordering::SeqCst);
            result
        });
        let tid = rx.recv().unwrap();
        // Until it hits: a signal before the write has blocked changes nothing.
        while !done.load(Ordering::SeqCst) {
            interrupt.send(tid).unwrap();
            std::thread::yield_now();
        }
        assert_eq!(writer.join().unwrap(), -libc::EAGAIN);
    });
}
