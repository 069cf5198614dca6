//! Knowing a forked child from the process that it was forked from, without a system call.
//!
//! A *home* is the process that made it: in a child its page reads zero, because the kernel wipes
//! it on fork (MADV_WIPEONFORK, Linux 4.14). Where the page cannot be had, the pid is compared. A
//! child that shares the memory (vfork, CLONE_VM) counts as its parent.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The page, or a part of a larger one: the kernel rounds up.
const PAGE_BYTES: usize = 4096;

/// The process that made it.
#[derive(Debug)]
pub struct Home {
    pid: u32,
    page: Option<Page>,
}

impl Home {
    /// This process.
    pub fn here() -> Home {
        Home { pid: std::process::id(), page: Page::new() }
    }

    /// Whether the caller is still in that process. One load.
    pub fn is_here(&self) -> bool {
        match &self.page {
            Some(page) => page.is_whole(),
            None => std::process::id() == self.pid,
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// A page whose first word is 1 until a fork.
#[derive(Debug)]
struct Page {
    base: NonNull<AtomicU32>,
}

// SAFETY: the page is this value's alone, and unmapping it may happen on any thread.
unsafe impl Send for Page {}
// SAFETY: shared, the page is only read, through an atomic.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> Option<Page> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base =
            unsafe { mmap_anonymous(null_mut(), PAGE_BYTES, prot, MapFlags::PRIVATE) }.ok()?;
        let page = Page { base: NonNull::new(base.cast())? };
        // SAFETY: the range is the mapping just made, and the advice changes nothing in this
        // process.
        unsafe { madvise(base, PAGE_BYTES, Advice::LinuxWipeOnFork) }.ok()?;
        page.word().store(1, Ordering::Relaxed);
        Some(page)
    }

    fn is_whole(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 1
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: `base` is the start of a live, zeroed, page-aligned mapping of our own.
        unsafe { self.base.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, is unmapped once, and no reference outlives us.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), PAGE_BYTES) };
        debug_assert!(unmapped.is_ok(), "munmap of a whole mapping does not fail");
    }
}

#[cfg(test)]
#[path = "fork_tests.rs"]
mod tests;
