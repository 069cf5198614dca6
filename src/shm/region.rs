//! A region: one stretch of memory that a peer may write, mapped shared or made on the heap.
//!
//! A [`Region`] is a cheap handle; the memory goes when the last handle does. Its type says what
//! this process may do with it: [`ReadOnly`] has no stores. Whatever the type, the contents are a
//! peer's: they change at any time, and only single atomic words of them are ever accessed.
//!
//! What always holds: a mapped file cannot shrink (the seal is checked first, then the size), so
//! no access inside the region can fault; an access outside touches nothing.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::words::{ReadWords, WriteWords};
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::layout::PAGE_BYTES;

/// Loads only.
#[derive(Clone, Copy, Debug)]
pub enum ReadOnly {}

/// Loads and stores.
#[derive(Clone, Copy, Debug)]
pub enum ReadWrite {}

/// What a process may do with a region: [`ReadOnly`] or [`ReadWrite`].
pub trait Access: sealed::Sealed {
    /// Whether the mapping is made writable.
    const WRITE: bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ReadOnly {}
    impl Sealed for super::ReadWrite {}
}

impl Access for ReadOnly {
    const WRITE: bool = false;
}

impl Access for ReadWrite {
    const WRITE: bool = true;
}

/// The memory behind a region's handles; frees it in the end.
#[derive(Debug)]
struct Backing {
    base: NonNull<u8>,
    bytes: usize,
    mapped: bool,
}

// SAFETY: a backing owns its memory and is only ever dropped; neither munmap nor dealloc cares
// which thread calls it.
unsafe impl Send for Backing {}
// SAFETY: a shared backing offers nothing.
unsafe impl Sync for Backing {}

impl Drop for Backing {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: `base` and `bytes` are a mapping that mmap returned and nobody else unmaps;
            // handles keep the backing alive, so no access to it is left.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
            debug_assert!(unmapped.is_ok(), "munmap of a whole mapping does not fail");
        } else if let Ok(layout) = heap_layout(self.bytes) {
            // SAFETY: `base` came from alloc_zeroed with this very layout.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

fn heap_layout(bytes: usize) -> Result<Layout> {
    if bytes == 0 {
        return Err(memory("an area of 0 bytes"));
    }
    Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| memory("an area larger than memory"))
}

fn memory(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::SessionMemory, format!("session memory: {what}"))
}

fn system(call: &str, errno: rustix::io::Errno) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("{call}: {errno}"))
}

/// Memory that a peer may write, at most `A` of it for this process. Clones are the same memory.
#[derive(Debug)]
pub struct Region<A> {
    base: NonNull<u8>,
    bytes: usize,
    backing: Arc<Backing>,
    access: PhantomData<A>,
}

// SAFETY: the memory is only accessed through atomic words, which any thread may use.
unsafe impl<A> Send for Region<A> {}
// SAFETY: as for Send.
unsafe impl<A> Sync for Region<A> {}

impl<A> Clone for Region<A> {
    fn clone(&self) -> Region<A> {
        Region { backing: Arc::clone(&self.backing), ..*self }
    }
}

impl<A: Access> Region<A> {
    /// Maps the whole of `fd`, which must be a file of exactly `bytes` bytes that cannot shrink.
    ///
    /// # Errors
    /// `SessionMemory` where the file has no seals, lacks F_SEAL_SHRINK (its owner could end this
    /// process with SIGBUS), or has another size; `SystemFailed` where it cannot be mapped, such as
    /// a file opened read-only for writing.
    pub fn map(fd: BorrowedFd<'_>, bytes: usize) -> Result<Region<A>> {
        let found = sealed_bytes(fd)?;
        if found != bytes {
            return Err(memory(format_args!("the file has {found} bytes, not {bytes}")));
        }
        let prot = if A::WRITE { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at an address of the kernel's choice aliases no Rust memory; the
        // fd is open for the call.
        let base = unsafe { mmap(null_mut(), bytes, prot, MapFlags::SHARED, fd, 0) }
            .map_err(|errno| system("mmap of session memory", errno))?;
        let base = NonNull::new(base.cast()).ok_or_else(|| memory("mapped at address 0"))?;
        Ok(Region::over(Backing { base, bytes, mapped: true }))
    }

    fn over(backing: Backing) -> Region<A> {
        let (base, bytes) = (backing.base, backing.bytes);
        Region { base, bytes, backing: Arc::new(backing), access: PhantomData }
    }
}

impl Region<ReadWrite> {
    /// Zeroed memory of this process alone, page-aligned: for simulators and tests, whose two
    /// sides are threads.
    ///
    /// # Errors
    /// `SessionMemory` for 0 bytes, or more than can be addressed.
    pub fn heap(bytes: usize) -> Result<Region<ReadWrite>> {
        let layout = heap_layout(bytes)?;
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        Ok(Region::over(Backing { base, bytes, mapped: false }))
    }

    /// The same memory for a side that only reads.
    pub fn read_only(&self) -> Region<ReadOnly> {
        Region {
            base: self.base,
            bytes: self.bytes,
            backing: Arc::clone(&self.backing),
            access: PhantomData,
        }
    }
}

/// Bytes of a file that can no longer shrink.
///
/// # Errors
/// `SessionMemory` where the file has no seals, lacks F_SEAL_SHRINK, or is empty.
pub fn sealed_bytes(fd: impl AsFd) -> Result<usize> {
    let fd = fd.as_fd();
    // Seal before size: once sealed, the size that fstat answers stays.
    let seals = fcntl_get_seals(fd).map_err(|_| memory("the file is not a memfd"))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(memory("the memfd lacks F_SEAL_SHRINK"));
    }
    let stat = fstat(fd).map_err(|errno| system("fstat of session memory", errno))?;
    match usize::try_from(stat.st_size) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(memory("the memfd is empty")),
    }
}

impl Region<ReadWrite> {
    /// The first byte, for [`super::table`], whose memory has no peer.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl<A> Region<A> {
    /// Whether a word of `size` bytes at `offset` lies inside, aligned.
    fn holds(&self, offset: usize, size: usize) -> bool {
        let inside = offset < self.bytes && self.bytes - offset >= size;
        inside && offset.is_multiple_of(size)
    }

    /// Where the word of `size` bytes at `offset` begins; none where the region does not hold it.
    fn at(&self, offset: usize, size: usize) -> Option<*mut u8> {
        let holds = self.holds(offset, size);
        debug_assert!(holds, "word of {size} at {offset} in a region of {} bytes", self.bytes);
        holds.then(|| self.base.as_ptr().wrapping_add(offset))
    }

    /// The word at `offset`. The reference is to an atomic and never leaves this file.
    fn word32(&self, offset: usize) -> Option<&AtomicU32> {
        let word = self.at(offset, 4)?.cast::<AtomicU32>();
        // SAFETY: `word` is aligned and inside memory that `backing` keeps alive and initialised;
        // all of its accesses, a peer's too, are atomic. Stores are `ReadWrite`'s alone.
        Some(unsafe { &*word })
    }

    /// As [`Region::word32`], for 64 bits.
    fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        let word = self.at(offset, 8)?.cast::<AtomicU64>();
        // SAFETY: as for `word32`.
        Some(unsafe { &*word })
    }
}

impl<A> ReadWords for Region<A> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn load32(&self, offset: usize) -> u32 {
        self.word32(offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn load64(&self, offset: usize) -> u64 {
        self.word64(offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn address(&self, offset: usize) -> usize {
        self.at(offset, 1).map_or(0, |byte| byte.addr())
    }
}

impl WriteWords for Region<ReadWrite> {
    #[inline]
    fn store32(&self, offset: usize, value: u32) {
        if let Some(word) = self.word32(offset) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    fn store64(&self, offset: usize, value: u64) {
        if let Some(word) = self.word64(offset) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    fn fetch_add32(&self, offset: usize, value: u32) -> u32 {
        self.word32(offset).map_or(0, |word| word.fetch_add(value, Ordering::Relaxed))
    }
}

#[cfg(test)]
#[path = "region_tests.rs"]
mod tests;
