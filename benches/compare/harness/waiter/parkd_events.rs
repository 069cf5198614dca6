//! An event loop that sleeps in epoll on a session's eventfd and serves all its waiters.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use parkd::client::{EventDriver, Lane, Session};
use parkd::core::time::MonoNs;
use parkd::host::clock;
use rustix::event::{Timespec, epoll};

use super::super::{Doing, Result};
use super::parkd_threads::found;
use super::place::Place;
use super::watch::Watch;
use super::{Serve, lost};

const EVENTS: u64 = 1;
const HANG_UP: u64 = 2;

/// See the file's head.
pub struct Events {
    session: Session,
    lanes: Vec<Lane>,
    driver: EventDriver,
    epoll: OwnedFd,
}

impl Events {
    /// For all waiters of a place.
    pub fn new(place: &Place) -> Result<Events> {
        let (session, lanes) = place.session()?.clone();
        let driver = session.event_driver().doing("event driver")?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("epoll")?;
        for (fd, data) in [(driver.events(), EVENTS), (driver.hang_up(), HANG_UP)] {
            let data = epoll::EventData::new_u64(data);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).doing("epoll")?;
        }
        Ok(Events { session, lanes, driver, epoll })
    }

    fn submit(&self, watch: &Watch) -> Result<()> {
        let Some(number) = watch.next() else { return Ok(()) };
        let place = watch.place;
        let ticket = self.lanes[place as usize].ticket(number).point(u64::from(place) + 1);
        ticket.submit_tagged(place.into()).doing("submit")
    }

    /// Sleeps until something came, and tells the session's driver.
    fn turn(&self, until: MonoNs) -> Result<()> {
        let left = std::time::Duration::from_nanos(until.since(clock::now()).0);
        let left = Timespec::try_from(left).doing("patience")?;
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: DATA }; 2];
        let came = epoll::wait(&self.epoll, &mut events[..], Some(&left));
        let came = came.or_else(|errno| match errno {
            rustix::io::Errno::INTR => Ok(0),
            errno => Err(errno),
        });
        for event in &events[..came.doing("epoll")?] {
            match { event.data }.u64() {
                HANG_UP => self.driver.check().doing("hang up")?,
                _ => self.driver.turn().doing("turn")?,
            }
        }
        Ok(())
    }
}

const DATA: epoll::EventData = epoll::EventData::new_u64(0);

impl Serve for Events {
    fn serve(&mut self, mut watches: Vec<Watch>, until: MonoNs) -> Result<Vec<Watch>> {
        let mut completions = self.session.completions();
        let mut context = Context::from_waker(Waker::noop());
        for watch in &watches {
            self.submit(watch)?;
        }
        loop {
            match completions.poll_next(&mut context) {
                Poll::Ready(Some(next)) => {
                    let (tag, completion) = next.doing("next")?;
                    let watch = watches.get_mut(tag as usize).ok_or("a tag")?;
                    watch.done(found(&completion)?)?;
                    self.submit(watch)?;
                }
                Poll::Ready(None) => return Ok(watches),
                Poll::Pending if clock::now() >= until => {
                    return Err(lost(watches.iter().find_map(Watch::next).unwrap_or(0)));
                }
                Poll::Pending => self.turn(until)?,
            }
        }
    }
}
