//! A client whose other threads change what the daemon reads, just then: each ticket has one
//! result, or the session a code, and what was done to one's own memory stays there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parkd::core::error::ErrorCode;
use parkd::host::futex;
use parkd::proto::entry::{Status, SubmitEntry, phase_of};
use parkd::proto::layout::{SessionState, armed, lanes, rings};
use parkd::shm::area;
use parkd::shm::region::{ReadOnly, Region};
use parkd::shm::words::{ReadWords, WriteWords};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use super::crowd::Crowd;
use super::memory::punch;
use super::support::raw::{Session, fd, readable, word};
use super::support::{Executor, skipped, until};
use super::{Raise, Scene, beside};

crate::for_each_executor! {
    entries_are_rewritten_while_they_are_taken,
    results_are_written_over,
    armed_flags_flap,
    result_heads_flap,
    bells_run_backwards,
    wakes_come_through_read_only_maps,
    fifty_thousand_wait_on_one_tail,
    an_eventfd_is_filled_while_it_is_written,
    a_session_waits_for_its_own_eventfd,
    a_tickets_eventfd_is_read_by_others,
    stale_entries_are_published_again,
}

/// A session with one lane, in a scene.
fn stage(executor: &Executor) -> (Scene, Session) {
    let scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    session.lane(64);
    (scene, session)
}

/// The session is served on.
fn served(session: &mut Session, number: u64) {
    session.push(&[word(0, number, number)]);
    session.store(0, number);
    until("the last ticket's result", || {
        std::iter::from_fn(|| session.take()).find(|result| result.user_data == number)
    });
}

fn entries_are_rewritten_while_they_are_taken(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let memory = session.rings.clone();
    let (mut refused, mut done) = (0, 0);
    // From a ticket to no ticket and back, in one word: op and kind stay what they are.
    let flap = move || {
        for slot in 0..64 {
            memory.store32(rings::SUBMIT_RING + slot * 64 + 4, slot as u32 % 2 * 63);
        }
    };
    beside(flap, || {
        for name in 1..=2000 {
            session.push(&[word(0, 0, name)]);
            let result = session.result();
            assert_eq!(result.user_data, name, "another ticket's result");
            match Status::from_number(result.status) {
                Some(Status::Done) => done += 1,
                Some(Status::Refused) => {
                    assert_eq!(result.code, u32::from(ErrorCode::NoSuchLane.number()));
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(done + refused, 2000);
    session.still();
    scene.goes_on();
    served(&mut session, 9999);
    scene.unharmed();
}

fn results_are_written_over(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let memory = session.rings.clone();
    let ring = rings::result_ring(session.welcome.submit_entries);
    let scribble = move || {
        for at in (0..64 * 64).step_by(8) {
            memory.store64(ring + at, u64::MAX);
        }
    };
    beside(scribble, || {
        for number in 1..=200 {
            session.push(&[word(0, number, number)]);
            session.store(0, number);
            // By the tail, since the entries say nothing.
            session.published(number as u32);
            session.result_head = number as u32;
            session.rings.store32(rings::RESULT_HEAD, session.result_head);
        }
    });
    assert_eq!(session.state(), Some(SessionState::Live));
    served(&mut session, 201);
    scene.unharmed();
}

fn armed_flags_flap(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let memory = session.rings.clone();
    let flap = move || {
        for word in [armed::word(0, armed::BOTH), armed::word(1, armed::NOT), u32::MAX, 0] {
            memory.store32(rings::ARMED, word);
        }
    };
    beside(flap, || {
        for number in 1..=300 {
            session.push(&[word(0, number, number)]);
            session.store(0, number);
            assert_eq!(session.outcome(), (number, Status::Done));
            if number % 100 == 0 {
                scene.goes_on();
            }
        }
    });
    // Once it means what it says it is told again.
    session.push(&[word(0, 301, 301)]);
    let producer = session.producer();
    std::thread::scope(|scope| {
        scope.spawn(|| producer.store(0, 301));
        assert_eq!(session.told(armed::TAIL).user_data, 301);
    });
    scene.unharmed();
}

fn result_heads_flap(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let memory = session.rings.clone();
    let flap = move || {
        for head in [0, 1 << 31, 5, u32::MAX] {
            memory.store32(rings::RESULT_HEAD, head);
        }
    };
    beside(flap, || {
        for name in 1..=1000 {
            session.push(&[word(0, 0, name)]);
            if session.state() == Some(SessionState::Closed) {
                break;
            }
        }
        assert_eq!(session.close_code(), ErrorCode::RingIndex);
        scene.goes_on();
    });
    assert_eq!(session.wire.parted(), ErrorCode::RingIndex);
    scene.unharmed();
}

fn bells_run_backwards(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let memory = session.lanes.clone();
    let flap = move || {
        for bell in 0..lanes::BELLS {
            for count in [0, u32::MAX, 7] {
                memory.store32(lanes::bell(bell), count);
            }
        }
    };
    // A ring that was undone is no ring: the session's own tickets may have to wait.
    beside(flap, || {
        for number in 1..=50 {
            session.push(&[word(0, number, number)]);
            session.store(0, number);
            if number % 10 == 0 {
                scene.goes_on();
            }
        }
    });
    for number in 1..=50 {
        until("a result", || {
            session.ring(0);
            session.take()
        });
        assert_eq!(u64::from(session.result_head), number);
    }
    served(&mut session, 51);
    scene.unharmed();
}

fn wakes_come_through_read_only_maps(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let (reader, _) = area::open_lanes::<ReadOnly>(&session.lanes_fd).expect("the lanes");
    let page: Region<ReadOnly> = session.status.clone();
    let spam = move || {
        for address in [
            reader.address(lanes::bell(0)),
            reader.address(lanes::bell(1)),
            page.address(parkd::proto::layout::status::PARKED),
        ] {
            let _ = futex::wake_one(futex::FutexAddr::new(address));
        }
    };
    beside(spam, || {
        for number in 1..=50 {
            session.push(&[word(0, number, number)]);
            session.store(0, number);
            assert_eq!(session.outcome(), (number, Status::Done));
            scene.goes_on();
        }
    });
    scene.unharmed();
}

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Waits on the tail of four processes, all of them asleep.
fn fifty_thousand_wait_on_one_tail(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let crowd = match Crowd::gather(&session) {
        Ok(crowd) => crowd,
        Err(why) => return skipped(&why),
    };
    for number in 1..=50 {
        session.arm(armed::TAIL);
        session.push(&[word(0, number, number)]);
        session.store(0, number);
        assert_eq!(session.outcome(), (number, Status::Done));
        scene.goes_on();
    }
    // One wake a publication: the crowd still sleeps, but for a few.
    let woken = crowd.woken();
    assert!((1..=50).contains(&woken), "{woken} waiters were woken by 50 results");
    scene.unharmed();
}

/// The one place left in an eventfd that blocks is taken between the daemon's look and its write,
/// or about then.
fn an_eventfd_is_filled_while_it_is_written(executor: &Executor) {
    const ROUNDS: u32 = 400;
    let (mut scene, mut session) = stage(executor);
    fcntl_setfl(&session.eventfd, OFlags::RDWR).expect("its flags");
    let room_for_one = (u64::MAX - 2).to_ne_bytes();
    rustix::io::write(&session.eventfd, &room_for_one).expect("a write");
    let (memory, eventfd) = (session.rings.clone(), session.eventfd.try_clone().expect("dup"));
    let (published, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let ended = AtomicBool::new(false);
    let ring = rings::result_ring(session.welcome.submit_entries);
    std::thread::scope(|scope| {
        let (published, over, ended) = (&published, &over, &ended);
        scope.spawn(move || {
            for round in 0..ROUNDS {
                let phase = ring + (round % 64 * 64) as usize + 56;
                while published.load(Ordering::Acquire) < round
                    || memory.load32(phase) != phase_of(round, 64)
                {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::hint::spin_loop();
                }
                for _ in 0..round % 100 * 10 {
                    std::hint::spin_loop();
                }
                // Where the daemon was first there is no room: the others would wait for it.
                let mut room = [PollFd::new(&eventfd, PollFlags::OUT)];
                if poll(&mut room, Some(&NOW)) == Ok(1) {
                    let _ = rustix::io::write(&eventfd, &1u64.to_ne_bytes());
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
        let _end = Raise(over);
        // Either of the others may have written meanwhile, or wait for room to.
        let empty = |session: &Session| {
            fcntl_setfl(&session.eventfd, OFlags::RDWR | OFlags::NONBLOCK).expect("its flags");
            let _ = rustix::io::read(&session.eventfd, &mut [0; 8]);
        };
        for number in 1..=ROUNDS {
            session.arm(armed::NOTIFY);
            session.push(&[word(0, number.into(), number.into())]);
            session.store(0, number.into());
            assert_eq!(session.outcome(), (number.into(), Status::Done));
            scene.goes_on();
            until("room for one is all that is left", || {
                empty(&session);
                rustix::io::write(&session.eventfd, &room_for_one).ok()
            });
            fcntl_setfl(&session.eventfd, OFlags::RDWR).expect("its flags");
            published.store(number, Ordering::Release);
        }
        until("nobody writes any more", || {
            empty(&session);
            ended.load(Ordering::Relaxed).then_some(())
        });
    });
    scene.unharmed();
}

fn a_session_waits_for_its_own_eventfd(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let own = session.eventfd.try_clone().expect("a duplicate");
    // Each notification completes the next ticket, whose result is notified again.
    for name in 1..=20 {
        session.submit(&[fd(0, name)], &[own.as_fd()]);
        session.arm(armed::NOTIFY);
        if name == 1 {
            rustix::io::write(&own, &1u64.to_ne_bytes()).expect("a write");
        }
        assert_eq!(session.outcome(), (name, Status::Done));
    }
    scene.goes_on();
    served(&mut session, 21);
    scene.unharmed();
}

fn a_tickets_eventfd_is_read_by_others(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let event: OwnedFd =
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("one");
    let other = event.try_clone().expect("a duplicate");
    let flap = move || {
        let _ = rustix::io::write(&other, &1u64.to_ne_bytes());
        let _ = rustix::io::read(&other, &mut [0; 8]);
    };
    let deadline = |ms: u64| parkd::host::clock::now().0 + ms * 1_000_000;
    beside(flap, || {
        for name in 1..=100 {
            let ticket = SubmitEntry { deadline_ns: deadline(20), ..fd(0, name) };
            session.submit(&[ticket], &[event.as_fd()]);
            let (of, status) = session.outcome();
            assert_eq!(of, name);
            assert!(matches!(status, Status::Done | Status::DeadlineExpired), "{status:?}");
        }
        scene.goes_on();
    });
    session.still();
    scene.unharmed();
}

fn stale_entries_are_published_again(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    for name in 1..=64 {
        session.push(&[word(0, 0, name)]);
        assert_eq!(session.outcome(), (name, Status::Done));
    }
    // A lap ahead without a new entry: what stands there is taken as what it says.
    session.submit_tail = session.submit_tail.wrapping_add(64);
    session.rings.store32(rings::SUBMIT_TAIL, session.submit_tail);
    session.ring(0);
    for name in 1..=64 {
        assert_eq!(session.outcome(), (name, Status::Done));
    }
    session.still();
    // Until somebody zeroes it.
    punch(&session.rings_fd, rings::SUBMIT_RING);
    session.submit_tail = session.submit_tail.wrapping_add(1);
    session.rings.store32(rings::SUBMIT_TAIL, session.submit_tail);
    session.ring(0);
    assert_eq!(session.close_code(), ErrorCode::BadMessage);
    assert!(readable(&session.wire.socket));
    scene.unharmed();
}
