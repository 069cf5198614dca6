//! A client's memory as a stream uses it: a lane, its stamps, and the bell to ring.
//!
//! What always holds: the lanes of one stream are in the area and are not one another.

use std::os::fd::OwnedFd;

use super::protocol::Stream;
use crate::core::error::{Error, ErrorCode, Result};
use crate::host::clock;
use crate::host::futex::{self, FutexAddr};
use crate::shm::area::{open_lanes, open_status};
use crate::shm::bells::{Bell, Ring};
use crate::shm::lanes::LanesWriter;
use crate::shm::region::{ReadOnly, ReadWrite, Region};

/// Where one stream stores.
#[derive(Debug)]
pub(super) struct Pages {
    lanes: LanesWriter<Region<ReadWrite>>,
    lane: u32,
    stamps: Option<(u32, u64)>,
    ringer: Option<Ringer>,
}

#[derive(Debug)]
struct Ringer {
    bell: Bell<Region<ReadWrite>, Region<ReadOnly>>,
    eventfd: Option<OwnedFd>,
}

impl Pages {
    /// Maps what came with a START.
    ///
    /// # Errors
    /// `BadMessage` for a missing or superfluous fd and for stamps over the lane, `NoSuchLane` and
    /// `NoSuchDevice` for a lane or a bell that the area does not have, `SessionMemory` or
    /// `VersionMismatch` for a file that is not the area it should be.
    pub(super) fn map(stream: &Stream, fds: Vec<OwnedFd>) -> Result<Pages> {
        let mut fds = fds.into_iter();
        let lanes = fds.next().ok_or_else(|| bad("no file descriptor of a lanes area"))?;
        let (memory, count) = open_lanes::<ReadWrite>(&lanes)?;
        let ringer = match stream.bell {
            None => None,
            Some(number) => {
                let status =
                    fds.next().ok_or_else(|| bad("no file descriptor of a status page"))?;
                let bell = Bell::new(memory.clone(), open_status(&status)?, number)?;
                Some(Ringer { bell, eventfd: fds.next() })
            }
        };
        if fds.next().is_some() {
            return Err(bad("a file descriptor more than it needs"));
        }
        check_lanes(stream, count)?;
        let stamps = stream.stamps.map(|stamps| (stamps.lane, u64::from(stamps.count)));
        Ok(Pages { lanes: LanesWriter::new(memory, count)?, lane: stream.lane, stamps, ringer })
    }

    /// Stores a number, its stamp first, and rings. The client reads number and stamp the other
    /// way round ([`super::stamps::StampReader`]).
    pub(super) fn complete(&self, number: u64) {
        if let Some((first, count)) = self.stamps {
            let at = first + (number % count) as u32;
            // With Release behind the number before: a reader that finds this stamp in the place
            // of an older one then sees a number that says so.
            self.lanes.store(at, clock::now().0);
        }
        self.lanes.store(self.lane, number);
        if let Some(ringer) = &self.ringer {
            ringer.ring();
        }
    }
}

impl Ringer {
    fn ring(&self) {
        if self.bell.ring() == Ring::Awake {
            return;
        }
        // A wake that fails is the client's loss: the word is there, and is found by its backstop.
        match &self.eventfd {
            Some(eventfd) => drop(rustix::io::write(eventfd, &1_u64.to_ne_bytes())),
            None => drop(futex::wake_one(FutexAddr::new(self.bell.address()))),
        }
    }
}

fn bad(what: &str) -> Error {
    Error::new(ErrorCode::BadMessage, format!("START: {what}"))
}

fn check_lanes(stream: &Stream, count: u32) -> Result<()> {
    let inside = |name: &str, first: u32, lanes: u32| {
        if lanes <= count && first <= count - lanes {
            return Ok(());
        }
        let text = format!("START: {name} {first}: {lanes} of {count} lanes");
        Err(Error::new(ErrorCode::NoSuchLane, text))
    };
    inside("lane", stream.lane, 1)?;
    if let Some(stamps) = stream.stamps {
        inside("stamps_lane", stamps.lane, stamps.count)?;
        if (stamps.lane..stamps.lane + stamps.count).contains(&stream.lane) {
            return Err(bad("the lane is one of its stamps"));
        }
    }
    Ok(())
}
