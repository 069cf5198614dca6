//! An honest client: one thread that hands in and one that takes results, each in small steps
//! between which, and inside of which, anything else may happen.

use std::collections::VecDeque;
use std::rc::Rc;

use parkd::core::line::Width;
use parkd::proto::entry::{Op, SubmitEntry, TicketKind};
use parkd::proto::layout::{armed, rings};
use parkd::shm::bells::{Bell, Ring};
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::result_ring::ResultConsumer;
use parkd::shm::ring::RingSizes;
use parkd::shm::submit_ring::SubmitProducer;
use parkd::shm::words::ReadWords;

use super::book::{Item, State};
use super::device::Devices;
use super::judge::SLACK_NS;
use super::plans;
use super::request::{Answer, Ask, Request};
use super::seat::{DEVICES, ENTRIES, LANES, Seat, USED_LANES};
use super::tally::Count;
use super::words::{Side, Words};
use super::world::World;

/// Percent of the time in which a slow client reads.
const SLOW: u64 = 2;

/// Where the thread that hands in stands.
#[derive(Clone, Copy, Debug)]
enum Writer {
    Idle,
    /// So many tickets are still to be pushed.
    Push(u64),
    Publish,
    Ring,
    Wake,
}

/// Where the thread that takes results stands; whether it sleeps is the seat's to say.
#[derive(Clone, Copy, Debug)]
enum Reader {
    Awake,
    /// It has armed, and is to look once more.
    Armed(u32, u32),
}

/// How a client lives.
#[derive(Clone, Copy, Debug)]
struct Style {
    /// Percent of its tickets that go through the ring.
    by_ring: u64,
    /// Percent of the time in which it reads.
    eager: u64,
    /// How it wants to be woken.
    how: u32,
}

pub struct Client {
    pub producer: SubmitProducer<Words>,
    pub consumer: ResultConsumer<Words>,
    doorbell: Bell<Words, Words>,
    pub devices: Devices,
    pub requests: VecDeque<Request>,
    in_service: Option<Request>,
    writer: Writer,
    reader: Reader,
    style: Style,
    /// Tickets handed in less results given back.
    used: u32,
    /// Results taken and not given back.
    taken: u32,
    cookies: u64,
    submits: u64,
    submitting: bool,
    opening: bool,
    /// Lanes that are open, as far as it knows.
    lanes: Vec<u32>,
    plans: u16,
    issued: [u64; LANES as usize],
    /// When it stops sleeping by itself.
    patience: u64,
    pub dead: bool,
}

impl Client {
    pub fn new(
        world: &Rc<World>,
        slot: u16,
        sizes: RingSizes,
        rings: &Region<ReadWrite>,
        lanes: &Region<ReadWrite>,
        honest: bool,
    ) -> Client {
        let words = |region| Words::new(region, Side::Client, world);
        let status = words(&world.status);
        let rng = &world.rng;
        let mut client = Client {
            producer: SubmitProducer::new(words(rings), sizes).unwrap(),
            consumer: ResultConsumer::new(words(rings), sizes).unwrap(),
            doorbell: Bell::new(words(lanes), status, 0).unwrap(),
            devices: Devices::new(world, slot, lanes),
            requests: VecDeque::new(),
            in_service: None,
            writer: Writer::Idle,
            reader: Reader::Awake,
            style: Style {
                by_ring: rng.pick(&[0, 50, 90, 100]),
                eager: rng.pick(&[SLOW, 30, 80]),
                how: rng.pick(&[armed::TAIL, armed::NOTIFY, armed::BOTH]),
            },
            used: 0,
            taken: 0,
            cookies: 100,
            submits: 0,
            submitting: false,
            opening: false,
            lanes: Vec::new(),
            plans: 0,
            issued: [0; LANES as usize],
            patience: 0,
            dead: false,
        };
        for lane in 0..=USED_LANES {
            client.issued[lane as usize] = client.devices.first_word(lane);
        }
        if honest {
            world.tally.add_many(Count::Slow, u64::from(client.style.eager == SLOW));
            client.ask(Ask::Open(None, Width::W64, 0));
        }
        client
    }

    pub fn ask(&mut self, ask: Ask) {
        self.cookies += 1;
        self.requests.push_back(Request { cookie: self.cookies, ask, again: false });
    }

    /// The daemon takes a request.
    pub fn served(&mut self) -> Option<Request> {
        self.in_service = self.requests.pop_front();
        self.in_service.clone()
    }

    /// The daemon answers the request that it took.
    pub fn answered(&mut self, world: &World, seat: &Seat, answer: Answer) {
        let Some(request) = self.in_service.take() else { return };
        world.say(|| format!("  answer {}: {answer:?}", seat.slot));
        match (&request.ask, answer) {
            (Ask::Open(..) | Ask::Redeem(_), answer) => {
                self.opening = false;
                if let Answer::Opened(lane) = answer {
                    self.lanes.push(lane);
                    let word = seat.book.borrow().lanes[lane as usize].word;
                    self.issued[lane as usize] = word;
                }
            }
            (Ask::Plan(_), Answer::Planned) => {
                self.plans = seat.book.borrow().plans.len() as u16;
            }
            (Ask::Submit(tickets), Answer::Refused(_)) => {
                self.submits -= 1;
                self.submitting = false;
                self.used -= tickets.len() as u32;
                seat.book.borrow_mut().void(tickets.clone());
            }
            (Ask::Submit(_), _) => self.submitting = false,
            _ => {}
        }
    }

    /// A new life of the daemon goes on with the session: what has no answer is asked again, and
    /// the fds of what waits are sent again.
    pub fn resumed(&mut self, world: &World, seat: &Seat) {
        if let Some(request) = self.in_service.take() {
            world.tally.add(Count::Again);
            self.requests.push_front(Request { again: true, ..request });
        }
        let book = seat.book.borrow();
        let waits = |at: &usize| {
            let ticket = &book.tickets[*at];
            ticket.state == State::Waiting && ticket.lane().is_none() && ticket.refusal.is_none()
        };
        let fds: Vec<usize> = book.open.iter().copied().filter(waits).collect();
        if !fds.is_empty() {
            self.ask(Ask::Fds(fds));
        }
    }

    /// One step of the thread that hands in.
    pub fn write(&mut self, world: &Rc<World>, seat: &Seat) {
        world.say(|| format!("client {} writes: {:?}", seat.slot, self.writer));
        self.writer = match self.writer {
            Writer::Idle if world.settling.get() => Writer::Idle,
            Writer::Idle => self.begin(world, seat),
            Writer::Push(left) => self.push(world, seat, left),
            Writer::Publish => {
                self.producer.publish();
                Writer::Ring
            }
            Writer::Ring => {
                world.now_or_never();
                match self.doorbell.ring() {
                    Ring::Awake => {
                        self.rung(seat, world.fair());
                        Writer::Idle
                    }
                    Ring::MustWake => Writer::Wake,
                }
            }
            Writer::Wake => {
                let by = world.wake(seat, 0);
                self.rung(seat, by);
                Writer::Idle
            }
        };
    }

    fn rung(&self, seat: &Seat, by: u64) {
        let tail = self.producer.tail();
        seat.book.borrow_mut().rung.get_or_insert((tail, by + SLACK_NS));
    }

    fn begin(&mut self, world: &World, seat: &Seat) -> Writer {
        let rng = &world.rng;
        let free = ENTRIES.saturating_sub(self.used);
        if rng.below(100) < world.sharing {
            self.ask_for_shares(world, seat);
            return Writer::Idle;
        }
        match rng.below(20) {
            0..=9 => {
                let ring = rng.below(100) < self.style.by_ring;
                if free == 0 {
                    world.tally.add(Count::CreditFull);
                } else if ring {
                    return Writer::Push(rng.up_to(free.into()));
                } else if !self.submitting {
                    self.submit(world, seat, rng.up_to(free.into()));
                }
            }
            10 | 11 => return self.cancel(world, seat),
            12 => return self.fail(world, seat),
            13 | 14 if !self.opening && self.lanes.len() < USED_LANES as usize => {
                let lane = rng.one_in(3).then(|| rng.below(USED_LANES.into()) as u32);
                let width = rng.pick(&[Width::W64, Width::W32]);
                self.opening = true;
                self.ask(Ask::Open(lane, width, rng.below(DEVICES.into()) as u32));
            }
            15 if rng.one_in(3) && self.lanes.len() > 1 => {
                let at = rng.below(self.lanes.len() as u64) as usize;
                let lane = self.lanes.swap_remove(at);
                self.ask(Ask::Close(lane));
            }
            16 | 17 => self.ask(Ask::Plan(rng.below(plans::COUNT))),
            18 if !self.submitting && self.style.by_ring == 0 => {
                // More than there is credit for: refused as a whole. (What is in the ring has to
                // be counted: the daemon does not see it yet.)
                self.submit(world, seat, u64::from(free) + 1 + rng.below(20));
            }
            _ => {}
        }
        Writer::Idle
    }

    /// Shares, revokes or redeems a lane.
    fn ask_for_shares(&mut self, world: &World, seat: &Seat) {
        let rng = &world.rng;
        let room = !self.opening && self.lanes.len() < USED_LANES as usize;
        match rng.below(4) {
            0 if !self.lanes.is_empty() => {
                let lane = rng.pick(&self.lanes);
                self.ask(Ask::Share(lane));
            }
            1 if rng.one_in(2) => {
                let book = seat.book.borrow();
                if let Some(lane) = book.lanes.iter().position(|lane| lane.shared.is_some()) {
                    self.ask(Ask::Revoke(lane as u32));
                }
            }
            _ if room => {
                let known = world.capabilities.borrow();
                if let Some(origin) = known.iter().rev().nth(rng.below(4) as usize) {
                    self.opening = true;
                    self.ask(Ask::Redeem(*origin));
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, world: &World, seat: &Seat, left: u64) -> Writer {
        let mut left = left;
        for _ in 0..world.rng.up_to(left) {
            if self.producer.in_flight().unwrap() == ENTRIES {
                world.tally.add(Count::SubmitFull);
                return Writer::Publish;
            }
            let at = self.make(world, seat, false);
            let entry = seat.book.borrow().tickets[at].entry;
            self.used += 1;
            self.push_entry(seat, &entry, Item::Ticket(at));
            left -= 1;
        }
        if left == 0 { Writer::Publish } else { Writer::Push(left) }
    }

    fn push_entry(&mut self, seat: &Seat, entry: &SubmitEntry, item: Item) {
        let position = self.producer.push(&entry.to_words()).unwrap();
        seat.book.borrow_mut().pushed(position.expect("there was room"), item);
    }

    fn submit(&mut self, world: &World, seat: &Seat, count: u64) {
        let tickets: Vec<usize> = (0..count).map(|_| self.make(world, seat, true)).collect();
        self.used += tickets.len() as u32;
        self.submits += 1;
        self.submitting = true;
        let ask = Ask::Submit(tickets[0]..tickets[tickets.len() - 1] + 1);
        self.requests.push_back(Request { cookie: self.submits, ask, again: false });
    }

    fn cancel(&mut self, world: &World, seat: &Seat) -> Writer {
        let book = seat.book.borrow();
        if book.open.is_empty() {
            return Writer::Idle;
        }
        let at = world.rng.pick(&book.open);
        let name = book.name(at);
        drop(book);
        let entry = SubmitEntry { op: Op::Cancel as u8, user_data: name, ..Default::default() };
        self.ask_or_push(world, seat, entry, Item::Cancel(at), Ask::Cancel(at))
    }

    fn fail(&mut self, world: &World, seat: &Seat) -> Writer {
        if self.lanes.is_empty() || !world.rng.one_in(3) {
            return Writer::Idle;
        }
        let lane = world.rng.pick(&self.lanes);
        let code = world.rng.next() as u32 | 1;
        let entry = SubmitEntry {
            op: Op::Fail as u8,
            source: lane,
            target: code.into(),
            ..Default::default()
        };
        self.ask_or_push(world, seat, entry, Item::Fail(lane, code), Ask::Fail(lane, code))
    }

    fn ask_or_push(
        &mut self,
        world: &World,
        seat: &Seat,
        entry: SubmitEntry,
        item: Item,
        ask: Ask,
    ) -> Writer {
        let ring = world.rng.below(100) < self.style.by_ring;
        if ring && self.producer.in_flight().unwrap() == ENTRIES {
            return Writer::Publish;
        }
        let mut book = seat.book.borrow_mut();
        match item {
            Item::Cancel(at) => book.tickets[at].cancels = true,
            Item::Fail(..) | Item::Ticket(_) => {}
        }
        drop(book);
        if let Item::Fail(lane, code) = item {
            world.posted(seat, lane as usize, code);
        }
        if !ring {
            self.ask(ask);
            return Writer::Idle;
        }
        self.push_entry(seat, &entry, item);
        Writer::Publish
    }

    /// Makes a ticket up and answers its number.
    fn make(&mut self, world: &World, seat: &Seat, socket: bool) -> usize {
        let rng = &world.rng;
        let mut book = seat.book.borrow_mut();
        let astray = self.lanes.is_empty() || rng.one_in(40);
        let lane = match astray {
            true => rng.below(u64::from(USED_LANES) + 1) as u32,
            false => rng.pick(&self.lanes),
        };
        let issued = &mut self.issued[lane as usize];
        let word = book.lanes[lane as usize].word;
        let target = match rng.below(12) {
            0 => word,
            1 => word.wrapping_sub(rng.below(3)),
            2 => *issued,
            _ => {
                let ahead = issued.wrapping_add(rng.up_to(3));
                *issued = ahead;
                ahead
            }
        };
        // Of a 32-bit lane's number only the low half counts.
        let narrow = book.lanes[lane as usize].width == Width::W32;
        let target = target ^ if narrow { rng.pick(&[0, 0, 1, 7 << 20]) << 32 } else { 0 };
        let now = world.now.get().wrapping_sub(book.offset as u64);
        let deadline_ns = match rng.below(6) {
            0 | 1 => now + rng.up_to(4_000_000),
            2 if rng.one_in(5) => now - rng.up_to(1000),
            _ => 0,
        };
        let stray_plan = rng.one_in(60);
        let plan = if stray_plan { 60 } else { rng.below(u64::from(self.plans) + 1) as u16 };
        let kind = match rng.below(60) {
            0 => TicketKind::Event,
            1..=12 if socket => TicketKind::Fd,
            1 => TicketKind::Fd,
            _ => TicketKind::Word,
        };
        let entry = SubmitEntry {
            op: Op::Ticket as u8,
            kind: kind as u8,
            flags: u16::from(!socket && rng.one_in(80)),
            source: lane,
            target,
            point: rng.below(3),
            deadline_ns,
            plan,
            rows: rng.below(200) as u32,
            ..Default::default()
        };
        let fd_code = if rng.one_in(4) { 5 } else { 0 };
        book.hand(entry, fd_code)
    }

    /// One step of the thread that takes results.
    pub fn read(&mut self, world: &Rc<World>, seat: &Seat) {
        let rng = &world.rng;
        let asleep = seat.asleep.get();
        world.say(|| format!("client {} reads: {:?}, asleep {asleep}", seat.slot, self.reader));
        if seat.asleep.get() != 0 {
            let lost = seat.wake_lost.get() && world.settling.get();
            let nothing = rng.one_in(200);
            world.tally.add_many(Count::ClientSpurious, u64::from(nothing));
            if world.now.get() >= self.patience || lost || nothing {
                seat.asleep.set(0);
            }
            return;
        }
        seat.wake_lost.set(false);
        match self.reader {
            Reader::Awake => self.take(world, seat),
            Reader::Armed(tail, how) => {
                self.reader = Reader::Awake;
                if self.consumer.ready() {
                    if rng.one_in(2) {
                        self.consumer.disarm();
                    }
                    return;
                }
                let told = how & armed::NOTIFY != 0 && seat.eventfd.take();
                // The kernel compares before it sleeps.
                let moved = seat.rings.load32(rings::RESULT_TAIL) != tail;
                let returns = how & armed::TAIL != 0 && moved;
                if !told && !returns {
                    seat.asleep.set(how);
                    self.patience = world.now.get() + 20_000_000;
                }
            }
        }
    }

    fn take(&mut self, world: &World, seat: &Seat) {
        let rng = &world.rng;
        let eager = world.settling.get() || rng.below(100) < self.style.eager;
        if !eager {
            return;
        }
        let counted = seat.rings.load32(rings::RESULT_TAIL).wrapping_sub(self.consumer.head());
        if counted as i32 > 0 {
            assert!(self.consumer.ready(), "the tail counts a result that is not there");
        }
        world.tally.add_many(Count::ResultFull, u64::from(counted == ENTRIES));
        let before = self.taken;
        for _ in 0..rng.up_to(ENTRIES.into()) {
            let position = self.consumer.head();
            let Some(entry) = self.consumer.next() else { break };
            seat.book.borrow_mut().took(position, &entry);
            self.taken += 1;
        }
        world.tally.add_many(Count::Taken, u64::from(self.taken - before));
        if self.taken > 0 && (rng.one_in(2) || world.settling.get()) {
            self.used -= std::mem::take(&mut self.taken);
            self.consumer.advance();
        } else if before == self.taken {
            world.now_or_never();
            let tail = self.consumer.arm(self.style.how);
            self.reader = Reader::Armed(tail, self.style.how);
        }
    }

    /// Asks for the end of all that waits.
    pub fn give_up(&mut self, world: &World, seat: &Seat) {
        let open = seat.book.borrow().open.clone();
        for at in open {
            seat.book.borrow_mut().tickets[at].cancels = true;
            self.ask(Ask::Cancel(at));
        }
        world.say(|| format!("client {} gives up", seat.slot));
    }
}
