//! How a ticket stands, as C has it: the header's `struct parkd_completion`.

use parkd::client::Completion;

/// The header's `PARKD_PENDING`: the one status that is no end.
pub const PENDING: u32 = 0;

/// The header's `struct parkd_completion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkdCompletion {
    status: u32,
    waited: u32,
    code: u32,
    reserved: u32,
    seen: u64,
    submitted_ns: u64,
    detected_ns: u64,
    published_ns: u64,
}

// No padding: what C reads is all written.
const _: () = assert!(size_of::<ParkdCompletion>() == 4 * size_of::<u32>() + 4 * size_of::<u64>());

impl ParkdCompletion {
    /// Of a ticket that is outstanding.
    pub(crate) fn pending() -> ParkdCompletion {
        ParkdCompletion { status: PENDING, ..ParkdCompletion::default() }
    }
}

impl From<Completion> for ParkdCompletion {
    fn from(end: Completion) -> ParkdCompletion {
        ParkdCompletion {
            status: end.status as u32,
            waited: end.waited.map_or(0, |waited| waited as u32),
            code: end.code,
            reserved: 0,
            seen: end.seen,
            submitted_ns: end.submitted.0,
            detected_ns: end.detected.0,
            published_ns: end.published.0,
        }
    }
}
