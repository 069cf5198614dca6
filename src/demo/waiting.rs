//! The ways in which a client waits for its lanes.
//!
//! All ways keep the same number of tickets in flight on the same jobs and count them with the same
//! [`Tally`]; they differ in what the client does until a number has landed.

use std::hint;
use std::time::Duration;

use clap::ValueEnum;

use super::tally::{Latencies, Sight, Tally};
use crate::client::{Lane, Session};
use crate::core::error::Result;
use crate::core::line::Width;
use crate::core::time::MonoNs;
use crate::host::clock;
use crate::host::futex::{self, FutexAddr};
use crate::shm::bells::BellsView;
use crate::shm::region::{ReadOnly, Region};
use crate::soft::stamps::StampReader;

/// Pause between two looks of a polling client.
const POLL: Duration = Duration::from_micros(100);
/// The bell that a cooperating device rings.
pub(super) const BELL: u32 = 1;

/// How a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Submits tickets to the daemon.
    Parkd,
    /// Looks without a pause.
    Spin,
    /// Looks every 100 us.
    #[value(name = "poll-100us")]
    Poll,
    /// Sleeps on a futex that the device wakes: only with a device that cooperates.
    Futex,
}

impl Way {
    /// The way's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Way::Parkd => "parkd",
            Way::Spin => "spin",
            Way::Poll => "poll-100us",
            Way::Futex => "futex",
        }
    }
}

/// A lane that a client waits for.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) stamps: StampReader<Region<ReadOnly>>,
    pub(super) tally: Tally,
}

impl Watched {
    fn sight(&self, number: u64) -> Sight {
        // The clock first: what it takes to look is not latency.
        let now = clock::now();
        Sight { word: self.stamps.word(), now, stored: self.stamps.stamp(number) }
    }

    /// Looks at the word once: what has landed is done, and the next tickets go out.
    fn look(&mut self, latencies: &mut Latencies) {
        let word = self.stamps.word();
        while let Some(number) = self.tally.oldest()
            && Width::W64.reached(word, number)
        {
            self.tally.done(number, self.sight(number), latencies);
        }
        while self.tally.submit(word).is_some() {}
    }
}

fn all_over(watched: &[Watched]) -> bool {
    watched.iter().all(|lane| lane.tally.is_over())
}

/// Waits by looking, without a pause (`spin`) or with one between two looks; at most until `until`.
pub(super) fn by_looking(
    watched: &mut [Watched],
    latencies: &mut Latencies,
    spin: bool,
    until: MonoNs,
) {
    while !all_over(watched) && clock::now() < until {
        watched.iter_mut().for_each(|lane| lane.look(latencies));
        if spin {
            hint::spin_loop();
        } else {
            std::thread::sleep(POLL);
        }
    }
}

/// Waits on the futex of a bell that the device rings behind each store; at most until `until`.
pub(super) fn by_futex(
    watched: &mut [Watched],
    latencies: &mut Latencies,
    bells: &BellsView<Region<ReadOnly>>,
    until: MonoNs,
) -> Result<()> {
    let address = FutexAddr::new(bells.address(BELL));
    loop {
        let seen = bells.read(BELL);
        watched.iter_mut().for_each(|lane| lane.look(latencies));
        if all_over(watched) || clock::now() >= until {
            return Ok(());
        }
        futex::wait(address, seen, Some(until)).map_err(super::error::futex)?;
    }
}

/// Waits for tickets submitted to the daemon, on `lanes` of `session`; at most until `until`.
pub(super) fn by_daemon(
    watched: &mut [Watched],
    latencies: &mut Latencies,
    session: &Session,
    lanes: &[Lane],
    until: MonoNs,
) -> Result<()> {
    for (slot, (lane, of)) in lanes.iter().zip(watched.iter_mut()).enumerate() {
        submit(slot, lane, of)?;
    }
    while !all_over(watched) {
        let left = Duration::from_nanos(until.since(clock::now()).0);
        let Some((tag, completion)) = session.next_completion(Some(left))? else { break };
        let (slot, number) = untag(tag);
        let (Some(of), Some(lane)) = (watched.get_mut(slot), lanes.get(slot)) else { continue };
        if completion.is_done() {
            of.tally.done(number, of.sight(number), latencies);
        } else {
            of.tally.failed(number);
        }
        submit(slot, lane, of)?;
    }
    Ok(())
}

/// Submits as many tickets as may be in flight.
fn submit(slot: usize, lane: &Lane, of: &mut Watched) -> Result<()> {
    while let Some(number) = of.tally.submit(of.stamps.word()) {
        lane.ticket(number).point(slot as u64 + 1).submit_tagged(tag(slot, number))?;
    }
    Ok(())
}

/// Bits of a number that a tag holds: a stream of 2^48 jobs of 50 us lasts four centuries.
const NUMBER_BITS: u32 = 48;

fn tag(slot: usize, number: u64) -> u64 {
    (slot as u64) << NUMBER_BITS | number
}

fn untag(tag: u64) -> (usize, u64) {
    ((tag >> NUMBER_BITS) as usize, tag & ((1 << NUMBER_BITS) - 1))
}
