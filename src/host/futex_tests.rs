use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::*;
use crate::core::time::DurNs;
use crate::host::clock::now;
use crate::host::fill::tests::{fork, patience, reap_child, shared_word};

#[test]
fn a_changed_word_does_not_wait() {
    let word = AtomicU32::new(3);
    assert_eq!(wait((&word).into(), 2, None).unwrap(), WaitOutcome::Changed);
}

#[test]
fn a_wait_ends_at_its_time() {
    let word = AtomicU32::new(3);
    let until = now() + DurNs::from_us(2000);
    assert_eq!(wait((&word).into(), 3, Some(until)).unwrap(), WaitOutcome::TimedOut);
    assert!(now() >= until);
    assert_eq!(wait((&word).into(), 3, Some(MonoNs(0))).unwrap(), WaitOutcome::TimedOut);
}

#[test]
fn a_wake_without_waiters_wakes_nobody() {
    assert!(!wake_one(shared_word().into()).unwrap());
}

#[test]
fn another_process_is_woken_and_wakes() {
    let (there, back) = (shared_word(), shared_word());
    let pid = fork(|| {
        while there.load(Ordering::Acquire) == 0 {
            let _ = wait(there.into(), 0, Some(patience()));
        }
        back.store(1, Ordering::SeqCst);
        let _ = wake_one(back.into());
    });
    there.store(1, Ordering::SeqCst);
    wake_one(there.into()).unwrap();
    while back.load(Ordering::Acquire) == 0 {
        assert_ne!(wait(back.into(), 0, Some(patience())).unwrap(), WaitOutcome::TimedOut);
    }
    reap_child(pid);
}

/// Two mappings of one memfd, one of them read-only, are the same word.
#[test]
fn a_waiter_on_a_read_only_mapping_is_woken() {
    let memory = memfd_create("word", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 4096).unwrap();
    let map = |prot| {
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing of Rust's.
        let at = unsafe { mmap(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED, &memory, 0) };
        FutexAddr::new(at.unwrap() as usize)
    };
    let (writer, reader) = (map(ProtFlags::READ | ProtFlags::WRITE), map(ProtFlags::READ));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(reader, 0, Some(patience())).unwrap());
        while !wake_one(writer).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(waiter.join().unwrap(), WaitOutcome::Woken);
    });
}

#[test]
fn any_address_is_safe_to_ask_for() {
    for (address, errno) in [(8, libc::EFAULT), (9, libc::EINVAL), (usize::MAX - 3, libc::EFAULT)] {
        let addr = FutexAddr::new(address);
        let code = |error: io::Error| error.raw_os_error();
        assert_eq!(wait(addr, 0, None).map_err(code), Err(Some(errno)));
        assert_eq!(differs(addr, 0).map_err(code), Err(Some(errno)));
        assert_eq!(wake_one(addr).map_err(code), Err(Some(errno)));
    }
}

#[test]
fn a_word_is_compared_without_waking_its_waiter() {
    let word = shared_word();
    assert!(!differs(word.into(), 0).unwrap());
    assert!(differs(word.into(), 1).unwrap());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(word.into(), 0, Some(patience())).unwrap());
        for _ in 0..100 {
            assert!(!differs(word.into(), 0).unwrap());
        }
        while !wake_one(word.into()).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(waiter.join().unwrap(), WaitOutcome::Woken);
    });
}
