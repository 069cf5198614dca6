//! The world of one seed: its sessions, its daemon, its clock, and what happens next.
//!
//! *Time* is virtual: it passes in [`World::pass`] and nowhere else. *Fair* time leaves out what a
//! daemon cannot help, while it is dead and when the clock jumps; lateness is measured in it.
//!
//! The daemon dies where [`World::may_die`] is called and the *fuse* has burnt down: at any access
//! to a table or to shared memory, and between the parts of a turn. Death unwinds the stack and
//! drops the engine; memory and tables stay as they are at that moment.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use parkd::core::estimator::EstimatorKind;
use parkd::core::time::DurNs;
use parkd::engine::{Config, SessionParams};
use parkd::proto::layout::{rings, status};
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::words::ReadWords;

use super::book::Moment;
use super::daemon::Daemon;
use super::hostile;
use super::kill::Kill;
use super::lane_book::Origin;
use super::plans;
use super::rates::Rates;
use super::rng::Rng;
use super::seat::{DEVICES, ENTRIES, LANES, Seat};
use super::tally::{Count, Tally};
use super::words::Side;

/// Sessions at a time.
pub const SLOTS: usize = 3;

/// Moments at which a daemon may die in one step, far more than any needs.
const MOMENTS_MAX: u32 = 10_000_000;

/// The payload of a panic that is a kill.
struct Killed;

/// A wake on its way to the daemon.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    pub slot: u16,
    pub bell: u32,
    /// When it arrives.
    pub at: u64,
}

pub struct World {
    pub rng: Rng,
    pub config: Config,
    pub tally: Tally,
    pub now: Cell<u64>,
    /// Time that counts for nobody.
    excused: Cell<u64>,
    /// When the daemon last came back, in fair time.
    pub resumed: Cell<u64>,
    /// Whether the daemon has found the owners of redeemed lanes again.
    pub linked: Cell<bool>,
    /// The session that is being recovered.
    pub recovering: Cell<Option<u16>>,
    pub generation: Cell<u32>,
    pub status: Region<ReadWrite>,
    pub wakes: RefCell<Vec<Wake>>,
    /// Capabilities that clients have told one another of.
    pub capabilities: RefCell<Vec<Origin>>,
    /// Sessions that went, quarantined or of themselves, before a new daemon had found the owners
    /// of redeemed lanes: what was in their lanes is not looked at any more.
    pub given_up: RefCell<Vec<u32>>,
    pub seats: RefCell<Vec<Option<Rc<Seat>>>>,
    /// Tickets outstanding, by slot.
    pub owed: [Cell<u32>; SLOTS],
    /// Whether the seed comes to its end: everybody does what is right now.
    pub settling: Cell<bool>,
    /// What users may still hand in.
    pub rates: Rates,
    /// Whether somebody only looks: nothing happens meanwhile.
    quiet: Cell<bool>,
    pub daemon: RefCell<Option<Box<Daemon>>>,
    /// Moments until the daemon dies; 0 while it need not.
    pub fuse: Cell<u32>,
    /// Accesses until somebody else makes a step, and how many that is at most.
    calm: Cell<u32>,
    /// Moments at which the daemon might have died in this step.
    pub moments: Cell<u32>,
    restless: u64,
    nested: Cell<bool>,
    serials: Cell<u32>,
    /// Percent of what clients ask for that is about shared lanes.
    pub sharing: u64,
    /// In how many steps the daemon is to be killed once.
    kill_every: u64,
    kill: Option<Kill>,
    /// Whether that kill is still to come.
    pub to_die: Cell<bool>,
    trace: bool,
}

impl World {
    pub fn new(seed: u64, kill: Option<Kill>, trace: bool) -> Rc<World> {
        let rng = Rng::new(seed);
        let mut config = Config::with_plan(plans::bands(rng.below(plans::COUNT)));
        config.devices = (0..DEVICES).map(|_| plans::bands(rng.below(plans::COUNT))).collect();
        config.park = DurNs::from_us(rng.pick(&[20, 100]));
        config.backstop = DurNs::from_us(rng.pick(&[200, 1000]));
        config.spin = DurNs::from_us(rng.pick(&[50, 300]));
        config.estimator = rng.pick(EstimatorKind::ALL);
        config.spin_budget_percent = rng.pick(&[0, 20, 100]);
        if rng.one_in(2) {
            config.tickets = 20 + rng.below(100) as u32;
            config.tickets_per_uid = 10 + rng.below(60) as u32;
        }
        if rng.one_in(6) {
            config.submits_per_second = rng.pick(&[40, 200, 1000]);
        }
        let world = World {
            tally: Tally::new(),
            now: Cell::new(1_000_000_000_000),
            excused: Cell::new(0),
            resumed: Cell::new(0),
            linked: Cell::new(false),
            recovering: Cell::new(None),
            generation: Cell::new(0),
            status: Region::heap(status::BYTES).unwrap(),
            wakes: RefCell::default(),
            capabilities: RefCell::default(),
            given_up: RefCell::default(),
            seats: RefCell::new(vec![None; SLOTS]),
            owed: [const { Cell::new(0) }; SLOTS],
            settling: Cell::new(false),
            rates: Rates::new(config.submits_per_second),
            quiet: Cell::new(false),
            config,
            daemon: RefCell::new(None),
            fuse: Cell::new(0),
            calm: Cell::new(1),
            moments: Cell::new(0),
            restless: rng.pick(&[20, 100, 1000]),
            nested: Cell::new(false),
            serials: Cell::new(0),
            kill_every: rng.pick(&[40, 100, 300]),
            sharing: rng.pick(&[1, 5, 40]),
            kill,
            to_die: Cell::new(false),
            trace,
            rng,
        };
        Rc::new(world)
    }

    /// Says what happens, where it is replayed.
    pub fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>12} {}", self.now.get() % 1_000_000_000_000, what());
        }
    }

    pub fn fair(&self) -> u64 {
        self.now.get() - self.excused.get()
    }

    pub fn moment(&self) -> Moment {
        Moment { now: self.now.get(), fair: self.fair() }
    }

    /// Tickets outstanding, of one user or of all: in sessions that are served.
    pub fn owed_by(&self, uid: Option<u32>) -> u32 {
        let seats = self.seats.borrow();
        let seats = seats.iter().flatten();
        let of =
            |seat: &&Rc<Seat>| seat.served.get() && uid.is_none_or(|uid| seat.params.uid == uid);
        seats.filter(of).map(|seat| self.owed[seat.slot as usize].get()).sum()
    }

    /// A moment at which the daemon may be killed.
    pub fn may_die(&self) {
        if self.quiet.get() {
            return;
        }
        let moments = self.moments.get() + 1;
        self.moments.set(moments);
        assert!(moments < MOMENTS_MAX, "the daemon does not come to the end of a turn");
        match self.fuse.get() {
            0 => {}
            1 => {
                self.fuse.set(0);
                self.to_die.set(false);
                self.say(|| "KILLED".to_owned());
                resume_unwind(Box::new(Killed));
            }
            left => self.fuse.set(left - 1),
        }
    }

    /// Shared memory is about to be accessed: the daemon may die of it, and somebody else may make
    /// a step first.
    pub fn touched(self: &Rc<World>, side: Side) {
        if self.quiet.get() {
            return;
        }
        if side != Side::Client {
            self.may_die();
        }
        let calm = self.calm.get();
        if calm > 1 {
            return self.calm.set(calm - 1);
        }
        self.calm.set(1 + self.rng.below(self.restless) as u32);
        if self.nested.replace(true) {
            return;
        }
        match side {
            Side::Daemon(slot) => self.interleave(slot),
            Side::Client => {
                // One turn may be hot, and the next go to sleep.
                for _ in 0..1 + self.rng.below(3) {
                    if self.daemon.borrow().is_some() {
                        self.tally.add(Count::Nested);
                        self.say(|| " a turn meanwhile".to_owned());
                        self.turn();
                        self.now.update(|now| now + self.rng.up_to(100_000));
                    }
                }
            }
        }
        self.nested.set(false);
    }

    /// What follows is a few accesses on which much depends: somebody else likes to step in.
    pub fn now_or_never(&self) {
        if self.rng.one_in(2) {
            self.calm.set(1 + self.rng.below(4) as u32);
        }
    }

    /// A step of the session in `slot`, or of any, inside of a turn.
    fn interleave(self: &Rc<World>, slot: u16) {
        let slot = match slot as usize {
            slot if slot < SLOTS => slot,
            _ => self.rng.below(SLOTS as u64) as usize,
        };
        let Some(seat) = self.seats.borrow()[slot].clone() else { return };
        self.tally.add(Count::Interleaved);
        self.say(|| format!(" meanwhile {slot}:"));
        self.peer(&seat);
    }

    /// A step of a session's client, or of its devices.
    fn peer(self: &Rc<World>, seat: &Rc<Seat>) {
        if seat.left.get() {
            return;
        }
        if !seat.honest {
            return hostile::step(self, seat);
        }
        let Ok(mut client) = seat.client.try_borrow_mut() else { return };
        match self.rng.below(16) {
            0..=2 => client.devices.step(self, seat),
            _ if client.dead => {}
            3..=9 => client.write(self, seat),
            _ => client.read(self, seat),
        }
    }

    /// A bell was rung and the daemon has to be woken. Answers when it will be, in fair time.
    pub fn wake(&self, seat: &Seat, bell: u32) -> u64 {
        let (now, slot) = (self.now.get(), seat.slot);
        let mut wakes = self.wakes.borrow_mut();
        let under_way = wakes.iter().find(|wake| wake.slot == slot && wake.bell == bell);
        if let Some(wake) = under_way {
            return self.fair() + wake.at.saturating_sub(now);
        }
        if self.daemon.borrow().is_none() && !self.nested.get() {
            return self.fair();
        }
        if seat.waited.get() & (1 << bell) == 0 {
            // Nobody waits: the daemon is awake, or looks before it sleeps.
            return self.fair();
        }
        let settling = self.settling.get();
        if bell > 0 && !settling && self.rng.one_in(10) {
            self.tally.add(Count::LostWakes);
            return u64::MAX;
        }
        let delay = match self.rng.one_in(20) && !settling {
            true => {
                self.tally.add(Count::LateWakes);
                self.rng.up_to(11_000_000)
            }
            false => self.rng.below(20_000),
        };
        wakes.push(Wake { slot, bell, at: now + delay });
        self.fair() + delay
    }

    /// The daemon begins to wait on a bell that has moved.
    pub fn woken_at_once(&self, slot: u16, bell: u32) {
        self.wakes.borrow_mut().push(Wake { slot, bell, at: self.now.get() });
    }

    /// A turn of FILL, if there is a daemon that is not in the middle of one.
    fn turn(self: &Rc<World>) {
        let Some(mut daemon) = self.daemon.borrow_mut().take() else { return };
        self.live(move || {
            daemon.turn(self);
            Some(daemon)
        });
    }

    /// Has the daemon do something, in which it may die.
    pub fn live(self: &Rc<World>, does: impl FnOnce() -> Option<Box<Daemon>>) {
        match catch_unwind(AssertUnwindSafe(does)) {
            Ok(daemon) => *self.daemon.borrow_mut() = daemon,
            Err(payload) if payload.is::<Killed>() => self.killed(),
            Err(payload) => resume_unwind(payload),
        }
    }

    fn killed(self: &Rc<World>) {
        self.tally.add(Count::Kills);
        self.wakes.borrow_mut().clear();
        self.rates.begin();
        self.linked.set(false);
        let recovering = self.recovering.take();
        self.tally.add_many(Count::KillsInRecovery, u64::from(recovering.is_some()));
        for seat in self.seats.borrow().iter().flatten() {
            if recovering == Some(seat.slot) {
                seat.deaths.update(|deaths| deaths + 1);
            }
            let mut book = seat.book.borrow_mut();
            seat.waited.set(0);
            seat.served.set(false);
            self.tally.add_many(Count::TornEntries, u64::from(seat.half_written.take()));
            seat.left_behind(|table| {
                book.killed(self, table.header);
                if seat.honest {
                    let plans = table.plans.iter().take_while(|plan| plan.bytes != 0).count();
                    book.killed_with(table.lanes, plans);
                }
            });
        }
    }

    /// A daemon is started, and goes on with what there is.
    pub fn start(self: &Rc<World>) {
        self.say(|| "a daemon is started".to_owned());
        if self.rng.one_in(5) && !self.settling.get() {
            self.light();
        }
        self.live(|| {
            let mut daemon = Box::new(Daemon::new(self));
            let seats: Vec<Rc<Seat>> = self.seats.borrow().iter().flatten().cloned().collect();
            seats.iter().for_each(|seat| daemon.recover(self, seat));
            daemon.engine.relink(daemon.now);
            self.linked.set(true);
            self.relate();
            daemon.turn(self);
            Some(daemon)
        });
        self.resumed.set(self.fair());
    }

    /// Lights the fuse.
    fn light(&self) {
        let moment = self.rng.up_to(2000) as u32;
        if !self.to_die.get() {
            self.fuse.set(moment);
        }
    }

    /// A session is gone.
    pub fn remove(&self, slot: u16) {
        self.owed[slot as usize].set(0);
        self.wakes.borrow_mut().retain(|wake| wake.slot != slot);
        let gone = self.seats.borrow_mut()[slot as usize].take();
        let unlinked = gone.filter(|_| !self.linked.get());
        self.given_up.borrow_mut().extend(unlinked.map(|seat| seat.serial));
        self.relate();
    }

    /// A session comes, if there is room and a daemon.
    fn join(self: &Rc<World>) {
        let rng = &self.rng;
        let free = self.seats.borrow().iter().position(Option::is_none);
        let Some(slot) = free else { return };
        let Some(mut daemon) = self.daemon.borrow_mut().take() else { return };
        let serial = self.serials.get() + 1;
        self.serials.set(serial);
        let honest = !rng.one_in(5);
        // What a hostile client hands in is not known, so its rate is its own.
        let uid = if honest { 1000 + rng.below(2) as u32 } else { self.rates.stranger(rng) };
        let params = SessionParams {
            submit_entries: ENTRIES,
            result_entries: ENTRIES,
            lanes: LANES,
            pid: 1000 + serial,
            uid,
            clock_offset_ns: rng.pick(&[0, 77_000_000_000, -900_000_000]),
        };
        let first = rng.pick(&[0, 0, u32::MAX - 40, u32::MAX - 3]);
        let seat = Seat::new(self, slot as u16, serial, params, honest, first);
        seat.client.borrow_mut().devices.begin(self, &seat);
        self.say(|| format!("session {slot} comes, honest: {honest}"));
        self.tally.add_many(Count::Hostile, u64::from(!honest));
        self.live(|| {
            daemon.now = daemon.now.max(parkd::core::time::MonoNs(self.now.get()));
            daemon.attach(self, &seat);
            self.seats.borrow_mut()[slot] = Some(Rc::clone(&seat));
            Some(daemon)
        });
    }

    /// Time passes; if the daemon's turn has come, it is made.
    pub fn pass(self: &Rc<World>) {
        let now = self.now.get();
        let by = self.rng.up_to(3_000_000);
        let wakes_at = self.daemon.borrow().as_ref().map(|daemon| daemon.wakes_at(self));
        let (next, turn) = match wakes_at {
            None => {
                self.excused.update(|excused| excused + by);
                (now + by, false)
            }
            Some(wakes_at) if wakes_at > now + by => (now + by, false),
            Some(wakes_at) => {
                let late = self.rng.up_to(if self.rng.one_in(10) { 100_000 } else { 10_000 });
                (wakes_at.max(now) + late, true)
            }
        };
        self.now.set(next);
        self.each(|world, seat| {
            if let Ok(mut client) = seat.client.try_borrow_mut() {
                client.devices.pass(world, seat);
            }
        });
        if turn {
            self.turn();
        }
    }

    pub fn each(self: &Rc<World>, does: impl Fn(&Rc<World>, &Rc<Seat>)) {
        for slot in 0..SLOTS {
            let seat = self.seats.borrow()[slot].clone();
            if let Some(seat) = seat.filter(|seat| !seat.left.get() && seat.honest) {
                does(self, &seat);
            }
        }
    }

    /// One step.
    fn step(self: &Rc<World>) {
        self.tally.add(Count::Steps);
        self.moments.set(0);
        let rng = &self.rng;
        let any = rng.below(SLOTS as u64) as usize;
        match rng.below(100) {
            0..=39 => self.pass(),
            40..=91 => {
                let seat = self.seats.borrow()[any].clone();
                if let Some(seat) = seat {
                    self.peer(&seat);
                }
            }
            92 => {
                self.tally.add(Count::SpuriousWakes);
                self.turn();
            }
            93 if rng.one_in(4) => {
                let by = rng.up_to(10_000_000_000);
                self.say(|| format!("the clock jumps by {by}"));
                self.now.update(|now| now + by);
                self.excused.update(|excused| excused + by);
                self.tally.add(Count::Jumps);
            }
            94 => self.join(),
            95 if rng.one_in(4) => self.lose(any),
            _ => {}
        }
        if self.daemon.borrow().is_none() {
            if rng.one_in(6) {
                self.start();
            }
        } else if rng.one_in(self.kill_every) {
            self.light();
        }
        self.check();
    }

    /// A client dies: with its socket, or just stops.
    fn lose(&self, slot: usize) {
        let Some(seat) = self.seats.borrow()[slot].clone() else { return };
        if self.rng.one_in(2) {
            self.say(|| format!("client {slot} hangs up"));
            seat.left.set(true);
        } else {
            self.say(|| format!("client {slot} stops"));
            seat.client.borrow_mut().dead = true;
        }
        self.tally.add(Count::Died);
    }

    /// Whatever has to hold between two steps.
    pub fn check(&self) {
        let mut daemon = self.daemon.borrow_mut();
        let Some(daemon) = daemon.as_mut() else { return };
        let mut sum = 0;
        for seat in self.seats.borrow().iter().flatten() {
            let owed = self.owed[seat.slot as usize].get();
            let outstanding = daemon.engine.outstanding_of(seat.slot);
            assert_eq!(outstanding, owed, "tickets outstanding of session {}", seat.slot);
            sum += owed;
            if seat.honest {
                self.check_seat(seat, daemon);
            }
        }
        assert_eq!(daemon.engine.outstanding(), sum, "tickets outstanding in all");
        if self.seats.borrow().iter().all(Option::is_none) {
            assert_eq!(daemon.engine.next_due().0, u64::MAX, "something is due for nobody");
        }
    }

    fn check_seat(&self, seat: &Seat, daemon: &mut Daemon) {
        self.quiet.set(true);
        let free = daemon.engine.free(seat.slot, daemon.now);
        self.quiet.set(false);
        assert_eq!(free, seat.free(self), "credit of session {}", seat.slot);
        let mut book = seat.book.borrow_mut();
        book.check(self, daemon.turned);
        if daemon.asleep.is_none() {
            // What the bells read last have led to is published in the next turn.
            return;
        }
        let word = |at| seat.rings.load32(at);
        assert_eq!(word(rings::RESULT_TAIL), book.tail, "results whose tail is not published");
        assert_eq!(word(rings::SUBMIT_HEAD), book.head, "the submission head is not shown");
        let head = seat.client.borrow().consumer.head();
        let told = seat.asleep.get() == 0 || seat.wake_lost.get() || head == book.tail;
        assert!(told, "the client of session {} sleeps beside its results", seat.slot);
    }

    /// The whole seed.
    pub fn run(self: &Rc<World>) {
        self.start();
        for _ in 0..1 + self.rng.below(SLOTS as u64) {
            self.join();
        }
        for step in 0..500 + self.rng.below(200) {
            if let Some(kill) = self.kill.filter(|kill| kill.step == step) {
                self.fuse.set(kill.moment);
                self.to_die.set(true);
            }
            self.step();
        }
        self.settle();
        *self.daemon.borrow_mut() = None;
        self.seats.borrow_mut().clear();
    }
}
