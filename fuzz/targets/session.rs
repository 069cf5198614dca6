//! A session's shared memory on the heap, through the daemon's own sides of it, and a table that
//! outlives its engine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use parkd::core::error::Result;
use parkd::engine::Ports;
use parkd::proto::entry::{EntryWords, ResultEntry};
use parkd::proto::layout;
use parkd::shm::lanes::LanesView;
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::result_ring::{ResultConsumer, ResultProducer};
use parkd::shm::ring::RingSizes;
use parkd::shm::submit_ring::{SubmitConsumer, SubmitProducer};
use zerocopy::IntoBytes;

pub const ENTRIES: u32 = 64;
pub const LANES: u32 = 64;

/// What both sides map.
#[derive(Clone)]
pub struct Shared {
    pub sizes: RingSizes,
    pub rings: Region<ReadWrite>,
    pub lanes: Region<ReadWrite>,
}

impl Shared {
    pub fn new() -> Shared {
        let sizes = RingSizes::new(ENTRIES, ENTRIES).expect("sizes of rings");
        let rings = Region::heap(sizes.bytes()).expect("memory of rings");
        let lanes = Region::heap(layout::lanes::bytes(LANES)).expect("memory of lanes");
        Shared { sizes, rings, lanes }
    }

    pub fn producer(&self) -> SubmitProducer<Region<ReadWrite>> {
        SubmitProducer::new(self.rings.clone(), self.sizes).expect("a fresh ring")
    }

    pub fn consumer(&self) -> ResultConsumer<Region<ReadWrite>> {
        ResultConsumer::new(self.rings.clone(), self.sizes).expect("memory that fits")
    }

    /// The daemon's sides.
    pub fn daemon(&self) -> Memory {
        Memory {
            lanes: LanesView::new(self.lanes.clone(), LANES).expect("memory that fits"),
            borrowed: HashMap::new(),
            submissions: SubmitConsumer::new(self.rings.clone(), self.sizes).expect("that fits"),
            results: ResultProducer::new(self.rings.clone(), self.sizes).expect("that fits"),
        }
    }
}

pub struct Memory {
    lanes: LanesView<Region<ReadWrite>>,
    borrowed: HashMap<u32, (LanesView<Region<ReadWrite>>, u32)>,
    submissions: SubmitConsumer<Region<ReadWrite>>,
    results: ResultProducer<Region<ReadWrite>>,
}

impl Ports for Memory {
    type Table = Table;

    fn lane_word(&self, lane: u32) -> u64 {
        match self.borrowed.get(&lane) {
            Some((lanes, lane)) => lanes.load(*lane),
            None => self.lanes.load(lane),
        }
    }
    fn borrow_lane(&mut self, lane: u32, owner: &Memory, owner_lane: u32) {
        self.borrowed.insert(lane, (owner.lanes.clone(), owner_lane));
    }
    fn give_back_lane(&mut self, lane: u32) {
        self.borrowed.remove(&lane);
    }
    fn submissions(&self, head: u32) -> Result<u32> {
        self.submissions.pending(head)
    }
    fn submission(&self, position: u32) -> EntryWords {
        self.submissions.entry(position)
    }
    fn set_submit_head(&self, head: u32) {
        self.submissions.set_head(head);
    }
    fn unread(&self, tail: u32) -> Result<u32> {
        self.results.unread(tail)
    }
    fn write_result(&self, position: u32, entry: ResultEntry) {
        self.results.write(position, entry);
    }
    fn publish_tail(&self, tail: u32) {
        self.results.publish(tail);
    }
    fn announce(&self, until_ns: u64) {
        self.results.announce(until_ns);
    }
    fn armed(&self) -> u32 {
        self.results.armed()
    }
}

/// What a daemon's death leaves of its table.
pub type Left = Rc<RefCell<Vec<u64>>>;

/// A table that leaves its bytes behind, as a memory file does.
pub struct Table {
    pub words: Vec<u64>,
    pub left: Left,
}

impl AsMut<[u8]> for Table {
    fn as_mut(&mut self) -> &mut [u8] {
        self.words.as_mut_bytes()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.left.replace(std::mem::take(&mut self.words));
    }
}
