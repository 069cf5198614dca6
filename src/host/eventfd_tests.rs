use std::os::fd::AsRawFd;
use std::time::Duration;

use super::*;
use crate::host::fill::tests::{bell_fd, bump, set_blocking};

/// Runs what must not block, and fails where it does.
fn in_time(test: fn()) {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(20)).expect("it failed, or it blocks");
}

fn counter(fd: &OwnedFd) -> u64 {
    let mut counter = [0; 8];
    rustix::io::read(fd, &mut counter).unwrap();
    u64::from_ne_bytes(counter)
}

#[test]
fn room_is_seen() {
    in_time(|| {
        for mut ringer in [Ringer::new(), Ringer { reads: None }] {
            let bell = bell_fd();
            assert!(has_room(bell.as_raw_fd()));
            assert_eq!(ringer.ring(bell.as_raw_fd()), 8);
            bump(&bell, u64::MAX - 2);
            assert!(!has_room(bell.as_raw_fd()));
            assert_eq!(ringer.ring(bell.as_raw_fd()), -libc::EAGAIN);
            set_blocking(&bell);
            assert_eq!(ringer.ring(bell.as_raw_fd()), -libc::EAGAIN);
            assert!(!has_room(1 << 29));
            assert_eq!(ringer.ring(1 << 29), -libc::EBADF);
        }
    });
}

/// The window: the peer makes its eventfd blocking and fills it after the look.
#[test]
fn a_counter_that_is_filled_after_the_look_blocks_nobody() {
    in_time(|| {
        let Ok(mut reads) = Reads::new() else {
            return println!("skipped: asynchronous reads cannot be had");
        };
        let bell = bell_fd();
        set_blocking(&bell);
        bump(&bell, u64::MAX - 1);
        for _ in 0..3 * UNREAPED_MAX {
            assert_eq!(reads.signal(bell.as_raw_fd()), 8);
        }
        assert_eq!(counter(&bell), u64::MAX, "as much as fits");
        assert_eq!(reads.signal(bell.as_raw_fd()), 8);
        assert_eq!(counter(&bell), 1);
    });
}

#[test]
fn every_ring_counts_and_none_is_left_to_reap() {
    in_time(|| {
        let mut ringer = Ringer::new();
        let bell = bell_fd();
        for _ in 0..100 * u64::from(UNREAPED_MAX) {
            assert_eq!(ringer.ring(bell.as_raw_fd()), 8);
        }
        assert_eq!(counter(&bell), 100 * u64::from(UNREAPED_MAX));
    });
}

#[test]
fn what_is_no_eventfd_is_refused() {
    let Ok(mut reads) = Reads::new() else {
        return println!("skipped: asynchronous reads cannot be had");
    };
    let file = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).unwrap();
    assert_eq!(reads.signal(file.as_raw_fd()), -libc::EINVAL);
    assert_eq!(reads.signal(1 << 29), -libc::EBADF);
    Ringer::probe().unwrap();
}
