//! A session's memory: made by the desk, used by FILL, taken apart by the desk again.
//!
//! The desk makes the areas and maps them; [`Memory`] is what FILL works with, through the
//! engine's [`Ports`]. FILL never maps, unmaps or closes: it hands a [`Memory`] back.

use std::os::fd::OwnedFd;

use crate::core::error::{Error, ErrorCode, Result};
use crate::engine::table::TableLayout;
use crate::engine::{Ports, SessionParams};
use crate::host::futex::FutexAddr;
use crate::proto::entry::{EntryWords, ResultEntry};
use crate::proto::layout::SessionState;
use crate::shm::area::{Area, open_lanes, open_rings};
use crate::shm::bells::BellsView;
use crate::shm::control::Control;
use crate::shm::lanes::LanesView;
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::result_ring::ResultProducer;
use crate::shm::ring::RingSizes;
use crate::shm::submit_ring::SubmitConsumer;
use crate::shm::table::Table;

/// The mappings of one session.
pub struct Memory {
    /// The bells, read-only.
    pub bells: BellsView<Region<ReadOnly>>,
    lanes: LanesView<Region<ReadOnly>>,
    /// By lane: the word of another session that it shows, if it does.
    borrowed: Vec<Option<(LanesView<Region<ReadOnly>>, u32)>>,
    submissions: SubmitConsumer<Region<ReadWrite>>,
    results: ResultProducer<Region<ReadWrite>>,
}

/// Everything that is made for a session.
pub struct Made {
    /// What FILL works with.
    pub memory: Memory,
    /// The ticket table.
    pub table: Table,
    /// The control line, for the desk.
    pub control: Control<Region<ReadWrite>>,
    /// The rings area, for the client.
    pub rings_fd: OwnedFd,
    /// The lanes area, for the client.
    pub lanes_fd: OwnedFd,
}

impl Made {
    /// Makes and maps the areas of a session, which `generation` of the daemon serves; its lanes
    /// are there already, where they are adopted.
    ///
    /// # Errors
    /// `LimitExceeded` for sizes that cannot be, `SystemFailed` where memory or fds are short.
    pub fn new(params: &SessionParams, adopted: Option<OwnedFd>, generation: u32) -> Result<Made> {
        let sizes = RingSizes::new(params.submit_entries, params.result_entries)?;
        let rings = Area::rings(sizes)?.into_fd();
        let lanes = match adopted {
            Some(lanes) => lanes,
            None => Area::lanes(params.lanes)?.into_fd(),
        };
        let layout = TableLayout::new(params.lanes, params.result_entries);
        let table = Table::create(layout.bytes())?;
        Made::recover(params, rings, lanes, table, generation)
    }

    /// Maps the areas of a session, which `generation` of the daemon serves from now on.
    ///
    /// # Errors
    /// `SessionMemory` where the areas are not those of a session of this size, `SystemFailed`
    /// where memory is short.
    pub fn recover(
        params: &SessionParams,
        rings_fd: OwnedFd,
        lanes_fd: OwnedFd,
        table: Table,
        generation: u32,
    ) -> Result<Made> {
        let (rings, sizes) = open_rings(&rings_fd)?;
        let (lanes, lane_count) = open_lanes::<ReadOnly>(&lanes_fd)?;
        let found = (sizes.submit(), sizes.result(), lane_count);
        if found != (params.submit_entries, params.result_entries, params.lanes) {
            let text = "session memory: the areas are of other sizes than the table says";
            return Err(Error::new(ErrorCode::SessionMemory, text));
        }
        let control = Control::new(rings.clone(), sizes)?;
        control.serve(generation, SessionState::Live);
        Ok(Made {
            memory: Memory {
                bells: BellsView::new(lanes.clone())?,
                lanes: LanesView::new(lanes, params.lanes)?,
                borrowed: Vec::new(),
                submissions: SubmitConsumer::new(rings.clone(), sizes)?,
                results: ResultProducer::new(rings, sizes)?,
            },
            table,
            control,
            rings_fd,
            lanes_fd,
        })
    }
}

impl Memory {
    /// The futex word on which the client parks.
    pub fn tail_futex(&self) -> FutexAddr {
        FutexAddr::new(self.results.tail_address())
    }

    /// The futex word of a bell.
    pub fn bell_futex(&self, bell: u32) -> FutexAddr {
        FutexAddr::new(self.bells.address(bell))
    }
}

impl Ports for Memory {
    type Table = Table;

    fn lane_word(&self, lane: u32) -> u64 {
        match self.borrowed.get(lane as usize) {
            Some(Some((lanes, lane))) => lanes.load(*lane),
            _ => self.lanes.load(lane),
        }
    }
    fn borrow_lane(&mut self, lane: u32, owner: &Memory, owner_lane: u32) {
        let at = lane as usize;
        self.borrowed.resize(self.borrowed.len().max(at + 1), None);
        self.borrowed[at] = Some((owner.lanes.clone(), owner_lane));
    }
    fn give_back_lane(&mut self, lane: u32) {
        if let Some(borrowed) = self.borrowed.get_mut(lane as usize) {
            *borrowed = None;
        }
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
