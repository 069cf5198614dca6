use super::*;
use crate::host::fill::tests::{bell_fd, bump, collect, patience, settle, suite};

fn make() -> EpollHost {
    EpollHost::probe().unwrap();
    EpollHost::new().unwrap()
}

#[test]
fn does_what_every_host_does() {
    suite(make);
}

#[test]
fn idle_sleeps_in_one_call_to_its_bound() {
    let mut host = make();
    let until = clock::now() + DurNs::from_us(2000);
    host.idle(Some(until)).unwrap();
    assert!(clock::now() >= until);
    assert_eq!(host.syscalls(), 1);
}

/// A millisecond is the unit of the older calls: then no sleep would be shorter.
#[test]
fn idle_bounds_are_finer_than_milliseconds() {
    let mut host = make();
    let shortest = (0..200).map(|_| {
        let start = clock::now();
        host.idle(Some(start + DurNs::from_us(50))).unwrap();
        clock::now().since(start)
    });
    assert!(shortest.min().unwrap() < DurNs::from_us(1000));
}

#[test]
fn the_end_of_time_is_never() {
    let mut host = make();
    let fd = bell_fd();
    host.watch_eventfd(Token(1), fd.as_raw_fd()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| bump(&fd, 1));
        host.idle(Some(MonoNs::MAX)).unwrap();
    });
    assert_eq!(host.reap(&mut EventBatch::new()).unwrap(), 1);
}

#[test]
fn a_hot_turn_asks_now_and_then() {
    let mut host = make();
    let (fd, mut batch) = (bell_fd(), EventBatch::new());
    host.watch_eventfd(Token(1), fd.as_raw_fd()).unwrap();
    let (start, before) = (clock::now(), host.syscalls());
    let mut turns = 0_u64;
    while clock::now().since(start) < DurNs::from_us(2000) {
        assert_eq!(host.reap(&mut batch).unwrap(), 0);
        turns += 1;
    }
    let asked = host.syscalls() - before;
    assert!(asked <= 1 + clock::now().since(start).0 / ASK_EVERY.0, "{asked} in {turns}");
    bump(&fd, 1);
    let until = patience();
    while host.reap(&mut batch).unwrap() == 0 {
        assert!(clock::now() < until);
    }
    assert_eq!(batch.as_slice(), [HostEvent::Bell(Token(1))]);
}

#[test]
fn more_events_than_a_batch_come_in_batches() {
    let mut host = make();
    let fds: Vec<_> = (0..BATCH_EVENTS + 10).map(|_| bell_fd()).collect();
    for (n, fd) in fds.iter().enumerate() {
        bump(fd, 1);
        host.poll_fd(Token(n as u64), fd.as_raw_fd()).unwrap();
    }
    let mut events = collect(&mut host, fds.len());
    events.sort_by_key(|event| match event {
        HostEvent::Fd(token, _) => token.0,
        _ => panic!("{event:?}"),
    });
    for (n, event) in events.iter().enumerate() {
        assert_eq!(*event, HostEvent::Fd(Token(n as u64), libc::POLLIN.into()));
    }
}

/// What fired is out of epoll: the fd's number can be closed and used again at once.
#[test]
fn a_fired_poll_leaves_nothing_behind() {
    let mut host = make();
    let fd = bell_fd();
    bump(&fd, 1);
    host.poll_fd(Token(1), fd.as_raw_fd()).unwrap();
    collect(&mut host, 1);
    assert!(host.watches.is_empty());
    host.watch_eventfd(Token(1), fd.as_raw_fd()).unwrap();
    host.cancel(Watch::Eventfd, Token(1)).unwrap();
    assert!(host.watches.is_empty());
    assert_eq!(settle(&mut host), []);
}
