//! Shared memory in which every access is a moment at which something else may happen.
//!
//! The rings, bells and lanes of `parkd::shm` are generic over their memory; here it is a heap
//! region behind a hook. What the daemon touches is also a moment at which it may be killed: so a
//! result entry can be left half written.

use std::rc::Rc;

use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::words::{ReadWords, WriteWords};

use super::world::World;

/// Whose access it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The daemon's, to the memory of the session in a slot.
    Daemon(u16),
    /// A client's.
    Client,
}

/// A region as one side uses it.
#[derive(Clone)]
pub struct Words {
    region: Region<ReadWrite>,
    side: Side,
    world: Rc<World>,
}

impl Words {
    pub fn new(region: &Region<ReadWrite>, side: Side, world: &Rc<World>) -> Words {
        Words { region: region.clone(), side, world: Rc::clone(world) }
    }
}

impl ReadWords for Words {
    fn bytes(&self) -> usize {
        self.region.bytes()
    }
    fn load32(&self, offset: usize) -> u32 {
        self.world.touched(self.side);
        self.region.load32(offset)
    }
    fn load64(&self, offset: usize) -> u64 {
        self.world.touched(self.side);
        self.region.load64(offset)
    }
    fn address(&self, offset: usize) -> usize {
        self.region.address(offset)
    }
}

impl WriteWords for Words {
    fn store32(&self, offset: usize, value: u32) {
        self.world.touched(self.side);
        self.region.store32(offset, value);
    }
    fn store64(&self, offset: usize, value: u64) {
        self.world.touched(self.side);
        self.region.store64(offset, value);
    }
    fn fetch_add32(&self, offset: usize, value: u32) -> u32 {
        self.world.touched(self.side);
        self.region.fetch_add32(offset, value)
    }
}
