//! The header of an area: what it is, which layout it has, how large its parts are.
//!
//! The daemon writes a header once, before anybody else can see the area. Who maps an area that
//! came over a socket copies the header out, checks it against what WELCOME said, and goes on with
//! the checked values alone.

use zerocopy::{FromBytes, IntoBytes};

use super::ring::RingSizes;
use super::words::{ReadWords, WriteWords};
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::layout::{AreaHeader, lanes, rings, status};
use crate::proto::limits::{LANES_MIN, RING_ENTRIES_MIN, SESSION_LANES_MAX};

/// Bytes of the header.
pub const HEADER_BYTES: usize = size_of::<AreaHeader>();

const _: () = assert!(HEADER_BYTES.is_multiple_of(8));

/// The header of an area without sizes of its own.
const fn plain(magic: [u8; 8], version: u32) -> AreaHeader {
    AreaHeader { magic, version, submit_entries: 0, result_entries: 0, lanes: 0, reserved: 0 }
}

/// The header of a rings area.
pub const fn of_rings(sizes: RingSizes) -> AreaHeader {
    AreaHeader {
        submit_entries: sizes.submit(),
        result_entries: sizes.result(),
        ..plain(rings::MAGIC, rings::VERSION)
    }
}

/// The header of a lanes area.
pub const fn of_lanes(lanes: u32) -> AreaHeader {
    AreaHeader { lanes, ..plain(lanes::MAGIC, lanes::VERSION) }
}

/// The header of the status page.
pub const fn of_status() -> AreaHeader {
    plain(status::MAGIC, status::VERSION)
}

/// Writes a header to the start of an area that nobody else sees yet.
pub fn write(memory: &impl WriteWords, header: &AreaHeader) {
    for (word, bytes) in header.as_bytes().chunks_exact(8).enumerate() {
        let value = bytes.try_into().map_or(0, u64::from_le_bytes);
        memory.store64(word * 8, value);
    }
}

/// A copy of an area's header, not checked.
///
/// # Errors
/// `SessionMemory` where the area is smaller than a header.
pub fn read(memory: &impl ReadWords) -> Result<AreaHeader> {
    if memory.bytes() < HEADER_BYTES {
        return Err(refused("area", "it is smaller than a header"));
    }
    let mut bytes = [0; HEADER_BYTES];
    for (word, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&memory.load64(word * 8).to_le_bytes());
    }
    AreaHeader::read_from_bytes(&bytes).map_err(|_| refused("area", "its header is too short"))
}

/// The sizes of a rings area whose header and bytes agree, in version 1's limits.
///
/// # Errors
/// `SessionMemory` for another magic or sizes that do not fit, `VersionMismatch` for the version.
pub fn check_rings(memory: &impl ReadWords) -> Result<RingSizes> {
    let header = read(memory)?;
    check_name(&header, "rings area", rings::MAGIC, rings::VERSION)?;
    let sizes = RingSizes::new(header.submit_entries, header.result_entries)
        .map_err(|error| refused("rings area", &error.detail))?;
    if sizes.submit().min(sizes.result()) < RING_ENTRIES_MIN {
        return Err(refused("rings area", "a ring of fewer than 64 entries"));
    }
    if header != of_rings(sizes) || memory.bytes() != sizes.bytes() {
        return Err(refused("rings area", "its header and its size disagree"));
    }
    Ok(sizes)
}

/// The lanes of a lanes area whose header and bytes agree.
///
/// # Errors
/// As [`check_rings`].
pub fn check_lanes(memory: &impl ReadWords) -> Result<u32> {
    let header = read(memory)?;
    check_name(&header, "lanes area", lanes::MAGIC, lanes::VERSION)?;
    let count = header.lanes;
    if !lanes_allowed(count) {
        return Err(refused("lanes area", &format!("{count} lanes, a power of two in 64..=4096")));
    }
    if header != of_lanes(count) || memory.bytes() != lanes::bytes(count) {
        return Err(refused("lanes area", "its header and its size disagree"));
    }
    Ok(count)
}

/// Checks the status page's header and size.
///
/// # Errors
/// As [`check_rings`].
pub fn check_status(memory: &impl ReadWords) -> Result<()> {
    let header = read(memory)?;
    check_name(&header, "status page", status::MAGIC, status::VERSION)?;
    if header != of_status() || memory.bytes() != status::BYTES {
        return Err(refused("status page", "its header and its size disagree"));
    }
    Ok(())
}

/// Whether a session may have this many lanes: a power of two in 64..=4096.
pub const fn lanes_allowed(lanes: u32) -> bool {
    lanes.is_power_of_two() && lanes >= LANES_MIN && lanes <= SESSION_LANES_MAX
}

fn check_name(header: &AreaHeader, area: &str, magic: [u8; 8], version: u32) -> Result<()> {
    if header.magic != magic {
        return Err(refused(area, "its magic is another area's"));
    }
    if header.version != version {
        let detail = format!("{area}: layout {}, this side has {version}", header.version);
        return Err(Error::new(ErrorCode::VersionMismatch, detail));
    }
    Ok(())
}

fn refused(area: &str, what: &str) -> Error {
    Error::new(ErrorCode::SessionMemory, format!("session memory: {area}: {what}"))
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
