//! Where things lie in the areas that a client and the daemon share.
//!
//! An *area* is one sealed memfd. Each begins with a [`AreaHeader`]: its magic names the area, its
//! version the layout. Offsets are in bytes. Words that different sides write never share 128
//! bytes, since CPUs fetch lines in pairs.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::entry::ENTRY_BYTES;
use super::limits::{DEVICES_MAX, RING_ENTRIES_MAX, SESSION_LANES_MAX};

/// Bytes of a page; areas are whole pages.
pub const PAGE_BYTES: usize = 4096;

/// The first bytes of every area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AreaHeader {
    /// Eight ASCII bytes that name the area.
    pub magic: [u8; 8],
    /// Version of the area's layout.
    pub version: u32,
    /// Entries of the submission ring; 0 in other areas.
    pub submit_entries: u32,
    /// Entries of the result ring; 0 in other areas.
    pub result_entries: u32,
    /// Lanes of the lanes area; 0 in other areas.
    pub lanes: u32,
    /// Zero.
    pub reserved: u64,
}

/// The rings area: two control lines, the submission ring, the result ring.
pub mod rings {
    use super::{ENTRY_BYTES, PAGE_BYTES};

    /// Names the area.
    pub const MAGIC: [u8; 8] = *b"parkd-rg";
    /// Version of this layout.
    pub const VERSION: u32 = 1;
    /// Written by the client: how far it has filled the submission ring (u32, free-running).
    pub const SUBMIT_TAIL: usize = 128;
    /// Written by the client: how far it has read the result ring (u32, free-running).
    pub const RESULT_HEAD: usize = 132;
    /// Written by the client: how it wants to be told (see [`super::armed`]).
    pub const ARMED: usize = 136;
    /// Written by the daemon: how far it has taken submissions (u32, free-running).
    pub const SUBMIT_HEAD: usize = 256;
    /// Written by the daemon: how far it has filled the result ring (u32, free-running). The
    /// futex word of a client that parks.
    pub const RESULT_TAIL: usize = 260;
    /// Written by the daemon: a [`super::SessionState`].
    pub const STATE: usize = 264;
    /// Written by the daemon: which life of the daemon serves the session.
    pub const GENERATION: usize = 268;
    /// Written by the daemon before `STATE` becomes closed: the error code of the close.
    pub const CLOSE_CODE: usize = 272;
    /// Written by the daemon: until when a completion is awaited any moment, in nanoseconds of the
    /// client's CLOCK_MONOTONIC (u64); 0 before the first. Of tickets whose plan says `wake=early`.
    pub const IMMINENT_UNTIL: usize = 280;
    /// Where the submission ring begins.
    pub const SUBMIT_RING: usize = PAGE_BYTES;

    /// Where the result ring begins.
    pub const fn result_ring(submit_entries: u32) -> usize {
        SUBMIT_RING + submit_entries as usize * ENTRY_BYTES
    }

    /// Bytes of the area.
    pub const fn bytes(submit_entries: u32, result_entries: u32) -> usize {
        result_ring(submit_entries) + result_entries as usize * ENTRY_BYTES
    }
}

/// The lanes area: a header page with the bells, then the lanes.
pub mod lanes {
    use super::{DEVICES_MAX, PAGE_BYTES};

    /// Names the area.
    pub const MAGIC: [u8; 8] = *b"parkd-ln";
    /// Version of this layout.
    pub const VERSION: u32 = 1;
    /// Bell 0: the session's doorbell for submissions (u32 futex word).
    pub const DOORBELL: usize = 128;
    /// Where the lanes begin.
    pub const LANES: usize = PAGE_BYTES;
    /// Bells of a session: the doorbell and one for each device.
    pub const BELLS: u32 = 1 + DEVICES_MAX;

    /// Offset of a bell: 0 is the doorbell, `1 + d` belongs to device `d`.
    pub const fn bell(bell: u32) -> usize {
        if bell == 0 { DOORBELL } else { 256 + (bell as usize - 1) * 4 }
    }

    /// Offset of a lane's completion word (u64).
    pub const fn lane(lane: u32) -> usize {
        LANES + lane as usize * 8
    }

    /// Bytes of the area.
    pub const fn bytes(lanes: u32) -> usize {
        LANES + (lanes as usize * 8).next_multiple_of(PAGE_BYTES)
    }
}

/// The status page: one for the daemon, mapped read-only by clients and producers.
pub mod status {
    /// Names the area.
    pub const MAGIC: [u8; 8] = *b"parkd-st";
    /// Version of this layout.
    pub const VERSION: u32 = 1;
    /// 1 while FILL sleeps or is about to: a producer that has bumped a bell must wake it (u32).
    pub const PARKED: usize = 128;
    /// Which life of the daemon this is (u32).
    pub const GENERATION: usize = 256;
    /// Turns of FILL so far (u64).
    pub const HEARTBEAT: usize = 264;
    /// The executor's label, padded with zeros.
    pub const EXECUTOR: usize = 320;
    /// Bytes of the executor's label.
    pub const EXECUTOR_BYTES: usize = 64;
    /// Bytes of the area.
    pub const BYTES: usize = super::PAGE_BYTES;
}

/// How a client wants to be told of results: its `armed` word. The low two bits say how, the others
/// are the low bits of the position up to which it had taken results when it armed.
///
/// The daemon tells an arming of the results past that position once. Of those before it, which the
/// client took while they were being published, it tells too, but that does not count: such a wake
/// can come before the client sleeps and be lost, and yet be what another of its threads, which
/// armed earlier, sleeps for.
pub mod armed {
    /// It looks by itself.
    pub const NOT: u32 = 0;
    /// Wake the tail: FUTEX_WAKE one waiter on the result tail.
    pub const TAIL: u32 = 1;
    /// Notify: write to the session's eventfd.
    pub const NOTIFY: u32 = 2;
    /// Both.
    pub const BOTH: u32 = 3;
    /// The bits that say how.
    pub const HOW: u32 = 3;

    /// The word of a client that has taken all results before position `head`.
    pub const fn word(head: u32, how: u32) -> u32 {
        (head << 2) | (how & HOW)
    }

    /// How to tell a client whose word is `armed` of the results before position `tail`, which were
    /// just published: [`NOT`] where it does not ask, or was told already of what came after this
    /// arming. `told` is the daemon's memory of that: its word then, 0 before the first.
    pub const fn due(armed: u32, told: &mut u32, tail: u32) -> u32 {
        if armed == *told {
            return NOT;
        }
        let past = (armed ^ word(tail, NOT)) & !HOW != 0;
        if past {
            *told = armed;
        }
        armed & HOW
    }
}

/// What the daemon says of a session in its control line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SessionState {
    /// Being made, or being recovered.
    Starting = 0,
    /// Served.
    Live = 1,
    /// No new tickets; those outstanding go on.
    Draining = 2,
    /// Ended; the close code says why.
    Closed = 3,
}

impl SessionState {
    /// The state with this number.
    pub const fn from_number(number: u32) -> Option<SessionState> {
        Some(match number {
            0 => SessionState::Starting,
            1 => SessionState::Live,
            2 => SessionState::Draining,
            3 => SessionState::Closed,
            _ => return None,
        })
    }
}

/// How a CPU-side producer wakes a parked daemon, after it has bumped the bell's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BellKind {
    /// FUTEX_WAKE of one waiter on the bell's word (SHARED).
    Futex = 1,
    /// Write 1 to the session's bell eventfd.
    Eventfd = 2,
}

const _: () = assert!(rings::bytes(RING_ENTRIES_MAX, RING_ENTRIES_MAX).is_multiple_of(PAGE_BYTES));
const _: () = assert!(rings::SUBMIT_TAIL / 128 != rings::SUBMIT_HEAD / 128);
const _: () = assert!(rings::IMMINENT_UNTIL + 8 <= PAGE_BYTES);
const _: () = assert!(size_of::<AreaHeader>() <= rings::SUBMIT_TAIL);
const _: () = assert!(lanes::bell(lanes::BELLS - 1) + 4 <= lanes::LANES);
const _: () = assert!(lanes::bell(1) / 128 != lanes::bell(0) / 128);
const _: () = assert!(lanes::bytes(SESSION_LANES_MAX).is_multiple_of(PAGE_BYTES));
const _: () = assert!(status::EXECUTOR + status::EXECUTOR_BYTES <= status::BYTES);
