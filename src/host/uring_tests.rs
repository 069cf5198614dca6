use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use io_uring::register::Restriction;

use super::*;
use crate::core::time::DurNs;
use crate::host::fill::BATCH_EVENTS;
use crate::host::fill::tests::{bell_fd, bump, collect, patience, settle, shared_word, suite};
use crate::host::futex;

fn make() -> UringHost {
    UringHost::new(Probe::run().unwrap()).unwrap()
}

#[test]
fn does_what_every_host_does() {
    suite(make);
}

#[test]
fn without_absolute_times_idle_ends_at_its_bound() {
    let probe = Probe { abs_timer: false, no_iowait: false };
    let mut host = UringHost::new(probe).unwrap();
    let until = clock::now() + DurNs::from_us(2000);
    host.idle(Some(until)).unwrap();
    assert!(clock::now() >= until);
    host.idle(Some(MonoNs(0))).unwrap();
}

#[test]
fn idle_sleeps_in_one_call_to_its_bound() {
    let mut host = make();
    let until = clock::now() + DurNs::from_us(2000);
    host.idle(Some(until)).unwrap();
    assert!(clock::now() >= until);
    assert_eq!(host.syscalls(), 1);
}

#[test]
fn operations_off_the_list_are_refused() {
    let mut host = make();
    let as_bell = pack(Watch::Fd, Token(1));
    host.push(&opcode::Nop::new().build().user_data(as_bell)).unwrap();
    assert_eq!(collect(&mut host, 1), [HostEvent::Fd(Token(1), -libc::EACCES)]);
    let fd = bell_fd();
    let read = opcode::Read::new(Fd(fd.as_raw_fd()), std::ptr::null_mut(), 8);
    host.push(&read.build().user_data(as_bell)).unwrap();
    assert_eq!(collect(&mut host, 1), [HostEvent::Fd(Token(1), -libc::EACCES)]);
}

#[test]
fn sqe_flags_off_the_list_are_refused() {
    let mut host = make();
    let poll = opcode::PollAdd::new(Fd(bell_fd().as_raw_fd()), 1).build().flags(Flags::IO_LINK);
    host.push(&poll.user_data(pack(Watch::Fd, Token(1)))).unwrap();
    assert_eq!(collect(&mut host, 1), [HostEvent::Fd(Token(1), -libc::EACCES)]);
}

#[test]
fn register_calls_are_refused_once_enabled() {
    let host = make();
    let denied = |result: io::Result<()>| result.unwrap_err().raw_os_error();
    let submitter = host.ring.submitter();
    assert_eq!(denied(submitter.register_files(&[0])), Some(libc::EACCES));
    let mut wider = [Restriction::sqe_op(opcode::Nop::CODE)];
    assert!(submitter.register_restrictions(&mut wider).is_err());
}

#[test]
fn another_thread_cannot_enter_the_ring() {
    let host = make();
    let fd = host.ring.as_raw_fd();
    let enter = move || {
        // SAFETY: io_uring_enter with nothing to submit and no argument touches no memory.
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, fd, 0, 0, 1, std::ptr::null::<u8>(), 0)
        };
        (result, io::Error::last_os_error().raw_os_error())
    };
    let (result, error) = std::thread::spawn(enter).join().unwrap();
    assert_eq!((result, error), (-1, Some(libc::EEXIST)));
}

#[test]
fn wakes_and_watches_and_the_wait_are_one_call() {
    let mut host = make();
    let (bell, other) = (shared_word(), shared_word());
    for n in 0..20 {
        host.watch_word(Token(n), bell.into(), 0).unwrap();
        host.wake_word(other.into()).unwrap();
    }
    host.wake_word(bell.into()).unwrap();
    let before = host.syscalls();
    host.idle(Some(patience())).unwrap();
    assert_eq!(host.syscalls() - before, 1);
    let mut batch = EventBatch::new();
    assert_eq!(host.reap(&mut batch).unwrap(), 1);
    assert_eq!(batch.as_slice(), [HostEvent::Bell(Token(0))]);
}

#[test]
fn a_hot_turn_enters_only_for_task_work() {
    let mut host = make();
    let (word, mut batch) = (shared_word(), EventBatch::new());
    host.watch_word(Token(1), word.into(), 0).unwrap();
    host.flush().unwrap();
    let before = host.syscalls();
    for _ in 0..1000 {
        assert_eq!(host.reap(&mut batch).unwrap(), 0);
    }
    host.flush().unwrap();
    assert_eq!(host.syscalls(), before, "nothing to do: no call");
    std::thread::spawn(move || {
        word.store(1, Ordering::SeqCst);
        while !futex::wake_one(word.into()).unwrap() {}
    });
    let until = patience();
    while host.reap(&mut batch).unwrap() == 0 {
        assert!(clock::now() < until);
    }
    assert_eq!(batch.as_slice(), [HostEvent::Bell(Token(1))]);
    assert_eq!(host.syscalls(), before + 1);
}

/// More requests than the submission queue holds, more completions than the completion queue.
#[test]
fn full_queues_lose_nothing() {
    const COUNT: usize = setup::CQ_ENTRIES as usize + 3000;
    let mut host = make();
    let fd = bell_fd();
    for n in 0..COUNT {
        host.poll_fd(Token(n as u64), fd.as_raw_fd()).unwrap();
    }
    host.flush().unwrap();
    bump(&fd, 1);
    let mut seen = vec![0; COUNT];
    for event in collect(&mut host, COUNT) {
        let HostEvent::Fd(Token(n), revents) = event else { panic!("{event:?}") };
        assert_eq!(revents, i32::from(libc::POLLIN));
        seen[n as usize] += 1;
    }
    assert!(seen.iter().all(|&times| times == 1));
    assert_eq!(settle(&mut host), []);
    const { assert!(COUNT > BATCH_EVENTS) };
}

/// Runs all completions, more than fit into the queue: the kernel keeps the rest.
fn overflow(host: &mut UringHost) {
    let until = patience();
    while !host.ring.submission().cq_overflow() || host.ring.submission().taskrun() {
        assert!(clock::now() < until);
        host.enter(0, None).unwrap();
    }
}

/// A host that is never idle gets at what did not fit, too.
#[test]
fn a_hot_turn_enters_for_what_did_not_fit() {
    const COUNT: usize = setup::CQ_ENTRIES as usize + 3000;
    let mut host = make();
    let (fd, mut batch) = (bell_fd(), EventBatch::new());
    for n in 0..COUNT {
        host.poll_fd(Token(n as u64), fd.as_raw_fd()).unwrap();
    }
    host.flush().unwrap();
    bump(&fd, 1);
    overflow(&mut host);
    let (mut got, until) = (0, patience());
    while got < COUNT {
        assert!(clock::now() < until, "{got} of {COUNT}");
        got += host.reap(&mut batch).unwrap();
    }
    assert_eq!(got, COUNT);
}

#[test]
fn an_eventfd_watch_survives_a_full_queue_or_says_so() {
    const COUNT: usize = setup::CQ_ENTRIES as usize + 1;
    let mut host = make();
    let (bell, flood) = (bell_fd(), bell_fd());
    host.watch_eventfd(Token(1), bell.as_raw_fd()).unwrap();
    for n in 0..COUNT {
        host.poll_fd(Token(n as u64), flood.as_raw_fd()).unwrap();
    }
    host.flush().unwrap();
    bump(&flood, 1);
    overflow(&mut host);
    bump(&bell, 1);
    host.enter(0, None).unwrap();
    let events = collect(&mut host, COUNT + 1);
    let bells: Vec<_> = events.iter().filter(|e| !matches!(e, HostEvent::Fd(..))).collect();
    match bells[..] {
        [HostEvent::Bell(Token(1))] => {}
        [HostEvent::BellLost(Token(1), 0)] => {
            host.watch_eventfd(Token(1), bell.as_raw_fd()).unwrap();
            assert_eq!(collect(&mut host, 1), [HostEvent::Bell(Token(1))]);
        }
        _ => panic!("{bells:?}"),
    }
    bump(&bell, 1);
    assert_eq!(collect(&mut host, 1), [HostEvent::Bell(Token(1))]);
}

#[test]
fn a_word_that_is_not_mapped_is_a_lost_bell() {
    let mut host = make();
    host.watch_word(Token(1), FutexAddr::new(8), 0).unwrap();
    assert_eq!(collect(&mut host, 1), [HostEvent::BellLost(Token(1), -libc::EFAULT)]);
    host.watch_word(Token(2), FutexAddr::new(9), 0).unwrap();
    assert_eq!(collect(&mut host, 1), [HostEvent::BellLost(Token(2), -libc::EINVAL)]);
    host.wake_word(FutexAddr::new(8)).unwrap();
    assert_eq!(settle(&mut host), [], "a failed wake is quiet");
}

#[test]
fn cqes_mean_events() {
    let more = 1 << 1;
    let (t, word) = (Token(3), pack(Watch::Word, Token(3)));
    let bell = pack(Watch::Eventfd, t);
    for (user_data, result, flags, event) in [
        (word, 0, 0, Some(HostEvent::Bell(t))),
        (word, -libc::EAGAIN, 0, Some(HostEvent::Bell(t))),
        (word, -libc::ECANCELED, 0, None),
        (word, -libc::EFAULT, 0, Some(HostEvent::BellLost(t, -libc::EFAULT))),
        (bell, 1, more, Some(HostEvent::Bell(t))),
        (bell, 1, 0, Some(HostEvent::BellLost(t, 0))),
        (bell, -libc::ECANCELED, 0, None),
        (pack(Watch::Fd, t), 17, 0, Some(HostEvent::Fd(t, 17))),
        (pack(Watch::Ring, t), 8, 0, Some(HostEvent::Written(t, 8))),
        (QUIET, -libc::ENOENT, 0, None),
    ] {
        assert_eq!(translate(user_data, result, flags), event);
    }
}
