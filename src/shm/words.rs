//! Memory as words: the one way in which rings, bells and pages touch what a peer may write.
//!
//! An *offset* is in bytes from the start of the area and a multiple of the word's size. Every
//! access is a single `Relaxed` atomic one; the caller makes order with [`super::sync::fence`].
//!
//! What always holds: an access at an offset outside the memory, or a misaligned one, touches
//! nothing. It is a bug of the caller (views check their layout against [`ReadWords::bytes`] once
//! and mask what varies), so debug builds assert; release builds answer zero or drop the store.

use std::sync::Arc;

use crate::core::error::{Error, ErrorCode, Result};

/// Memory whose words can be loaded.
pub trait ReadWords {
    /// Bytes of the memory.
    fn bytes(&self) -> usize;
    /// The u32 at `offset`, Relaxed.
    fn load32(&self, offset: usize) -> u32;
    /// The u64 at `offset`, Relaxed.
    fn load64(&self, offset: usize) -> u64;
    /// Where `offset` lies in this process, for futex calls; 0 outside the memory.
    fn address(&self, offset: usize) -> usize;
}

/// Memory whose words can be stored too.
pub trait WriteWords: ReadWords {
    /// Stores a u32 at `offset`, Relaxed.
    fn store32(&self, offset: usize, value: u32);
    /// Stores a u64 at `offset`, Relaxed.
    fn store64(&self, offset: usize, value: u64);
    /// Adds to the u32 at `offset`, wrapping, Relaxed; answers what it was.
    fn fetch_add32(&self, offset: usize, value: u32) -> u32;
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<M: ReadWords + ?Sized> ReadWords for $pointer {
            fn bytes(&self) -> usize {
                (**self).bytes()
            }
            fn load32(&self, offset: usize) -> u32 {
                (**self).load32(offset)
            }
            fn load64(&self, offset: usize) -> u64 {
                (**self).load64(offset)
            }
            fn address(&self, offset: usize) -> usize {
                (**self).address(offset)
            }
        }

        impl<M: WriteWords + ?Sized> WriteWords for $pointer {
            fn store32(&self, offset: usize, value: u32) {
                (**self).store32(offset, value);
            }
            fn store64(&self, offset: usize, value: u64) {
                (**self).store64(offset, value);
            }
            fn fetch_add32(&self, offset: usize, value: u32) -> u32 {
                (**self).fetch_add32(offset, value)
            }
        }
    )*};
}

forward!(&M, Arc<M>);

/// Refuses memory that is smaller than what is to be found in it.
pub(super) fn fit(memory: &impl ReadWords, bytes: usize, area: &str) -> Result<()> {
    if memory.bytes() >= bytes {
        return Ok(());
    }
    let detail = format!("session memory: {area}: {} bytes, not {bytes}", memory.bytes());
    Err(Error::new(ErrorCode::SessionMemory, detail))
}
