//! The table: a memfd of the daemon's own, as bytes.
//!
//! Unlike the areas a client maps, a table is never passed to anybody who could map it (a service
//! manager keeps its fd over a restart and does not look inside). So it is not peer memory: this
//! process holds the only mapping, and its bytes are an ordinary `&mut [u8]`, for the engine to
//! lay out.
//!
//! What always holds: the bytes are zero when made, start on a page, and outlive the process as
//! long as an fd of the memfd does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::area::Area;
use super::region::{ReadWrite, Region};
use super::words::ReadWords;
use crate::core::error::Result;

/// The bytes of a table, and the memfd that keeps them.
#[derive(Debug)]
pub struct Table {
    /// The only handle of the only mapping.
    region: Region<ReadWrite>,
    /// None for a table on the heap.
    area: Option<Area>,
}

impl Table {
    /// A new table of at least `bytes` zero bytes, up to whole pages.
    ///
    /// # Errors
    /// `SystemFailed` where the memfd cannot be made or mapped.
    pub fn create(bytes: usize) -> Result<Table> {
        let area = Area::table(bytes)?;
        Ok(Table { region: area.map()?, area: Some(area) })
    }

    /// The table that an earlier life of the daemon left behind `fd`, which nobody else maps. Its
    /// header is the engine's to check.
    ///
    /// # Errors
    /// `SessionMemory` where it is not a memfd that cannot shrink, `SystemFailed` where it cannot
    /// be mapped.
    pub fn adopt(fd: OwnedFd) -> Result<Table> {
        let area = Area::from_fd(fd)?;
        Ok(Table { region: area.map()?, area: Some(area) })
    }

    /// A table of exactly `bytes` zero bytes on the heap: for simulators and tests.
    ///
    /// # Errors
    /// `SessionMemory` where there can be no such memory.
    pub fn heap(bytes: usize) -> Result<Table> {
        Ok(Table { region: Region::heap(bytes)?, area: None })
    }

    /// The memfd, to be kept over a restart; none for a table on the heap. Do not map it.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.area.as_ref().map(AsFd::as_fd)
    }
}

impl AsRef<[u8]> for Table {
    fn as_ref(&self) -> &[u8] {
        let (first, bytes) = (self.region.base(), self.region.bytes());
        // SAFETY: the region's memory is initialised, `bytes` long and there while `self` lives;
        // no other handle or mapping of it exists, and no slice but those borrowed from `self`.
        unsafe { std::slice::from_raw_parts(first, bytes) }
    }
}

impl AsMut<[u8]> for Table {
    fn as_mut(&mut self) -> &mut [u8] {
        let (first, bytes) = (self.region.base(), self.region.bytes());
        // SAFETY: as for `as_ref`, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(first, bytes) }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
