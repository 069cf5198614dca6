//! What a client says to the software device, and what the device answers.
//!
//! The socket is SOCK_SEQPACKET: a message is one record, little-endian, of a fixed layout. One
//! START with its file descriptors starts one *stream*; the device answers each START with STARTED
//! or REFUSED, in order. A refused START has no effect, and the connection stays. When the
//! connection ends, its streams stop.
//!
//! ```text
//! START 80 bytes                STARTED 16 bytes        REFUSED 16 + bytes
//!  0 u32 kind = 1               0 u32 kind = 2          0 u32 kind = 3
//!  4 u32 length                 4 u32 length            4 u32 length
//!  8 u32 lane                   8 u64 t0_ns             8 u32 code (registry number)
//! 12 u32 bell                                          12 u32 bytes of text
//! 16 u32 stamps_lane                                   16 UTF-8 text
//! 20 u32 stamps
//! 24 u32 flags                  flags  1 RING: ring the bell as docs/PROTOCOL.md says
//! 28 u32 jitter_permille               2 CPU: compute for a job's length in place of waiting
//! 32 u64 seed                          4 FAULT: die before storing for job fault_after
//! 40 u64 work_ns
//! 48 u64 jobs                   fds    lanes area; with RING the status page; with RING where
//! 56 u64 first                         the bell is an eventfd, that eventfd
//! 64 u64 fault_after
//! 72 u64 start_ns
//! ```
//!
//! Job `i` (from 0) stores `first + i`, wrapping, into `lane`. Where `stamps` is not 0, the device
//! writes its CLOCK_MONOTONIC into lane `stamps_lane + number % stamps`, which the session must not
//! have opened, right before it stores a number.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::work::{JITTER_PERMILLE_MAX, Work};
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;

/// File descriptors with one START at most.
pub const FDS_MAX: usize = 3;
/// Mean length of a job at most: one minute.
pub const WORK_NS_MAX: u64 = 60_000_000_000;
/// Stamps at most: half of the largest lanes area.
pub const STAMPS_MAX: u32 = 2048;
/// Bytes of a message at most.
pub const MESSAGE_BYTES_MAX: usize = 512;
/// Bytes of the text in REFUSED at most.
pub const REFUSAL_BYTES_MAX: usize = 256;

const START: u32 = 1;
const STARTED: u32 = 2;
const REFUSED: u32 = 3;

const RING: u32 = 1;
const CPU: u32 = 2;
const FAULT: u32 = 4;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StartWire {
    kind: u32,
    length: u32,
    lane: u32,
    bell: u32,
    stamps_lane: u32,
    stamps: u32,
    flags: u32,
    jitter_permille: u32,
    seed: u64,
    work_ns: u64,
    jobs: u64,
    first: u64,
    fault_after: u64,
    start_ns: u64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StartedWire {
    kind: u32,
    length: u32,
    t0_ns: u64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RefusedWire {
    kind: u32,
    length: u32,
    code: u32,
    bytes: u32,
}

const _: () = assert!(size_of::<StartWire>() == 80);
const _: () = assert!(size_of::<RefusedWire>() + REFUSAL_BYTES_MAX <= MESSAGE_BYTES_MAX);

/// Where a stream leaves the times of its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The first of the lanes that hold them.
    pub lane: u32,
    /// How many: a power of two, 1..=2048. The stamp of number `n` is lane `lane + n % count`.
    pub count: u32,
}

/// A stream of jobs, as START describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The lane to store to.
    pub lane: u32,
    /// How long the jobs take.
    pub work: Work,
    /// How many jobs, at least 1.
    pub jobs: u64,
    /// The number that job 0 stores.
    pub first: u64,
    /// Where the times of the stores go, if anywhere.
    pub stamps: Option<Stamps>,
    /// The number of the bell to ring; `None` stores silently, as a GPU does.
    pub bell: Option<u32>,
    /// Compute for a job's length, where a device's time would cost no CPU.
    pub cpu: bool,
    /// The job before whose store the device faults: the stream never stores again.
    pub fault_after: Option<u64>,
    /// CLOCK_MONOTONIC at which job 0 starts; in the past: at once.
    pub start: MonoNs,
}

impl Stream {
    /// A stream that starts at once and stores silently, as a GPU does: nothing but its numbers.
    pub fn silent(lane: u32, work: Work, jobs: u64, first: u64) -> Stream {
        Stream {
            lane,
            work,
            jobs,
            first,
            stamps: None,
            bell: None,
            cpu: false,
            fault_after: None,
            start: MonoNs(0),
        }
    }
}

/// What the device answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The stream runs; job 0 starts (or started) at this time.
    Started(MonoNs),
    /// It does not: the number of an error code, and the text.
    Refused(u32, String),
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::BadMessage, what)
}

impl Stream {
    /// A START message for this stream.
    pub fn encode(&self) -> Vec<u8> {
        let stamps = self.stamps.unwrap_or(Stamps { lane: 0, count: 0 });
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let wire = StartWire {
            kind: START,
            length: size_of::<StartWire>() as u32,
            lane: self.lane,
            bell: self.bell.unwrap_or(0),
            stamps_lane: stamps.lane,
            stamps: stamps.count,
            flags: flag(self.bell.is_some(), RING)
                | flag(self.cpu, CPU)
                | flag(self.fault_after.is_some(), FAULT),
            jitter_permille: self.work.jitter_permille,
            seed: self.work.seed,
            work_ns: self.work.work_ns,
            jobs: self.jobs,
            first: self.first,
            fault_after: self.fault_after.unwrap_or(0),
            start_ns: self.start.0,
        };
        wire.as_bytes().to_vec()
    }

    /// Checks a START record. Whether its lanes exist is for who maps the area to say.
    ///
    /// # Errors
    /// `BadMessage`, `UnknownOpcode`, `UnknownFlags` or `LimitExceeded`, each naming the field.
    pub fn parse(record: &[u8]) -> Result<Stream> {
        let kind = record.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        match kind {
            Some(START) => {}
            Some(other) => {
                let text = format!("soft: kind {other} is not 1 (START)");
                return Err(Error::new(ErrorCode::UnknownOpcode, text));
            }
            None => return Err(bad(format!("soft: {} bytes are no message", record.len()))),
        }
        let wire = StartWire::read_from_bytes(record)
            .ok()
            .filter(|wire| wire.length as usize == record.len())
            .ok_or_else(|| {
                let expected = size_of::<StartWire>();
                bad(format!("START: {} bytes, or a length that is not {expected}", record.len()))
            })?;
        wire.check()?;
        let some = |bit: u32| wire.flags & bit != 0;
        Ok(Stream {
            lane: wire.lane,
            work: Work {
                seed: wire.seed,
                work_ns: wire.work_ns,
                jitter_permille: wire.jitter_permille,
            },
            jobs: wire.jobs,
            first: wire.first,
            stamps: (wire.stamps != 0)
                .then_some(Stamps { lane: wire.stamps_lane, count: wire.stamps }),
            bell: some(RING).then_some(wire.bell),
            cpu: some(CPU),
            fault_after: some(FAULT).then_some(wire.fault_after),
            start: MonoNs(wire.start_ns),
        })
    }
}

impl StartWire {
    fn check(&self) -> Result<()> {
        if self.flags & !(RING | CPU | FAULT) != 0 {
            let text = format!("START: flags {:#x} are not known", self.flags);
            return Err(Error::new(ErrorCode::UnknownFlags, text));
        }
        let limit = |what: &str, value: u64, max: u64| match value <= max {
            true => Ok(()),
            false => {
                let text = format!("START: {what}: {value}, at most {max}");
                Err(Error::new(ErrorCode::LimitExceeded, text))
            }
        };
        limit("work_ns", self.work_ns, WORK_NS_MAX)?;
        limit("jitter_permille", self.jitter_permille.into(), JITTER_PERMILLE_MAX.into())?;
        limit("stamps", self.stamps.into(), STAMPS_MAX.into())?;
        if self.jobs == 0 {
            return Err(bad("START: jobs: 0, at least 1"));
        }
        if self.stamps == 0 && self.stamps_lane != 0 {
            return Err(bad("START: stamps_lane without stamps"));
        }
        if self.stamps != 0 && !self.stamps.is_power_of_two() {
            return Err(bad(format!("START: stamps: {}, a power of two", self.stamps)));
        }
        if self.flags & RING == 0 && self.bell != 0 {
            return Err(bad("START: bell without RING"));
        }
        if self.flags & FAULT == 0 && self.fault_after != 0 {
            return Err(bad("START: fault_after without FAULT"));
        }
        Ok(())
    }
}

impl Reply {
    /// STARTED for a stream whose job 0 starts at `t0`, REFUSED for what stopped it.
    pub fn encode(outcome: &Result<MonoNs>) -> Vec<u8> {
        match outcome {
            Ok(t0) => {
                let length = size_of::<StartedWire>() as u32;
                StartedWire { kind: STARTED, length, t0_ns: t0.0 }.as_bytes().to_vec()
            }
            Err(error) => {
                let mut end = error.detail.len().min(REFUSAL_BYTES_MAX);
                while !error.detail.is_char_boundary(end) {
                    end -= 1;
                }
                let wire = RefusedWire {
                    kind: REFUSED,
                    length: (size_of::<RefusedWire>() + end) as u32,
                    code: error.code.number().into(),
                    bytes: end as u32,
                };
                [wire.as_bytes(), &error.detail.as_bytes()[..end]].concat()
            }
        }
    }

    /// The reply that a record holds.
    ///
    /// # Errors
    /// `BadMessage` where it is none.
    pub fn parse(record: &[u8]) -> Result<Reply> {
        if let Ok(started) = StartedWire::read_from_bytes(record)
            && started.kind == STARTED
        {
            return Ok(Reply::Started(MonoNs(started.t0_ns)));
        }
        match RefusedWire::read_from_prefix(record) {
            Ok((wire, text)) if wire.kind == REFUSED && wire.bytes as usize == text.len() => {
                Ok(Reply::Refused(wire.code, String::from_utf8_lossy(text).into_owned()))
            }
            _ => Err(bad(format!("soft: a reply of {} bytes is none", record.len()))),
        }
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
