//! The trial of hosts that lose and delay: the naive one, which needs no ring, and a fault.

use std::os::fd::RawFd;

use super::*;
use crate::host::fill::Watch;
use crate::host::naive::NaiveHost;

/// What is wrong with a host.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The event of this wait never comes.
    Loses(u64),
    /// The events of these waits, first and last, come 45 ms after they could: reports say 11, but
    /// a busy machine holds threads up for that long, and what it does is taken off.
    Delays(u64, u64),
    /// From this wait on, every other event comes twice.
    Doubles(u64),
    /// Nothing ever happens, and nobody is woken.
    Sleeps,
}

struct Faulty {
    host: NaiveHost,
    fault: Fault,
    /// To be handed out, and when.
    delayed: Vec<(MonoNs, HostEvent)>,
}

impl FillHost for Faulty {
    const LABEL: &'static str = "faulty";
    const WORDS: bool = true;

    fn watch_word(&mut self, token: Token, addr: FutexAddr, seen: u32) -> io::Result<()> {
        match self.fault {
            Fault::Loses(lost) if lost == token.0 => Ok(()),
            Fault::Sleeps => Ok(()),
            _ => self.host.watch_word(token, addr, seen),
        }
    }
    fn watch_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.host.watch_eventfd(token, fd)
    }
    fn poll_fd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.host.poll_fd(token, fd)
    }
    fn cancel(&mut self, kind: Watch, token: Token) -> io::Result<()> {
        self.host.cancel(kind, token)
    }
    fn wake_word(&mut self, addr: FutexAddr) -> io::Result<()> {
        self.host.wake_word(addr)
    }
    fn ring_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.host.ring_eventfd(token, fd)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.host.flush()
    }
    fn idle(&mut self, until: Option<MonoNs>) -> io::Result<()> {
        // In one sleep: a thread that wakes up is held up on a busy machine, which is no lateness.
        match self.delayed.iter().map(|(at, _)| *at).min() {
            Some(due) => futex::wait((&AtomicU32::new(0)).into(), 0, Some(due)).map(|_| ()),
            None => self.host.idle(until),
        }
    }
    fn reap(&mut self, out: &mut EventBatch) -> io::Result<usize> {
        self.host.reap(out)?;
        let events = out.as_slice().to_vec();
        out.clear();
        for event in events {
            let HostEvent::Bell(Token(wait)) = event else { continue };
            match self.fault {
                Fault::Delays(first, last) if (first..=last).contains(&wait) => {
                    self.delayed.push((clock::now() + DurNs(45_000_000), event));
                }
                Fault::Doubles(from) if wait >= from => {
                    out.push(event);
                    // As if it had been meant for the next wait.
                    self.delayed.push((MonoNs(0), HostEvent::Bell(Token(wait + 1))));
                }
                _ => {
                    out.push(event);
                }
            }
        }
        let now = clock::now();
        let due: Vec<_> = self.delayed.extract_if(.., |(at, _)| *at <= now).collect();
        due.into_iter().for_each(|(_, event)| {
            out.push(event);
        });
        Ok(out.len())
    }
    fn syscalls(&self) -> u64 {
        self.host.syscalls()
    }
}

fn verdict(fault: Fault) -> Verdict {
    on(&mut Faulty { host: NaiveHost::new().unwrap(), fault, delayed: Vec::new() }, PATIENCE)
}

#[test]
fn the_ring_of_this_machine_is_sound() {
    match std::thread::spawn(run).join().unwrap() {
        Verdict::Sound(races) => assert!(races >= RACES_MIN),
        Verdict::Unknown(_) => {}
        Verdict::Doubtful(what) => panic!("{what}"),
    }
}

#[test]
fn a_lost_wake_is_seen() {
    for lost in [1, 2, 40] {
        let expected = format!("1 of {lost} futex wakes were lost");
        assert_eq!(verdict(Fault::Loses(lost)), Verdict::Doubtful(expected));
    }
    let expected = Verdict::Doubtful("1 of 1 futex wakes were lost".to_owned());
    assert_eq!(verdict(Fault::Sleeps), expected);
}

#[test]
fn wakes_that_come_late_are_seen() {
    // Many, since what is late may be the waker.
    let Verdict::Doubtful(what) = verdict(Fault::Delays(3, 80)) else { panic!("not seen") };
    assert!(what.starts_with("4 of ") && what.ends_with("came more than 5 ms late"), "{what}");
}

#[test]
fn one_late_wake_and_doubled_ones_are_no_doubt() {
    for fault in [Fault::Delays(10, 10), Fault::Doubles(5), Fault::None] {
        let found = verdict(fault);
        assert!(!matches!(found, Verdict::Doubtful(_)), "{found:?}");
    }
}

#[test]
fn few_races_prove_nothing() {
    let counted = Counted { races: RACES_MIN - 1, ..Counted::default() };
    assert!(matches!(counted.verdict(), Verdict::Unknown(_)));
    let counted = Counted { races: RACES_MIN, late: LATE_MAX, ..counted };
    assert_eq!(counted.verdict(), Verdict::Sound(RACES_MIN));
    let counted = Counted { late: LATE_MAX + 1, ..counted };
    assert!(matches!(counted.verdict(), Verdict::Doubtful(_)));
}
