//! What a session's client was promised, and what became of it.
//!
//! The book is told of everything that either side does and believes neither. It takes a ticket as
//! *accepted* when the daemon has passed its origin, as the table says after a kill; from then on
//! exactly one result has to come, at the next position of the result ring, and `judge.rs` says
//! whether it is a right one. A result may be written a second time only by the next life of the
//! daemon, at the same position, with the same bytes.

use std::collections::HashMap;
use std::ops::Range;

use parkd::core::bands::Bands;
use parkd::core::error::ErrorCode;
use parkd::core::line::Width;
use parkd::engine::SessionParams;
use parkd::engine::table::over;
use parkd::proto::entry::{EntryWords, Op, ResultEntry, SubmitEntry, TicketKind};

use super::lane_book::{Ending, LaneBook, Origin, is_there};
use super::plans;
use super::seat::LANES;
use super::tally::Count;
use super::world::World;

/// How far a ticket has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The client has handed it in.
    Handed,
    /// The daemon has accepted it.
    Waiting,
    /// Its result was written.
    Over,
    /// It was refused before it was accepted: no result comes.
    Void,
}

/// A time as the world has it, and as it counts for those who may be late.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: u64,
    pub fair: u64,
}

/// A ticket of an honest client.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub entry: SubmitEntry,
    pub state: State,
    /// In the daemon's clock; `MAX` for never.
    pub deadline: u64,
    /// The code with which it has to be refused.
    pub refusal: Option<ErrorCode>,
    /// Whether the client has asked to cancel it.
    pub cancels: bool,
    /// For an fd ticket: what its fd will say, 0 or an error.
    pub fd_code: u32,
    /// Whether the daemon polls its fd.
    pub polled: bool,
    /// When it was accepted, in fair time.
    pub accepted: u64,
    /// Since when its number has been there, or its fd ready.
    pub reached: Option<Moment>,
    /// When its deadline was first seen to have passed, in fair time.
    pub overdue: Option<u64>,
    /// Whether the client has taken its result.
    pub read: bool,
    /// How long it may take to be found once it is accepted, in nanoseconds.
    pub bound: u64,
}

impl Ticket {
    /// Whether its result was written and the client has not got it.
    pub fn is_lost(&self) -> bool {
        self.state == State::Over && !self.read
    }

    pub fn lane(&self) -> Option<usize> {
        (self.entry.kind == TicketKind::Word as u8).then_some(self.entry.source as usize)
    }
}

/// An entry of the submission ring.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    Ticket(usize),
    Cancel(usize),
    Fail(u32, u32),
}

/// What is being done for the client by a request.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    pub sharing: Option<(u32, u128)>,
    pub redeeming: Option<(Origin, LaneBook)>,
    pub sending: Option<(u64, Range<usize>)>,
    pub opening: bool,
    pub planning: Option<Bands>,
}

pub struct Book {
    pub slot: u16,
    pub uid: u32,
    pub offset: i64,
    salt: u64,
    honest: bool,
    pub tickets: Vec<Ticket>,
    /// Those that are neither over nor void.
    pub open: Vec<usize>,
    pub lanes: Vec<LaneBook>,
    pub plans: Vec<Bands>,
    pub draining: bool,
    pub shut: bool,
    pub under_way: UnderWay,
    first: u32,
    journal: Vec<Item>,
    /// Submissions before it are taken.
    pub head: u32,
    taking: bool,
    /// The next result's position.
    pub tail: u32,
    /// What the client has been shown of it.
    pub shown: u32,
    results: Vec<ResultEntry>,
    /// Whether the last result may be written once more.
    rewrite: bool,
    pub last_cookie: u64,
    /// Up to where submissions were rung for, and when they have to be taken at the latest.
    pub rung: Option<(u32, u64)>,
    /// Of a hostile client: tickets handed in by each name, less results.
    names: HashMap<u64, u32>,
}

impl Book {
    pub fn new(slot: u16, serial: u32, params: &SessionParams, honest: bool, first: u32) -> Book {
        Book {
            slot,
            uid: params.uid,
            offset: params.clock_offset_ns,
            salt: u64::from(serial).wrapping_mul(0x0001_0000_0001_0003) << 20,
            honest,
            tickets: Vec::new(),
            open: Vec::new(),
            lanes: vec![LaneBook::default(); LANES as usize],
            plans: Vec::new(),
            draining: false,
            shut: false,
            under_way: UnderWay::default(),
            first,
            journal: Vec::new(),
            head: first,
            taking: false,
            tail: first,
            shown: first,
            results: Vec::new(),
            rewrite: false,
            last_cookie: 0,
            rung: None,
            names: HashMap::new(),
        }
    }

    /// The client's name for a ticket.
    pub fn name(&self, at: usize) -> u64 {
        self.salt ^ at as u64
    }

    fn named(&self, name: u64) -> Option<usize> {
        let at = (self.salt ^ name) as usize;
        (at < self.tickets.len()).then_some(at)
    }

    /// The client hands a ticket in; its name is set. Answers its number.
    pub fn hand(&mut self, entry: SubmitEntry, fd_code: u32) -> usize {
        let at = self.tickets.len();
        let entry = SubmitEntry { user_data: self.name(at), ..entry };
        let deadline = match entry.deadline_ns {
            0 => u64::MAX,
            theirs => theirs.saturating_add_signed(self.offset).max(1),
        };
        self.tickets.push(Ticket {
            entry,
            state: State::Handed,
            deadline,
            refusal: None,
            cancels: false,
            fd_code,
            polled: false,
            accepted: 0,
            reached: None,
            overdue: None,
            read: false,
            bound: 0,
        });
        self.open.push(at);
        at
    }

    /// The client has put an entry into the submission ring.
    pub fn pushed(&mut self, position: u32, item: Item) {
        assert_eq!(position, self.first.wrapping_add(self.journal.len() as u32));
        self.journal.push(item);
    }

    fn item(&self, position: u32) -> Item {
        self.journal[position.wrapping_sub(self.first) as usize]
    }

    /// The daemon has copied a submission.
    pub fn copied(&mut self, world: &World, position: u32, words: EntryWords) {
        let entry = SubmitEntry::from_words(words);
        if !self.honest {
            *self.names.entry(entry.user_data).or_default() += u32::from(entry.op == 1);
            return;
        }
        self.settle(world);
        assert_eq!(position, self.head, "a submission is taken out of its turn");
        if let Item::Ticket(at) = self.item(position) {
            assert_eq!(entry, self.tickets[at].entry, "a submission is not what was pushed");
            let rate = world.rates.refusal(&world.tally, self.uid, 1, world.now.get());
            if rate.is_none() {
                world.rates.spend(self.uid, 1, world.now.get());
            }
            self.tickets[at].refusal = rate.or_else(|| match entry.flags {
                0 => self.refusal(world, &entry, false),
                _ => Some(ErrorCode::UnknownFlags),
            });
        }
        self.taking = true;
    }

    /// The client has been shown how far its submissions are taken.
    pub fn head_shown(&mut self, world: &World, head: u32) {
        if self.honest {
            self.settle(world);
            assert_eq!(head, self.head, "the submission head is shown wrong");
        }
    }

    /// The submission that was copied is over.
    fn settle(&mut self, world: &World) {
        if !std::mem::take(&mut self.taking) {
            return;
        }
        let position = self.head;
        self.head = position.wrapping_add(1);
        if self.head == 0 {
            world.tally.add(Count::Wrapped);
        }
        match self.item(position) {
            Item::Ticket(at) => self.accept(world, at),
            Item::Cancel(at) => {
                let state = self.tickets[at].state;
                assert_ne!(state, State::Waiting, "the CANCEL of ticket {at} has ended nothing");
            }
            Item::Fail(lane, code) => {
                let lane = &mut self.lanes[lane as usize];
                if lane.open && lane.origin.is_none() {
                    lane.failed = Some(code);
                }
            }
        }
    }

    fn accept(&mut self, world: &World, at: usize) {
        // Not before: the lane may have been another device's when the ticket was made.
        let bound = self.bound(world, at);
        let ticket = &mut self.tickets[at];
        assert_eq!(ticket.state, State::Handed, "ticket {at} is accepted twice");
        ticket.state = State::Waiting;
        ticket.bound = bound;
        ticket.accepted = world.fair();
        if let Some(lane) = ticket.lane() {
            let lane = &self.lanes[lane % LANES as usize];
            let there = is_there(lane.width, lane.word, ticket.entry.target);
            ticket.reached = there.then(|| world.moment());
        }
        world.owed[self.slot as usize].update(|owed| owed + 1);
        world.tally.add(Count::Tickets);
        world.say(|| format!("  accepted {}.{at}", self.slot));
    }

    /// How long a ticket may take to be found.
    fn bound(&self, world: &World, at: usize) -> u64 {
        let ticket = &self.tickets[at];
        let Some(lane) = ticket.lane() else { return 0 };
        let bands = match ticket.entry.plan {
            0 => world.config.devices.get(self.lanes[lane % LANES as usize].device as usize),
            id => self.plans.get(id as usize - 1),
        };
        // Without a plan it is refused.
        bands.map_or(0, |bands| plans::bound(&bands.plan_for(ticket.entry.rows), &world.config))
    }

    /// Why the daemon has to refuse a ticket, if it has to.
    pub fn refusal(&self, world: &World, entry: &SubmitEntry, socket: bool) -> Option<ErrorCode> {
        if self.draining {
            return Some(ErrorCode::Draining);
        }
        let mut device = 0;
        if entry.kind == TicketKind::Word as u8 {
            match self.lanes.get(entry.source as usize).filter(|lane| lane.open) {
                Some(lane) => device = lane.device,
                None => return Some(ErrorCode::NoSuchLane),
            }
        } else if !(socket && entry.kind == TicketKind::Fd as u8) {
            return Some(ErrorCode::NotSupported);
        }
        let known = match entry.plan {
            0 => (device as usize) < world.config.devices.len(),
            id => (id as usize) <= self.plans.len(),
        };
        if !known {
            return Some(ErrorCode::NoSuchPlan);
        }
        self.quota(world, 1)
    }

    /// Which limit refuses `more` tickets.
    pub fn quota(&self, world: &World, more: u32) -> Option<ErrorCode> {
        let code = if world.owed_by(None) + more > world.config.tickets {
            Some(ErrorCode::LimitExceeded)
        } else if world.owed_by(Some(self.uid)) + more > world.config.tickets_per_uid {
            Some(ErrorCode::QuotaExceeded)
        } else {
            None
        };
        world.tally.add_many(Count::QuotaHit, u64::from(code.is_some()));
        code
    }

    /// The SUBMIT under way was accepted.
    pub fn sent(&mut self, world: &World) {
        let Some((cookie, tickets)) = self.under_way.sending.take() else { return };
        self.last_cookie = cookie;
        for at in tickets {
            if self.tickets[at].state == State::Handed {
                self.accept(world, at);
            }
        }
    }

    /// The SUBMIT of these tickets was refused.
    pub fn void(&mut self, tickets: Range<usize>) {
        tickets.clone().for_each(|at| self.tickets[at].state = State::Void);
        self.open.retain(|at| !tickets.contains(at));
    }

    /// The daemon writes a result.
    pub fn wrote(&mut self, world: &World, position: u32, entry: &ResultEntry) {
        if position == self.tail.wrapping_sub(1) && self.rewrite {
            let last = self.results.last();
            assert_eq!(last, Some(entry), "a result is written again with other bytes");
            world.tally.add(Count::Rewritten);
            return;
        }
        assert_eq!(position, self.tail, "a result is written out of its turn");
        self.tail = position.wrapping_add(1);
        self.results.push(*entry);
        world.tally.add_many(Count::Wrapped, u64::from(self.tail == 0));
        if !self.honest {
            let left = self.names.get_mut(&entry.user_data).filter(|left| **left > 0);
            *left.expect("a result for a ticket that was never handed in") -= 1;
            return;
        }
        let Some(at) = self.named(entry.user_data) else {
            panic!("a result for a ticket that never was: {entry:?}");
        };
        if self.tickets[at].state == State::Handed {
            self.accept_by_result(world, at);
        }
        let state = self.tickets[at].state;
        assert_eq!(state, State::Waiting, "a second result for ticket {at}: {entry:?}");
        world.say(|| format!("  result {}.{at}: status {}", self.slot, entry.status));
        self.judge(world, at, position, entry);
        self.tickets[at].state = State::Over;
        self.open.retain(|&open| open != at);
        world.owed[self.slot as usize].update(|owed| owed - 1);
    }

    /// A result comes for a ticket that was not seen to be accepted: it is being taken.
    fn accept_by_result(&mut self, world: &World, at: usize) {
        let sent = self.under_way.sending.as_ref().is_some_and(|(_, sent)| sent.contains(&at));
        if sent {
            return self.accept(world, at);
        }
        let taken = self.taking && matches!(self.item(self.head), Item::Ticket(it) if it == at);
        assert!(taken, "a result for ticket {at}, which was not accepted");
        self.settle(world);
    }

    /// The client's tail was moved.
    pub fn published(&mut self, tail: u32) {
        assert_eq!(tail, self.tail, "the client is shown a wrong tail");
        self.shown = tail;
    }

    /// The client takes a result.
    pub fn took(&mut self, position: u32, entry: &ResultEntry) {
        let at = position.wrapping_sub(self.first) as usize;
        let Some(written) = self.results.get(at) else {
            panic!("the client takes a result that was not written: {entry:?}");
        };
        assert_eq!(written, entry, "the client takes another result than was written");
        let at = self.named(entry.user_data).expect("judged when it was written");
        assert!(!self.tickets[at].read, "the client takes two results of ticket {at}");
        self.tickets[at].read = true;
    }

    /// A number is about to be in a lane.
    pub fn store(&mut self, world: &World, lane: usize, word: u64) {
        let moment = world.moment();
        let width = self.lanes[lane].width;
        world.tally.add_many(Count::LanesWrapped, u64::from(self.lanes[lane].store(word)));
        for &at in &self.open {
            let ticket = &mut self.tickets[at];
            if ticket.lane() == Some(lane) {
                let there = is_there(width, word, ticket.entry.target);
                ticket.reached = there.then(|| ticket.reached.unwrap_or(moment));
            }
        }
    }

    /// The daemon was killed. `header` is what it has left in the table.
    pub fn killed(&mut self, world: &World, header: &parkd::engine::table::TableHeader) {
        self.rewrite = true;
        if !self.honest {
            return;
        }
        if self.taking && header.submit_head == self.head {
            self.taking = false;
            world.tally.add(Count::Retaken);
        }
        self.settle(world);
        assert_eq!(header.submit_head, self.head, "the table's submission head is wrong");
        match self.under_way.sending.take() {
            Some((cookie, tickets)) if header.last_cookie == cookie => {
                self.under_way.sending = Some((cookie, tickets));
                self.sent(world);
            }
            _ => assert_eq!(header.last_cookie, self.last_cookie, "the table's cookie is wrong"),
        }
        let behind = self.tail.wrapping_sub(header.result_tail);
        assert!(behind <= 1, "the table's result tail is {behind} behind");
        for &at in &self.open {
            self.tickets[at].polled = false;
        }
    }

    /// What the table knows of lanes and plans after a kill.
    pub fn killed_with(&mut self, lanes: &[parkd::engine::table::LaneRecord], plans: usize) {
        let opening = std::mem::take(&mut self.under_way.opening);
        let redeeming = self.under_way.redeeming.take();
        let sharing = self.under_way.sharing.take();
        for (at, (lane, record)) in self.lanes.iter_mut().zip(lanes).enumerate() {
            let open = record.width != 0;
            match (lane.open, open) {
                (true, false) => assert!(lane.closing, "lane {at} was closed by nobody"),
                (false, true) if record.owner != 0 => {
                    let (origin, theirs) = redeeming.as_ref().expect("somebody redeemed it");
                    lane.redeem(*origin, theirs);
                }
                (false, true) => assert!(opening, "lane {at} was opened by nobody"),
                _ => {}
            }
            match Width::from_bits(record.width as u8) {
                Some(width) if !lane.open => lane.open(width, record.device),
                None if lane.open => lane.close(),
                _ => {}
            }
            match record.over {
                over::OWNER_DIED if open => lane.ended = Some(Ending::Died),
                over::REVOKED if open => lane.ended = Some(Ending::Revoked),
                _ => {}
            }
            let capability = u128::from_le_bytes(record.capability);
            match (lane.shared, record.shared != 0 && record.owner == 0) {
                (Some(_), false) if open => {
                    assert!(lane.revoking, "lane {at} was revoked by nobody");
                    lane.shared = None;
                }
                (None, true) if open => {
                    assert_eq!(sharing, Some((at as u32, capability)), "shared by nobody");
                    lane.shared = Some(capability);
                }
                _ => {}
            }
            if open && record.over == over::FAILED && lane.failed.is_none() {
                assert!(lane.codes.contains(&record.code), "lane {at} was failed by nobody");
                lane.failed = Some(record.code);
            }
        }
        if let Some(plan) = self.under_way.planning.take()
            && plans > self.plans.len()
        {
            self.plans.push(plan);
        }
        assert_eq!(plans, self.plans.len(), "the table has lost a plan");
    }

    /// The session goes on in a new life of the daemon.
    pub fn resumed(&mut self) {
        self.rewrite = false;
        (self.draining, self.shut) = (false, false);
    }

    /// What a hostile client hands in by a message.
    pub fn hand_unsafely(&mut self, entries: &[SubmitEntry]) {
        for entry in entries.iter().filter(|entry| entry.op == Op::Ticket as u8) {
            *self.names.entry(entry.user_data).or_default() += 1;
        }
    }
}
