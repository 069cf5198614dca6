//! The status page: what the daemon tells all clients and producers at once.
//!
//! One page, written by the daemon alone and kept over its restarts; others map it read-only.
//! *Parked* is 1 from before FILL reads the bells to sleep until it is hot again. The
//! *generation* names the daemon's life, the *heartbeat* counts FILL's turns.

use super::sync::{Ordering, fence};
use super::words::{ReadWords, WriteWords, fit};
use crate::core::error::Result;
use crate::proto::layout::status;

const LABEL_WORDS: usize = status::EXECUTOR_BYTES / 8;

const _: () = assert!(status::EXECUTOR.is_multiple_of(8) && status::EXECUTOR_BYTES == 64);

/// The daemon's side.
#[derive(Debug)]
pub struct StatusPage<M> {
    memory: M,
}

impl<M: WriteWords> StatusPage<M> {
    /// The page in this memory.
    ///
    /// # Errors
    /// `SessionMemory` where it is too small.
    pub fn new(memory: M) -> Result<StatusPage<M>> {
        fit(&memory, status::BYTES, "status page")?;
        Ok(StatusPage { memory })
    }

    /// Says that FILL is about to sleep: from here on whoever rings also wakes. Read every bell
    /// after it; one that moved forbids the sleep, the others are waited on at the count read.
    pub fn park(&self) {
        self.memory.store32(status::PARKED, 1);
        // Meets the producer's fence in `Bell::ring`.
        fence(Ordering::SeqCst);
    }

    /// Says that FILL reads the bells by itself again.
    pub fn unpark(&self) {
        self.memory.store32(status::PARKED, 0);
    }

    /// Begins a life of the daemon: its executor's label (64 bytes at most, more is cut off), then
    /// its number. Who sees the number sees the label.
    pub fn begin(&self, generation: u32, executor: &str) {
        let mut label = [0; status::EXECUTOR_BYTES];
        let kept = executor.len().min(label.len());
        label[..kept].copy_from_slice(&executor.as_bytes()[..kept]);
        for (word, bytes) in label.chunks_exact(8).enumerate() {
            let value = bytes.try_into().map_or(0, u64::from_le_bytes);
            self.memory.store64(status::EXECUTOR + word * 8, value);
        }
        // Pairs with the fence in `StatusReader::generation`.
        fence(Ordering::Release);
        self.memory.store32(status::GENERATION, generation);
    }

    /// Which life of the daemon was begun last; 0 on a new page.
    pub fn generation(&self) -> u32 {
        self.memory.load32(status::GENERATION)
    }

    /// Says how many turns FILL has made.
    pub fn beat(&self, turns: u64) {
        self.memory.store64(status::HEARTBEAT, turns);
    }
}

/// A client's or producer's side.
#[derive(Clone, Debug)]
pub struct StatusReader<M> {
    memory: M,
}

impl<M: ReadWords> StatusReader<M> {
    /// The page in this memory.
    ///
    /// # Errors
    /// `SessionMemory` where it is too small.
    pub fn new(memory: M) -> Result<StatusReader<M>> {
        fit(&memory, status::BYTES, "status page")?;
        Ok(StatusReader { memory })
    }

    /// Whether FILL sleeps or is about to. For information: a producer asks through its bell.
    pub fn parked(&self) -> bool {
        self.memory.load32(status::PARKED) != 0
    }

    /// Which life of the daemon this is.
    pub fn generation(&self) -> u32 {
        let generation = self.memory.load32(status::GENERATION);
        // Pairs with the fence in `begin`.
        fence(Ordering::Acquire);
        generation
    }

    /// Turns of FILL so far, in all lives.
    pub fn heartbeat(&self) -> u64 {
        self.memory.load64(status::HEARTBEAT)
    }

    /// The label of the executor that runs, as of [`StatusReader::generation`].
    pub fn executor(&self) -> String {
        let mut label = Vec::with_capacity(status::EXECUTOR_BYTES);
        for word in 0..LABEL_WORDS {
            let value = self.memory.load64(status::EXECUTOR + word * 8);
            label.extend_from_slice(&value.to_le_bytes());
        }
        let end = label.iter().position(|&byte| byte == 0).unwrap_or(label.len());
        String::from_utf8_lossy(&label[..end]).into_owned()
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
