//! What every host must do, as functions generic over the host, and the batch's own tests.
//! Each host's tests run `suite` over itself.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{read, write};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::*;
use crate::core::time::DurNs;
use crate::host::clock::{now, timespec_at};
use crate::host::futex;

/// Far more than any of this takes; reached only by a failure.
const PATIENCE: DurNs = DurNs(20_000_000_000);

pub(crate) fn patience() -> MonoNs {
    now() + PATIENCE
}

/// Idles until `count` events came.
pub(crate) fn collect<H: FillHost>(host: &mut H, count: usize) -> Vec<HostEvent> {
    let (mut got, mut batch, until) = (Vec::new(), EventBatch::new(), patience());
    while got.len() < count {
        assert!(now() < until, "{}: {got:?} in place of {count} events", H::LABEL);
        host.idle(Some(until)).unwrap();
        host.reap(&mut batch).unwrap();
        got.extend_from_slice(batch.as_slice());
    }
    got
}

/// Everything that comes within 2 ms: enough for what is already there.
pub(crate) fn settle<H: FillHost>(host: &mut H) -> Vec<HostEvent> {
    let (mut got, mut batch, until) = (Vec::new(), EventBatch::new(), now() + DurNs::from_us(2000));
    while now() < until {
        host.idle(Some(until)).unwrap();
        host.reap(&mut batch).unwrap();
        got.extend_from_slice(batch.as_slice());
    }
    got
}

/// A word in memory that a forked child shares. Leaked: 4 KiB a test.
pub(crate) fn shared_word() -> &'static AtomicU32 {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, prot, flags).unwrap() };
    // SAFETY: page-aligned, zeroed and never unmapped.
    unsafe { &*at.cast::<AtomicU32>() }
}

/// Runs `child` in a forked process and returns its pid. It may only do system calls and atomics:
/// the test process has other threads.
pub(crate) fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child runs nothing that takes a lock or allocates, and leaves by _exit.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(0) }
        }
        pid => {
            assert!(pid > 0);
            pid
        }
    }
}

pub(crate) fn reap_child(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: waits for a child of this process; the status is written to a live local.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
}

pub(crate) fn bell_fd() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

pub(crate) fn bump(fd: &OwnedFd, by: u64) {
    assert_eq!(write(fd, &by.to_ne_bytes()).unwrap(), 8);
}

fn counter(fd: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(read(fd, &mut bytes).unwrap(), 8);
    u64::from_ne_bytes(bytes)
}

pub(crate) fn set_blocking(fd: &OwnedFd) {
    fcntl_setfl(fd, fcntl_getfl(fd).unwrap() - OFlags::NONBLOCK).unwrap();
}

/// Everything that a host must do, on a thread of its own: a host that blocks fails in time.
pub(crate) fn suite<H: FillHost>(make: impl Fn() -> H + Send + 'static) {
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let run = std::thread::spawn(move || {
        run_suite(make);
        drop(done);
    });
    let outcome = ended.recv_timeout(std::time::Duration::from_nanos(3 * PATIENCE.0));
    assert_ne!(outcome, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "the host blocks");
    run.join().unwrap();
}

fn run_suite<H: FillHost>(make: impl Fn() -> H) {
    if H::WORDS {
        word_rings_from_another_thread(&mut make());
        word_rings_from_another_process(&mut make());
        changed_word_rings_soon(&mut make());
        cancelled_word_is_quiet(&mut make());
    } else {
        let refused = make().watch_word(Token(1), shared_word().into(), 0);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
    wakes_one_waiter(&mut make());
    eventfd_rings_once_a_write(&mut make());
    written_eventfd_rings_when_watched(&mut make());
    polls_are_one_shot(&mut make());
    polls_each_kind_of_fd(&mut make());
    bad_fd_is_an_event(&mut make());
    cancelled_fds_are_quiet(&mut make());
    rings_an_eventfd(&mut make());
    full_eventfd_does_not_block(&mut make());
    idle_ends_at_its_bound(&mut make());
    idle_returns_for_a_waiting_event(&mut make());
}

/// The protocol of a bell, at its own speed: nothing is lost over many rounds, whatever is stale.
fn word_rings_from_another_thread<H: FillHost>(host: &mut H) {
    const ROUNDS: u32 = 2000;
    let (bell, answer) = (shared_word(), shared_word());
    let peer = std::thread::spawn(move || {
        for n in 1..=ROUNDS {
            bell.store(n, Ordering::SeqCst);
            futex::wake_one(bell.into()).unwrap();
            while answer.load(Ordering::Acquire) != n {
                let outcome = futex::wait(answer.into(), n - 1, Some(patience())).unwrap();
                assert_ne!(outcome, futex::WaitOutcome::TimedOut, "a wake is lost");
            }
        }
    });
    let mut seen = 0;
    host.watch_word(Token(7), bell.into(), seen).unwrap();
    while seen < ROUNDS {
        assert_eq!(collect(host, 1), [HostEvent::Bell(Token(7))]);
        let now_at = bell.load(Ordering::Acquire);
        if now_at != seen {
            assert_eq!(now_at, seen + 1);
            answer.store(now_at, Ordering::SeqCst);
            host.wake_word(answer.into()).unwrap();
        }
        seen = now_at;
        host.watch_word(Token(7), bell.into(), seen).unwrap();
    }
    // The last answer's wake is only queued.
    host.flush().unwrap();
    peer.join().unwrap();
}

fn word_rings_from_another_process<H: FillHost>(host: &mut H) {
    let word = shared_word();
    host.watch_word(Token(1 << 55), word.into(), 0).unwrap();
    host.flush().unwrap();
    let pid = fork(|| {
        word.store(1, Ordering::SeqCst);
        let _ = futex::wake_one(word.into());
    });
    assert_eq!(collect(host, 1), [HostEvent::Bell(Token(1 << 55))]);
    assert_eq!(word.load(Ordering::Acquire), 1);
    reap_child(pid);
}

fn changed_word_rings_soon<H: FillHost>(host: &mut H) {
    let word = shared_word();
    word.store(5, Ordering::SeqCst);
    host.watch_word(Token(1), word.into(), 4).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Bell(Token(1))]);
    assert_eq!(settle(host), [], "a word's watch is one shot");
}

fn cancelled_word_is_quiet<H: FillHost>(host: &mut H) {
    let word = shared_word();
    host.watch_word(Token(1), word.into(), 0).unwrap();
    host.watch_word(Token(2), word.into(), 0).unwrap();
    host.flush().unwrap();
    host.cancel(Watch::Word, Token(1)).unwrap();
    host.cancel(Watch::Word, Token(99)).unwrap();
    host.flush().unwrap();
    word.store(1, Ordering::SeqCst);
    futex::wake_one(word.into()).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Bell(Token(2))]);
    assert_eq!(settle(host), []);
}

fn wakes_one_waiter<H: FillHost>(host: &mut H) {
    let (word, woken) = (shared_word(), AtomicU32::new(0));
    let waiter = || {
        while futex::wait(word.into(), 0, Some(patience())).unwrap() != futex::WaitOutcome::Woken {}
        woken.fetch_add(1, Ordering::SeqCst);
    };
    let wakes = std::thread::scope(|scope| {
        scope.spawn(waiter);
        scope.spawn(waiter);
        let mut wakes = 0;
        // Until both are hit: a waiter may not be asleep yet.
        while woken.load(Ordering::SeqCst) < 2 {
            host.wake_word(word.into()).unwrap();
            host.flush().unwrap();
            wakes += 1;
            std::thread::yield_now();
        }
        wakes
    });
    assert!(wakes >= 2, "one wake ended two waits");
    assert_eq!(settle(host), [], "a wake is quiet");
}

fn eventfd_rings_once_a_write<H: FillHost>(host: &mut H) {
    let fd = bell_fd();
    host.watch_eventfd(Token(3), fd.as_raw_fd()).unwrap();
    assert_eq!(settle(host), [], "nothing was written");
    for _ in 0..5 {
        bump(&fd, 1);
        assert_eq!(collect(host, 1), [HostEvent::Bell(Token(3))]);
        assert_eq!(settle(host), [], "edge-triggered: readable, but not written again");
    }
    assert_eq!(counter(&fd), 5, "the host never reads it");
}

fn written_eventfd_rings_when_watched<H: FillHost>(host: &mut H) {
    let fd = bell_fd();
    bump(&fd, 1);
    host.watch_eventfd(Token(3), fd.as_raw_fd()).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Bell(Token(3))]);
}

fn polls_are_one_shot<H: FillHost>(host: &mut H) {
    let fd = bell_fd();
    host.poll_fd(Token(4), fd.as_raw_fd()).unwrap();
    assert_eq!(settle(host), []);
    bump(&fd, 1);
    let ready = HostEvent::Fd(Token(4), libc::POLLIN.into());
    assert_eq!(collect(host, 1), [ready]);
    bump(&fd, 1);
    assert_eq!(settle(host), [], "one shot");
    host.poll_fd(Token(4), fd.as_raw_fd()).unwrap();
    assert_eq!(collect(host, 1), [ready], "readable when polled again");
}

fn polls_each_kind_of_fd<H: FillHost>(host: &mut H) {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
    let at = now() + DurNs::from_us(3000);
    let zero = timespec_at(MonoNs(0));
    let spec = Itimerspec { it_interval: zero, it_value: timespec_at(at) };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec).unwrap();
    host.poll_fd(Token(1), timer.as_raw_fd()).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Fd(Token(1), libc::POLLIN.into())]);
    assert!(now() >= at);

    let gate = shared_word();
    let pid = fork(|| while futex::wait(gate.into(), 0, Some(patience())).is_err() {});
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    let pidfd = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap();
    host.poll_fd(Token(2), pidfd.as_raw_fd()).unwrap();
    assert_eq!(settle(host), [], "it lives");
    gate.store(1, Ordering::SeqCst);
    futex::wake_one(gate.into()).unwrap();
    let [HostEvent::Fd(Token(2), revents)] = collect(host, 1)[..] else { panic!("no exit") };
    assert_ne!(revents & i32::from(libc::POLLIN), 0);
    reap_child(pid);
}

fn bad_fd_is_an_event<H: FillHost>(host: &mut H) {
    host.poll_fd(Token(1), 1 << 29).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Fd(Token(1), -libc::EBADF)]);
    host.watch_eventfd(Token(2), 1 << 29).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::BellLost(Token(2), -libc::EBADF)]);
    host.ring_eventfd(Token(3), 1 << 29).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Written(Token(3), -libc::EBADF)]);
}

fn cancelled_fds_are_quiet<H: FillHost>(host: &mut H) {
    let (bell, ticket) = (bell_fd(), bell_fd());
    // The same number for both: kinds keep them apart.
    host.watch_eventfd(Token(1), bell.as_raw_fd()).unwrap();
    host.poll_fd(Token(1), ticket.as_raw_fd()).unwrap();
    host.flush().unwrap();
    host.cancel(Watch::Eventfd, Token(1)).unwrap();
    host.flush().unwrap();
    bump(&bell, 1);
    bump(&ticket, 1);
    assert_eq!(collect(host, 1), [HostEvent::Fd(Token(1), libc::POLLIN.into())]);
    assert_eq!(settle(host), []);
    host.poll_fd(Token(2), bell.as_raw_fd()).unwrap();
    counter(&bell);
    host.cancel(Watch::Fd, Token(2)).unwrap();
    host.cancel(Watch::Fd, Token(3)).unwrap();
    assert_eq!(settle(host), []);
}

fn rings_an_eventfd<H: FillHost>(host: &mut H) {
    let fd = bell_fd();
    for _ in 0..3 {
        host.ring_eventfd(Token(9), fd.as_raw_fd()).unwrap();
        assert_eq!(collect(host, 1), [HostEvent::Written(Token(9), 8)]);
    }
    assert_eq!(counter(&fd), 3);
    // A peer may make its end blocking, to read it that way.
    set_blocking(&fd);
    host.ring_eventfd(Token(9), fd.as_raw_fd()).unwrap();
    assert_eq!(collect(host, 1), [HostEvent::Written(Token(9), 8)]);
    assert_eq!(counter(&fd), 1);
}

fn full_eventfd_does_not_block<H: FillHost>(host: &mut H) {
    for blocking in [false, true] {
        let fd = bell_fd();
        bump(&fd, u64::MAX - 1);
        if blocking {
            set_blocking(&fd);
        }
        host.ring_eventfd(Token(5), fd.as_raw_fd()).unwrap();
        let full = HostEvent::Written(Token(5), -libc::EAGAIN);
        assert_eq!(collect(host, 1), [full]);
        assert_eq!(counter(&fd), u64::MAX - 1);
        host.ring_eventfd(Token(5), fd.as_raw_fd()).unwrap();
        assert_eq!(collect(host, 1), [HostEvent::Written(Token(5), 8)]);
        assert_eq!(counter(&fd), 1);
    }
}

fn idle_ends_at_its_bound<H: FillHost>(host: &mut H) {
    let far = now() + DurNs::from_us(3000);
    while now() < far {
        host.idle(Some(far)).unwrap();
    }
    host.idle(Some(MonoNs(0))).unwrap();
    assert_eq!(host.reap(&mut EventBatch::new()).unwrap(), 0);
}

fn idle_returns_for_a_waiting_event<H: FillHost>(host: &mut H) {
    let fd = bell_fd();
    bump(&fd, 1);
    host.poll_fd(Token(1), fd.as_raw_fd()).unwrap();
    host.flush().unwrap();
    let until = patience();
    host.idle(Some(until)).unwrap();
    assert!(now() < until);
    assert_eq!(host.reap(&mut EventBatch::new()).unwrap(), 1);
}

#[test]
fn batch_is_bounded_and_keeps_order() {
    let mut batch = EventBatch::default();
    assert!(batch.is_empty());
    for n in 0..BATCH_EVENTS as u64 {
        assert!(batch.push(HostEvent::Bell(Token(n))));
    }
    assert!(batch.is_full());
    assert!(!batch.push(HostEvent::Bell(Token(9999))));
    assert_eq!(batch.len(), BATCH_EVENTS);
    assert_eq!(batch.as_slice()[0], HostEvent::Bell(Token(0)));
    assert_eq!(batch.as_slice()[255], HostEvent::Bell(Token(255)));
    batch.clear();
    assert_eq!(batch.as_slice(), []);
}

#[test]
fn packed_tokens_are_apart_and_come_back() {
    let top = Token((1 << TOKEN_BITS) - 1);
    let mut seen = std::collections::HashSet::new();
    for kind in [Watch::Word, Watch::Eventfd, Watch::Fd, Watch::Ring] {
        for token in [Token(0), Token(1), top] {
            assert!(seen.insert(pack(kind, token)));
            assert_eq!(unpack(pack(kind, token)), Some((kind, token)));
        }
    }
    assert_eq!(unpack(u64::MAX), None);
    assert_eq!(unpack(0), None);
}
