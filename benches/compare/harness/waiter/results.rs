//! A waiter that looks at the result ring alone: when the daemon's answer is there to be seen, with
//! no wake on the way. It goes around the library, which would look at the lane too.

use parkd::core::time::MonoNs;
use parkd::host::clock;
use parkd::host::futex::{self, FutexAddr};
use parkd::proto::entry::SubmitEntry;
use parkd::shm::bells::{Bell, Ring};
use parkd::shm::region::{ReadOnly, ReadWrite, Region};
use parkd::shm::result_ring::ResultConsumer;
use parkd::shm::ring::RingSizes;
use parkd::shm::submit_ring::SubmitProducer;

use super::super::{Doing, Result, load};
use super::Wait;
use super::watch::{Found, Watch};
use crate::support::raw;

/// Looks between two at the clock.
const LOOKS: u32 = 1024;

/// See the file's head.
pub struct OnResults {
    submissions: SubmitProducer<Region<ReadWrite>>,
    results: ResultConsumer<Region<ReadWrite>>,
    doorbell: Bell<Region<ReadWrite>, Region<ReadOnly>>,
}

impl OnResults {
    /// Over the rings of a session, on a CPU that is not the daemon's, whose looks are measured.
    pub fn new(session: &raw::Session, cpu: Option<u32>) -> Result<OnResults> {
        load::keep_off(cpu)?;
        if session.bell.is_some() {
            return Err("bells are eventfds here".into());
        }
        let welcome = &session.welcome;
        let sizes =
            RingSizes::new(welcome.submit_entries, welcome.result_entries).doing("rings")?;
        Ok(OnResults {
            submissions: SubmitProducer::new(session.rings.clone(), sizes).doing("rings")?,
            results: ResultConsumer::new(session.rings.clone(), sizes).doing("rings")?,
            doorbell: Bell::new(session.lanes.clone(), session.status.clone(), 0).doing("bell")?,
        })
    }

    fn submit(&mut self, watch: &Watch, number: u64) -> Result<()> {
        let ticket = SubmitEntry { point: 1, ..raw::word(watch.place, number, number) };
        if self.submissions.push(&ticket.to_words()).doing("push")?.is_none() {
            return Err("the submission ring is full".into());
        }
        self.submissions.publish();
        if self.doorbell.ring() == Ring::MustWake {
            futex::wake_one(FutexAddr::new(self.doorbell.address())).doing("doorbell")?;
        }
        Ok(())
    }
}

impl Wait for OnResults {
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        if watch.reached(number) {
            // Nobody has to look for it; who has fallen behind catches up.
            return Ok(Found::default());
        }
        self.submit(watch, number)?;
        loop {
            for _ in 0..LOOKS {
                if self.results.next().is_some() {
                    self.results.advance();
                    return Ok(Found { late: false, detected: Some(clock::now()) });
                }
                std::hint::spin_loop();
            }
            if clock::now() >= until {
                return Ok(Found::default());
            }
        }
    }
}
