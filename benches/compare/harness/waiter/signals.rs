//! Waiters whom a cooperating producer wakes.

use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use parkd::core::time::MonoNs;
use parkd::host::clock;
use parkd::host::futex::{self, FutexAddr};
use parkd::proto::layout::lanes;
use parkd::shm::region::{ReadOnly, Region};
use parkd::shm::words::ReadWords;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::super::orders::Run;
use super::super::relay;
use super::super::wake::{Peer, Told, event_name};
use super::super::{Doing, Result};
use super::place::Place;
use super::watch::{Found, Watch};
use super::{Serve, Wait, lost};

fn left(until: MonoNs) -> Duration {
    Duration::from_nanos(until.since(clock::now()).0)
}

/// Asleep on the low half of the word itself.
pub struct OnFutex {
    address: FutexAddr,
    /// Keeps the word mapped.
    _words: Region<ReadOnly>,
}

impl OnFutex {
    /// For a waiter of a place.
    pub fn new(place: &Place, waiter: u32) -> Result<OnFutex> {
        let words = place.words()?;
        Ok(OnFutex { address: FutexAddr::new(words.address(lanes::lane(waiter))), _words: words })
    }
}

impl Wait for OnFutex {
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        loop {
            let word = watch.word();
            if watch.reached(number) || clock::now() >= until {
                return Ok(Found::default());
            }
            futex::wait(self.address, word as u32, Some(until)).doing("futex")?;
        }
    }
}

/// Asleep in epoll on the eventfds of all waiters.
pub struct OnEventfds {
    eventfds: Vec<OwnedFd>,
    epoll: OwnedFd,
}

impl OnEventfds {
    /// For all waiters of a place.
    pub fn new(place: &Place) -> Result<OnEventfds> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("epoll")?;
        let mut eventfds = Vec::new();
        for (at, eventfd) in place.eventfds().iter().enumerate() {
            let data = epoll::EventData::new_u64(at as u64);
            epoll::add(&epoll, eventfd, data, epoll::EventFlags::IN).doing("epoll")?;
            eventfds.push(eventfd.try_clone().doing("eventfd")?);
        }
        Ok(OnEventfds { eventfds, epoll })
    }
}

impl Serve for OnEventfds {
    fn serve(&mut self, mut watches: Vec<Watch>, until: MonoNs) -> Result<Vec<Watch>> {
        let mut events = Vec::with_capacity(watches.len());
        while let Some(number) = watches.iter().find_map(Watch::next) {
            if clock::now() >= until {
                return Err(lost(number));
            }
            events.clear();
            let patience = Timespec::try_from(left(until)).doing("patience")?;
            let into = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, into, Some(&patience)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(format!("epoll: {errno}")),
            }
            for event in &events {
                let at = { event.data }.u64() as usize;
                // The count says nothing: the word does.
                let _ = rustix::io::read(&self.eventfds[at], &mut [0_u8; 8]);
                let watch = &mut watches[at];
                while watch.next().is_some_and(|number| watch.reached(number)) {
                    watch.done(Found::default())?;
                }
            }
        }
        Ok(watches)
    }
}

/// Asleep on a condition variable.
pub struct OnCondvar {
    told: Arc<Vec<Told>>,
    place: usize,
}

impl OnCondvar {
    /// For a waiter of this process.
    pub fn new(told: &Arc<Vec<Told>>, waiter: u32) -> OnCondvar {
        OnCondvar { told: told.clone(), place: waiter as usize }
    }
}

impl Wait for OnCondvar {
    fn wait(&mut self, _: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        self.told[self.place].wait(number, left(until));
        Ok(Found::default())
    }
}

/// Asleep in a read of the relay's socket.
pub struct OnRelay(UnixStream);

impl OnRelay {
    /// For waiter `stream` of a run.
    pub fn connect(run: &Run, stream: u32) -> Result<OnRelay> {
        let path = run.relay.as_ref().ok_or("no relay")?;
        let stream = relay::connect(path, stream)?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).doing("relay")?;
        Ok(OnRelay(stream))
    }
}

impl Wait for OnRelay {
    fn wait(&mut self, _: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        let mut told = [0; 8];
        loop {
            match self.0.read_exact(&mut told) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => read.doing("relay")?,
            }
            if u64::from_ne_bytes(told) >= number || clock::now() >= until {
                return Ok(Found::default());
            }
        }
    }
}

/// Asleep on a peer's event.
pub struct OnPeer(Box<dyn FnMut(Duration) -> Result<()>>);

impl OnPeer {
    /// For waiter `stream` of a run.
    pub fn new(run: &Run, stream: u32, peer: Option<&dyn Peer>) -> Result<OnPeer> {
        peer.ok_or("no peer")?.listen(&event_name(run, stream)).map(OnPeer)
    }
}

impl Wait for OnPeer {
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        while !watch.reached(number) && clock::now() < until {
            self.0(left(until))?;
        }
        Ok(Found::default())
    }
}
