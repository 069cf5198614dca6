//! Shared memory as the checker knows it: one of its atomics for each word that a model touches.
//!
//! A word that no model named does not exist: touching it fails the test. A *guarded* word is one
//! whose accesses other words put in order, as they do for the entries of a ring. The checker
//! fails where a load of it may run beside a store: where an entry is read before it is whole,
//! and also where its slot is written over before the reader is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::proto::layout::{lanes, rings, status};
use crate::shm::ring::RingSizes;
use crate::shm::words::{ReadWords, WriteWords};

/// One area.
#[derive(Debug)]
pub struct Memory {
    bytes: usize,
    words32: BTreeMap<usize, AtomicU32>,
    words64: BTreeMap<usize, Word64>,
}

#[derive(Debug)]
struct Word64 {
    word: AtomicU64,
    guarded: bool,
}

impl Memory {
    /// An area of `bytes` bytes with these 32-bit words, and these 64-bit words, guarded or not;
    /// all zero.
    pub fn new(
        bytes: usize,
        words32: impl IntoIterator<Item = usize>,
        words64: impl IntoIterator<Item = (usize, bool)>,
    ) -> Arc<Memory> {
        let words32 = words32.into_iter().map(|offset| (offset, AtomicU32::new(0))).collect();
        let words64 = words64
            .into_iter()
            .map(|(offset, guarded)| (offset, Word64 { word: AtomicU64::new(0), guarded }))
            .collect();
        Arc::new(Memory { bytes, words32, words64 })
    }

    /// A rings area with two entries in each ring and all indices at `start`. Entries are guarded,
    /// but for the words whose phase a client looks at before it knows anything.
    pub fn rings(start: u32) -> (Arc<Memory>, RingSizes) {
        let sizes = RingSizes::new(2, 2).expect("two entries are allowed");
        let indices =
            [rings::SUBMIT_TAIL, rings::SUBMIT_HEAD, rings::RESULT_TAIL, rings::RESULT_HEAD];
        let control = [rings::ARMED, rings::STATE, rings::GENERATION, rings::CLOSE_CODE];
        let results = rings::result_ring(sizes.submit());
        let entries = (rings::SUBMIT_RING..sizes.bytes())
            .step_by(8)
            .map(|offset| (offset, offset < results || offset % 64 != 56));
        let memory = Memory::new(sizes.bytes(), indices.into_iter().chain(control), entries);
        for index in indices {
            memory.store32(index, start);
        }
        (memory, sizes)
    }

    /// A lanes area with the first two bells and lanes.
    pub fn lanes() -> Arc<Memory> {
        let bells = [lanes::bell(0), lanes::bell(1)];
        let words = [(lanes::lane(0), false), (lanes::lane(1), false)];
        Memory::new(lanes::bytes(64), bells, words)
    }

    /// A status page.
    pub fn status() -> Arc<Memory> {
        let label = (status::EXECUTOR..status::EXECUTOR + status::EXECUTOR_BYTES).step_by(8);
        let words = label.chain([status::HEARTBEAT]).map(|offset| (offset, false));
        Memory::new(status::BYTES, [status::PARKED, status::GENERATION], words)
    }
}

impl ReadWords for Memory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn load32(&self, offset: usize) -> u32 {
        self.words32[&offset].load(Ordering::Relaxed)
    }

    fn load64(&self, offset: usize) -> u64 {
        let Word64 { word, guarded } = &self.words64[&offset];
        if *guarded {
            // SAFETY: the checker's atomics are never accessed for real at the same time; it
            // panics where the accesses that it models may be.
            return unsafe { word.unsync_load() };
        }
        word.load(Ordering::Relaxed)
    }

    fn address(&self, offset: usize) -> usize {
        offset
    }
}

impl WriteWords for Memory {
    fn store32(&self, offset: usize, value: u32) {
        self.words32[&offset].store(value, Ordering::Relaxed);
    }

    fn store64(&self, offset: usize, value: u64) {
        self.words64[&offset].word.store(value, Ordering::Relaxed);
    }

    fn fetch_add32(&self, offset: usize, value: u32) -> u32 {
        self.words32[&offset].fetch_add(value, Ordering::Relaxed)
    }
}
