//! The table: a memfd of the daemon's own, as bytes.
//!
//! Unlike the areas a client maps, a table is never passed to anybody who could map it (a service
//! manager keeps its fd over a restart and does not look inside). So it is not peer memory: this
//! process holds the only mapping, and its bytes are an ordinary `&mut [u8]`, for the engine to
//! lay out.
//!
//! What always holds: the bytes after the header are zero when made, start at a multiple of 64,
//! and outlive the process as long as an fd of the memfd does.

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::area::Area;
use super::header::{check_name, plain, read, write};
use super::region::{ReadWrite, Region};
use super::words::{ReadWords, fit};
use crate::core::error::Result;
use crate::proto::layout::PAGE_BYTES;

/// Bytes before the table's own: the area's header, padded to a line.
pub const TABLE_OFFSET: usize = 64;

/// The bytes of a table, and the memfd that keeps them.
#[derive(Debug)]
pub struct Table {
    /// The only handle of the only mapping.
    region: Region<ReadWrite>,
    /// None for a table on the heap.
    area: Option<Area>,
}

impl Table {
    /// A new table of at least `bytes` bytes (up to whole pages), whose layout is named by `magic`
    /// and `version`.
    ///
    /// # Errors
    /// `SystemFailed` where the memfd cannot be made or mapped.
    pub fn create(bytes: usize, magic: [u8; 8], version: u32) -> Result<Table> {
        let header = plain(magic, version);
        let area = Area::create("parkd-table", bytes.saturating_add(TABLE_OFFSET), &header)?;
        Ok(Table { region: area.map()?, area: Some(area) })
    }

    /// The table that an earlier life of the daemon left behind `fd`, which nobody else maps.
    ///
    /// # Errors
    /// `SessionMemory` where it is no table of this name, `VersionMismatch` for another layout,
    /// `SystemFailed` where it cannot be mapped.
    pub fn adopt(fd: OwnedFd, magic: [u8; 8], version: u32) -> Result<Table> {
        let area = Area::from_fd(fd)?;
        let region = area.map()?;
        fit(&region, PAGE_BYTES, "table")?;
        check_name(&read(&region)?, "table", magic, version)?;
        Ok(Table { region, area: Some(area) })
    }

    /// A table of exactly `bytes` bytes on the heap: for simulators and tests.
    ///
    /// # Errors
    /// `SessionMemory` where there can be no such memory.
    pub fn heap(bytes: usize, magic: [u8; 8], version: u32) -> Result<Table> {
        let region = Region::heap(bytes.saturating_add(TABLE_OFFSET))?;
        write(&region, &plain(magic, version));
        Ok(Table { region, area: None })
    }

    /// The memfd, to be kept over a restart; none for a table on the heap. Do not map it.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.area.as_ref().map(AsFd::as_fd)
    }

    fn len(&self) -> usize {
        self.region.bytes() - TABLE_OFFSET
    }
}

impl Deref for Table {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let first = self.region.base().wrapping_add(TABLE_OFFSET);
        // SAFETY: the region's memory is initialised, at least TABLE_OFFSET + len bytes long and
        // mapped while `self` lives; no other handle or mapping of it exists, and no slice but
        // those borrowed from `self`.
        unsafe { std::slice::from_raw_parts(first, self.len()) }
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (first, len) = (self.region.base().wrapping_add(TABLE_OFFSET), self.len());
        // SAFETY: as for `deref`, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
