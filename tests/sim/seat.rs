//! One session: the memory that outlives the daemon, its client, and its book.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use parkd::core::error::Result;
use parkd::engine::table::{self, TableLayout};
use parkd::engine::{Ports, SessionParams};
use parkd::proto::entry::{EntryWords, ResultEntry};
use parkd::proto::layout::{SessionState, lanes, rings};
use parkd::shm::bells::BellsView;
use parkd::shm::control::Control;
use parkd::shm::lanes::LanesView;
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::result_ring::ResultProducer;
use parkd::shm::ring::RingSizes;
use parkd::shm::submit_ring::SubmitConsumer;
use parkd::shm::table::Table;
use parkd::shm::words::{ReadWords, WriteWords};

use super::book::Book;
use super::client::Client;
use super::words::{Side, Words};
use super::world::World;

/// Entries of both rings: the fewest that a session may have.
pub const ENTRIES: u32 = 64;
/// Lanes of a session: the fewest that it may have.
pub const LANES: u32 = 64;
/// Lanes that are used.
pub const USED_LANES: u32 = 5;
/// Devices; a session has a doorbell and a bell for each.
pub const DEVICES: u32 = 2;

/// A session, whether or not a daemon lives that serves it.
pub struct Seat {
    pub slot: u16,
    /// Its number, in all lives of the daemon.
    pub serial: u32,
    pub params: SessionParams,
    /// Whether its client keeps the rules.
    pub honest: bool,
    pub sizes: RingSizes,
    pub rings: Region<ReadWrite>,
    pub lanes: Region<ReadWrite>,
    /// The table, while no daemon has it.
    table: Cell<Option<Table>>,
    /// Whether a daemon serves it: one that has just come has not taken it over yet.
    pub served: Cell<bool>,
    /// The bells on which a wait of the daemon's stands, one bit for each: from when it was begun
    /// until the daemon hears of its end.
    pub waited: Cell<u64>,
    /// How the client sleeps: bits of `armed`, 0 while it is awake.
    pub asleep: Cell<u32>,
    /// Whether a wake of the client was lost on its way.
    pub wake_lost: Cell<bool>,
    /// Whether a result is being written.
    pub half_written: Cell<bool>,
    /// Whether the client's eventfd is readable.
    pub eventfd: Cell<bool>,
    /// Whether the client has hung up, and the daemon is to take the session out.
    pub left: Cell<bool>,
    /// How often in a row a daemon has died while it recovered this session.
    pub deaths: Cell<u32>,
    /// Whether the last of these came at the very end.
    pub almost_over: Cell<bool>,
    pub book: RefCell<Book>,
    pub client: RefCell<Client>,
}

impl Seat {
    /// A session whose positions begin at `first`.
    pub fn new(
        world: &Rc<World>,
        slot: u16,
        serial: u32,
        params: SessionParams,
        honest: bool,
        first: u32,
    ) -> Rc<Seat> {
        let sizes = RingSizes::new(params.submit_entries, params.result_entries).unwrap();
        let rings = Region::heap(sizes.bytes()).unwrap();
        let positions =
            [rings::SUBMIT_TAIL, rings::SUBMIT_HEAD, rings::RESULT_HEAD, rings::RESULT_TAIL];
        positions.iter().for_each(|&word| rings.store32(word, first));
        let lanes = Region::heap(lanes::bytes(params.lanes)).unwrap();
        let layout = TableLayout::new(params.lanes, params.result_entries);
        let mut bytes = Table::heap(layout.bytes()).unwrap();
        let header = table::Table::over(layout, bytes.as_mut()).unwrap().header;
        (header.submit_head, header.result_tail) = (first, first);
        let client = Client::new(world, slot, sizes, &rings, &lanes, honest);
        Rc::new(Seat {
            slot,
            serial,
            honest,
            sizes,
            book: RefCell::new(Book::new(slot, serial, &params, honest, first)),
            params,
            rings,
            lanes,
            table: Cell::new(Some(bytes)),
            served: Cell::new(false),
            waited: Cell::new(0),
            asleep: Cell::new(0),
            wake_lost: Cell::new(false),
            half_written: Cell::new(false),
            eventfd: Cell::new(false),
            left: Cell::new(false),
            deaths: Cell::new(0),
            almost_over: Cell::new(false),
            client: RefCell::new(client),
        })
    }

    /// Its credit: what is neither outstanding nor unread.
    pub fn free(&self, world: &World) -> u32 {
        let unread = self.book.borrow().tail.wrapping_sub(self.rings.load32(rings::RESULT_HEAD));
        ENTRIES - world.owed[self.slot as usize].get() - unread
    }

    fn layout(&self) -> TableLayout {
        TableLayout::new(self.params.lanes, self.params.result_entries)
    }

    /// What a daemon that died has left in the table.
    pub fn left_behind<R>(&self, look: impl FnOnce(&mut table::Table<'_>) -> R) -> R {
        let mut bytes = self.table.take().expect("no daemon has the table");
        let found = look(&mut table::Table::over(self.layout(), bytes.as_mut()).unwrap());
        self.table.set(Some(bytes));
        found
    }

    /// Hands the table to a daemon.
    pub fn table(self: &Rc<Seat>, world: &Rc<World>) -> TableBytes {
        let bytes = self.table.take();
        assert!(bytes.is_some(), "no daemon has the table");
        TableBytes { seat: Rc::clone(self), world: Rc::clone(world), bytes }
    }

    /// Says which life of the daemon serves the session.
    pub fn serve(&self, world: &Rc<World>) {
        let words = Words::new(&self.rings, Side::Daemon(self.slot), world);
        let control = Control::new(words, self.sizes).unwrap();
        control.serve(world.generation.get(), SessionState::Live);
    }
}

/// The bytes of a table in the hands of a daemon; they go back to the seat when it dies.
pub struct TableBytes {
    seat: Rc<Seat>,
    world: Rc<World>,
    bytes: Option<Table>,
}

impl AsMut<[u8]> for TableBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        self.world.may_die();
        self.bytes.as_mut().expect("only a drop takes them").as_mut()
    }
}

impl Drop for TableBytes {
    fn drop(&mut self) {
        self.seat.table.set(self.bytes.take());
    }
}

/// The daemon's view of a session's shared memory.
pub struct View {
    seat: Rc<Seat>,
    world: Rc<World>,
    lanes: LanesView<Words>,
    /// The lanes that show another session's word: where it is.
    borrowed: Vec<(u32, LanesView<Words>, u32)>,
    submissions: SubmitConsumer<Words>,
    results: ResultProducer<Words>,
    pub bells: BellsView<Words>,
}

impl View {
    pub fn new(seat: &Rc<Seat>, world: &Rc<World>) -> View {
        let words = |region| Words::new(region, Side::Daemon(seat.slot), world);
        View {
            lanes: LanesView::new(words(&seat.lanes), seat.params.lanes).unwrap(),
            borrowed: Vec::new(),
            submissions: SubmitConsumer::new(words(&seat.rings), seat.sizes).unwrap(),
            results: ResultProducer::new(words(&seat.rings), seat.sizes).unwrap(),
            bells: BellsView::new(words(&seat.lanes)).unwrap(),
            seat: Rc::clone(seat),
            world: Rc::clone(world),
        }
    }
}

impl Ports for View {
    type Table = TableBytes;

    fn lane_word(&self, lane: u32) -> u64 {
        match self.borrowed.iter().find(|(borrowed, ..)| *borrowed == lane) {
            Some((_, lanes, lane)) => lanes.load(*lane),
            None => self.lanes.load(lane),
        }
    }
    fn borrow_lane(&mut self, lane: u32, owner: &View, owner_lane: u32) {
        self.give_back_lane(lane);
        self.borrowed.push((lane, owner.lanes.clone(), owner_lane));
    }
    fn give_back_lane(&mut self, lane: u32) {
        self.borrowed.retain(|(borrowed, ..)| *borrowed != lane);
    }
    fn submissions(&self, head: u32) -> Result<u32> {
        self.submissions.pending(head)
    }
    fn submission(&self, position: u32) -> EntryWords {
        let words = self.submissions.entry(position);
        self.seat.book.borrow_mut().copied(&self.world, position, words);
        words
    }
    fn set_submit_head(&self, head: u32) {
        self.submissions.set_head(head);
        self.seat.book.borrow_mut().head_shown(&self.world, head);
    }
    fn unread(&self, tail: u32) -> Result<u32> {
        self.results.unread(tail)
    }
    fn write_result(&self, position: u32, entry: ResultEntry) {
        self.seat.book.borrow_mut().wrote(&self.world, position, &entry);
        self.seat.half_written.set(true);
        self.results.write(position, entry);
        self.seat.half_written.set(false);
    }
    fn publish_tail(&self, tail: u32) {
        self.results.publish(tail);
        self.seat.book.borrow_mut().published(tail);
    }
    fn announce(&self, until_ns: u64) {
        self.results.announce(until_ns);
    }
    fn armed(&self) -> u32 {
        self.results.armed()
    }
}
