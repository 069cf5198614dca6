//! What comes and goes with the daemon: its status page, and how its bells are rung.
//!
//! A daemon that is started anew without an fd store has another page, and maybe bells of another
//! kind. Every bell of this process looks at the present page through one [`Page`]. What always
//! holds: who has seen the new page stored what it has to tell before, or stores it after; so what
//! was rung for the old page is there when the new daemon first looks.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::session::duplicate;
use crate::core::error::Result;
use crate::host::futex::{self, FutexAddr};
use crate::shm::region::{ReadOnly, Region};
use crate::shm::words::ReadWords;

/// The page of the daemon that is there now. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Page(Arc<RwLock<Present>>);

/// What one daemon brought.
#[derive(Debug)]
pub(super) struct Present {
    /// The status page, mapped.
    pub(super) region: Region<ReadOnly>,
    /// The fd that it came by.
    pub(super) status: OwnedFd,
    /// Where bells are rung through an eventfd.
    pub(super) bell: Option<Arc<OwnedFd>>,
}

impl Page {
    pub(super) fn new(present: Present) -> Page {
        Page(Arc::new(RwLock::new(present)))
    }

    /// Another daemon's takes its place.
    pub(super) fn exchange(&self, present: Present) {
        let old = {
            let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, present)
        };
        drop(old);
    }

    /// A second fd of the page.
    ///
    /// # Errors
    /// `SystemFailed`.
    pub(super) fn status_fd(&self) -> Result<OwnedFd> {
        duplicate(&self.present().status)
    }

    /// A second fd of the bell eventfd, where there is one.
    ///
    /// # Errors
    /// `SystemFailed`.
    pub(super) fn bell_fd(&self) -> Result<Option<OwnedFd>> {
        self.present().bell.as_ref().map(duplicate).transpose()
    }

    /// Wakes the daemon that sleeps on this bell's word.
    pub(super) fn wake(&self, bell: usize) {
        // A write can block, where somebody made it so: not under the lock.
        let eventfd = self.present().bell.clone();
        // Neither can fail but for a daemon that is gone, which waiting finds out.
        match eventfd {
            None => drop(futex::wake_one(FutexAddr::new(bell))),
            Some(eventfd) => drop(rustix::io::write(&*eventfd, &1u64.to_ne_bytes())),
        }
    }

    fn present(&self) -> RwLockReadGuard<'_, Present> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadWords for Page {
    fn bytes(&self) -> usize {
        self.present().region.bytes()
    }

    fn load32(&self, offset: usize) -> u32 {
        self.present().region.load32(offset)
    }

    fn load64(&self, offset: usize) -> u64 {
        self.present().region.load64(offset)
    }

    /// For nothing but information: the page may go.
    fn address(&self, offset: usize) -> usize {
        self.present().region.address(offset)
    }
}

#[cfg(all(test, not(miri)))]
#[path = "page_tests.rs"]
mod tests;
