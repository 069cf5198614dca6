//! What a producer does behind a store, so that a waiter wakes.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use parkd::host::futex::{self, FutexAddr};
use parkd::proto::layout::lanes;
use parkd::shm::area::open_status;
use parkd::shm::bells::{Bell, Ring};
use parkd::shm::region::{ReadOnly, ReadWrite, Region};
use parkd::shm::words::ReadWords;
use serde::{Deserialize, Serialize};

use super::orders::Run;
use super::relay;
use super::{Doing, Result};

/// What a producer does behind a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WakeKind {
    /// Nothing, as a device.
    Silent,
    /// Rings the daemon's bell.
    Bell,
    /// Wakes whoever sleeps on the word.
    Futex,
    /// Writes the waiter's eventfd.
    Eventfd,
    /// Notifies the waiter's condition variable.
    Condvar,
    /// Tells the relay.
    Relay,
    /// What the peer does.
    Peer,
}

/// Another way of waiting and waking, which needs more than this package has.
pub trait Peer: Sync {
    /// A waiter's end of the event of this name. Called on its thread; waits at most for the time
    /// given.
    fn listen(&self, name: &str) -> Result<Box<dyn FnMut(Duration) -> Result<()>>>;

    /// The producer's end.
    fn notify(&self, name: &str) -> Result<Box<dyn FnMut() -> Result<()>>>;
}

/// The name of a waiter's event.
pub fn event_name(run: &Run, waiter: u32) -> String {
    format!("{}/{waiter}", run.name)
}

/// A number under a lock, with its condition variable.
#[derive(Debug, Default)]
pub struct Told {
    number: Mutex<u64>,
    changed: Condvar,
}

impl Told {
    fn tell(&self, number: u64) {
        *self.number.lock().unwrap_or_else(PoisonError::into_inner) = number;
        self.changed.notify_one();
    }

    /// Waits until told of `number`, for at most `patience`.
    pub fn wait(&self, number: u64, patience: Duration) {
        let told = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let later = |told: &mut u64| *told < number;
        let waited = self.changed.wait_timeout_while(told, patience, later);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// What a producer has for the wakes of all processes.
pub struct Means<'a> {
    peer: Option<&'a dyn Peer>,
    relay: Option<Arc<UnixStream>>,
}

impl<'a> Means<'a> {
    /// For this run.
    pub fn new(run: &Run, peer: Option<&'a dyn Peer>) -> Result<Means<'a>> {
        let connect = |path: &std::path::PathBuf| relay::connect(path, relay::PRODUCER);
        let relay = run.relay.as_ref().map(connect).transpose()?.map(Arc::new);
        Ok(Means { peer, relay })
    }
}

/// The wakes of one process's waiters.
pub enum Waker {
    Silent,
    Bell(Bell<Region<ReadWrite>, Region<ReadOnly>>, Option<OwnedFd>),
    Futex(Region<ReadWrite>),
    Eventfd(Vec<OwnedFd>),
    Condvar(Arc<Vec<Told>>),
    /// The producer's one connection, and the first of these waiters among all.
    Relay(Arc<UnixStream>, u32),
    Peer(Vec<Box<dyn FnMut() -> Result<()>>>),
}

/// The bell of the one device that the shipped configuration has.
const BELL: u32 = 1;

impl Waker {
    /// The wakes for process `process` of a run, whose words are `words`, from the fds that it
    /// handed over beside its areas.
    pub fn new(
        run: &Run,
        process: u32,
        words: &Region<ReadWrite>,
        mut fds: std::vec::IntoIter<OwnedFd>,
        means: &Means<'_>,
    ) -> Result<Waker> {
        let first = process * run.each();
        Ok(match run.wake {
            WakeKind::Silent => Waker::Silent,
            WakeKind::Futex => Waker::Futex(words.clone()),
            WakeKind::Eventfd => Waker::Eventfd(fds.collect()),
            WakeKind::Condvar => return Err("a condvar of another process".into()),
            WakeKind::Bell => {
                let status = open_status(fds.next().ok_or("no status page")?).doing("status")?;
                let bell = Bell::new(words.clone(), status, BELL).doing("bell")?;
                Waker::Bell(bell, fds.next())
            }
            WakeKind::Relay => Waker::Relay(means.relay.clone().ok_or("no relay")?, first),
            WakeKind::Peer => {
                let peer = means.peer.ok_or("no peer")?;
                let notify = |waiter| peer.notify(&event_name(run, first + waiter));
                Waker::Peer((0..run.each()).map(notify).collect::<Result<_>>()?)
            }
        })
    }

    /// Wakes the waiter at `place` among those of the process: its word has this number now.
    pub fn wake(&mut self, place: u32, number: u64) -> Result<()> {
        match self {
            Waker::Silent => Ok(()),
            Waker::Bell(bell, eventfd) => match (bell.ring(), eventfd) {
                (Ring::Awake, _) => Ok(()),
                (Ring::MustWake, Some(eventfd)) => add_one(eventfd),
                (Ring::MustWake, None) => wake_word(bell.address()),
            },
            Waker::Futex(words) => wake_word(words.address(lanes::lane(place))),
            Waker::Eventfd(eventfds) => add_one(&eventfds[place as usize]),
            Waker::Condvar(told) => {
                told[place as usize].tell(number);
                Ok(())
            }
            Waker::Relay(stream, first) => {
                let news = relay::news(*first + place, number);
                stream.as_ref().write_all(&news).doing("relay")
            }
            Waker::Peer(notify) => notify[place as usize](),
        }
    }
}

fn add_one(eventfd: &OwnedFd) -> Result<()> {
    rustix::io::write(eventfd, &1_u64.to_ne_bytes()).map(drop).doing("eventfd")
}

fn wake_word(address: usize) -> Result<()> {
    futex::wake_one(FutexAddr::new(address)).map(drop).doing("futex")
}
