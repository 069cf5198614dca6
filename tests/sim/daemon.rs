//! The daemon: its engine and the turns of FILL around it, as `src/daemon/fill` makes them.

use std::rc::Rc;

use parkd::core::time::MonoNs;
use parkd::engine::{Effect, Engine, Prepared};
use parkd::proto::layout::armed;
use parkd::shm::status::StatusPage;

use super::seat::{DEVICES, Seat, View};
use super::tally::Count;
use super::words::{Side, Words};
use super::world::{SLOTS, Wake, World};

const BELLS: usize = DEVICES as usize + 1;

/// An fd of a ticket, in the daemon's hands.
#[derive(Clone, Copy, Debug)]
pub struct TicketFd {
    pub handle: u32,
    /// The ticket's number.
    pub ticket: usize,
    /// Its row, once the daemon polls it.
    pub row: Option<u32>,
    pub fired: bool,
}

/// A session that the daemon serves.
pub struct Seated {
    pub seat: Rc<Seat>,
    /// The bells' counts as last read; none for a bell that is not read.
    pub seen: [Option<u32>; BELLS],
    rung: bool,
    pub fds: Vec<TicketFd>,
    /// Polls whose answer comes when nobody waits for it any more.
    stale: Vec<(u32, u32)>,
}

pub struct Daemon {
    pub engine: Engine<View>,
    pub seated: Vec<Option<Seated>>,
    status: StatusPage<Words>,
    parked: bool,
    /// Until when it sleeps; none while it is awake.
    pub asleep: Option<u64>,
    pub now: MonoNs,
    /// When it has begun its last whole turn.
    pub turned: u64,
    handles: u32,
}

impl Daemon {
    /// A daemon without sessions.
    pub fn new(world: &Rc<World>) -> Daemon {
        let generation = world.generation.get() + 1;
        world.generation.set(generation);
        let status = Words::new(&world.status, Side::Daemon(SLOTS as u16), world);
        let status = StatusPage::new(status).unwrap();
        status.begin(generation, "sim");
        Daemon {
            engine: Engine::new(world.config.clone(), SLOTS as u16),
            seated: (0..SLOTS).map(|_| None).collect(),
            status,
            parked: false,
            asleep: None,
            now: MonoNs(world.now.get()),
            turned: 0,
            handles: 0,
        }
    }

    /// A new session.
    pub fn attach(&mut self, world: &Rc<World>, seat: &Rc<Seat>) {
        let view = View::new(seat, world);
        let table = seat.table(world);
        let prepared = Prepared::new(seat.slot, &seat.params, view, table, &world.config);
        seat.serve(world);
        self.seat(world, seat, prepared.expect("the table fits").numbered(seat.serial));
    }

    /// Gives a session its place.
    pub fn seat(&mut self, world: &Rc<World>, seat: &Rc<Seat>, prepared: Prepared<View>) {
        assert!(self.engine.attach(prepared).is_ok(), "the slot is free");
        let mut seen = [None; BELLS];
        seen[0] = Some(0);
        self.seated[seat.slot as usize] =
            Some(Seated { seat: Rc::clone(seat), seen, rung: true, fds: vec![], stale: vec![] });
        seat.waited.set(0);
        seat.served.set(true);
        self.asleep = None;
        world.may_die();
    }

    /// A number by which the engine calls an fd.
    pub fn keep_fd(&mut self, slot: u16, ticket: usize) -> u32 {
        self.handles += 1;
        let handle = self.handles;
        let fd = TicketFd { handle, ticket, row: None, fired: false };
        if let Some(seated) = &mut self.seated[slot as usize] {
            seated.fds.push(fd);
        }
        handle
    }

    /// When it does something next.
    pub fn wakes_at(&self, world: &World) -> u64 {
        let now = world.now.get();
        let Some(until) = self.asleep else { return now };
        if self.has_work(world) {
            return now;
        }
        let wakes = world.wakes.borrow();
        wakes.iter().map(|wake| wake.at).min().unwrap_or(u64::MAX).min(until)
    }

    fn has_work(&self, world: &World) -> bool {
        self.seated.iter().flatten().any(|seated| {
            let client = seated.seat.client.try_borrow();
            let asks = client.is_ok_and(|client| !client.requests.is_empty());
            asks || seated.seat.left.get() || !seated.stale.is_empty() || self.fd_ready(seated)
        }) || world.settling.get()
    }

    fn fd_ready(&self, seated: &Seated) -> bool {
        let Ok(book) = seated.seat.book.try_borrow() else { return false };
        let ready = |fd: &TicketFd| {
            fd.row.is_some() && !fd.fired && book.tickets[fd.ticket].reached.is_some()
        };
        seated.fds.iter().any(ready)
    }

    fn seats(&self) -> Vec<Rc<Seat>> {
        self.seated.iter().flatten().map(|seated| Rc::clone(&seated.seat)).collect()
    }

    /// One turn.
    pub fn turn(&mut self, world: &Rc<World>) {
        world.tally.add(Count::Turns);
        self.now = MonoNs(world.now.get());
        self.asleep = None;
        world.touched(Side::Daemon(SLOTS as u16));
        self.take_wakes(world);
        self.take_fds(world);
        self.take_requests(world);
        self.take_out(world);
        if !self.parked {
            self.read_bells(None);
        }
        self.drain(world);
        self.engine.run_due(self.now);
        world.touched(Side::Daemon(SLOTS as u16));
        world.tally.add_many(Count::HotTurns, u64::from(self.engine.is_hot()));
        self.engine.look_hot(self.now);
        world.touched(Side::Daemon(SLOTS as u16));
        self.publish(world);
        let published: Vec<u16> = self.engine.published().to_vec();
        let rung = published.iter().any(|&slot| self.read_bells(Some(slot)));
        self.sync(world);
        world.relate();
        self.end(world, rung);
        self.turned = self.now.0;
    }

    /// Publishes, and does what the engine wants done.
    pub fn publish(&mut self, world: &Rc<World>) {
        self.engine.publish(self.now);
        world.touched(Side::Daemon(SLOTS as u16));
        self.effects(world);
    }

    fn end(&mut self, world: &World, rung: bool) {
        let more = self.seated.iter().flatten().any(|seated| seated.rung);
        if rung || more || self.engine.is_hot() {
            if std::mem::replace(&mut self.parked, false) {
                self.status.unpark();
            }
            return;
        }
        if !std::mem::replace(&mut self.parked, true) {
            self.status.park();
            if self.read_bells(None) || self.has_work(world) {
                return;
            }
        }
        for seated in self.seated.iter().flatten() {
            let Some(view) = self.engine.ports(seated.seat.slot) else { continue };
            for (bell, seen) in seated.seen.iter().enumerate() {
                let waits = seated.seat.waited.get() & (1 << bell) != 0;
                let Some(seen) = seen.filter(|_| !waits) else { continue };
                // The kernel compares before it waits, and not again while it does.
                if view.bells.moved(bell as u32, seen).is_some() {
                    world.woken_at_once(seated.seat.slot, bell as u32);
                }
                seated.seat.waited.update(|waited| waited | 1 << bell);
            }
        }
        self.asleep = Some(self.engine.next_due().0);
        world.say(|| format!("  sleeps until {:?}", self.asleep));
    }

    fn take_wakes(&mut self, world: &World) {
        let now = world.now.get();
        let due: Vec<Wake> =
            world.wakes.borrow_mut().extract_if(.., |wake| wake.at <= now).collect();
        for wake in due {
            let Some(seated) = &self.seated[wake.slot as usize] else { continue };
            seated.seat.waited.update(|waited| waited & !(1 << wake.bell));
            if !self.read_bells(Some(wake.slot)) {
                // What it was about has been seen already.
                world.tally.add(Count::StaleWakes);
            }
        }
    }

    /// Reads bells, of one session or of all; `true` when any moved.
    fn read_bells(&mut self, slot: Option<u16>) -> bool {
        let mut any = false;
        let mut devices = Vec::new();
        for seated in self.seated.iter_mut().flatten() {
            let own = seated.seat.slot;
            let Some(view) = self.engine.ports(own).filter(|_| slot.is_none_or(|s| s == own))
            else {
                continue;
            };
            for (bell, seen) in seated.seen.iter_mut().enumerate() {
                let Some(count) = seen.and_then(|seen| view.bells.moved(bell as u32, seen)) else {
                    continue;
                };
                *seen = Some(count);
                any = true;
                match bell {
                    0 => seated.rung = true,
                    bell => devices.push((own, bell as u32 - 1)),
                }
            }
        }
        for (slot, device) in devices {
            self.engine.look(slot, Some(device), self.now);
        }
        any
    }

    fn take_fds(&mut self, world: &Rc<World>) {
        for slot in 0..SLOTS {
            let Some(seated) = &mut self.seated[slot] else { continue };
            let mut events = Vec::new();
            if world.rng.one_in(2) {
                events.extend(seated.stale.drain(..).map(|(row, fd)| (row, fd, 0)));
            }
            let book = seated.seat.book.borrow();
            for fd in seated.fds.iter_mut().filter(|fd| !fd.fired) {
                let ticket = &book.tickets[fd.ticket];
                if let Some(row) = fd.row.filter(|_| ticket.reached.is_some()) {
                    fd.fired = true;
                    events.push((row, fd.handle, ticket.fd_code));
                }
            }
            drop(book);
            for (row, fd, code) in events {
                self.engine.fd_ready(slot as u16, row, fd, code, 1, self.now);
                world.touched(Side::Daemon(slot as u16));
            }
        }
    }

    fn take_requests(&mut self, world: &Rc<World>) {
        for seat in self.seats() {
            let most = if world.settling.get() { 80 } else { world.rng.below(4) };
            for _ in 0..most {
                if !self.request(world, &seat) {
                    break;
                }
                self.sync(world);
            }
        }
    }

    fn drain(&mut self, world: &Rc<World>) {
        for seat in self.seats() {
            let slot = seat.slot;
            let rung = |daemon: &mut Daemon| match &mut daemon.seated[slot as usize] {
                Some(seated) => std::mem::take(&mut seated.rung),
                None => false,
            };
            if rung(self) && self.engine.drain(slot, self.now) {
                self.seated[slot as usize].iter_mut().for_each(|seated| seated.rung = true);
            }
            self.sync(world);
            world.touched(Side::Daemon(slot));
        }
    }

    /// What a hostile client has outstanding is taken as the engine says.
    pub fn sync(&self, world: &World) {
        for seated in self.seated.iter().flatten().filter(|seated| !seated.seat.honest) {
            let slot = seated.seat.slot;
            let owed = self.engine.outstanding_of(slot);
            assert!(owed <= super::seat::ENTRIES, "more tickets than there is credit for");
            world.owed[slot as usize].set(owed);
        }
    }

    /// Takes out the sessions whose clients have hung up.
    fn take_out(&mut self, world: &Rc<World>) {
        for seat in self.seats().into_iter().filter(|seat| seat.left.get()) {
            let slot = seat.slot;
            let gone = self.engine.detach(slot, self.now);
            assert!(gone.is_some(), "the session was there");
            drop(gone);
            world.may_die();
            self.effects(world);
            if let Some(seated) = self.seated[slot as usize].take() {
                assert!(seated.fds.is_empty(), "fds of the dead are kept: {:?}", seated.fds);
            }
            assert_eq!(self.engine.outstanding_of(slot), 0);
            world.remove(slot);
            world.tally.add(Count::Left);
        }
    }

    fn effects(&mut self, world: &Rc<World>) {
        let effects: Vec<Effect> = self.engine.effects().collect();
        for effect in effects {
            world.touched(Side::Daemon(SLOTS as u16));
            self.effect(world, effect);
        }
    }

    fn effect(&mut self, world: &Rc<World>, effect: Effect) {
        let slot = match effect {
            Effect::WakeTail { slot } | Effect::Notify { slot } => slot,
            Effect::PollFd { slot, .. } | Effect::ReleaseFd { slot, .. } => slot,
            Effect::Close { slot, .. } => slot,
        };
        let Some(seated) = &mut self.seated[slot as usize] else { return };
        let seat = &seated.seat;
        match effect {
            Effect::WakeTail { .. } if seat.asleep.get() & armed::TAIL != 0 => {
                if !world.settling.get() && world.rng.one_in(50) {
                    seat.wake_lost.set(true);
                    world.tally.add(Count::ClientWakesLost);
                } else {
                    seat.asleep.set(0);
                    world.tally.add(Count::ClientWakes);
                }
            }
            Effect::WakeTail { .. } => {}
            Effect::Notify { .. } => {
                seat.eventfd.set(true);
                if seat.asleep.get() & armed::NOTIFY != 0 {
                    seat.asleep.set(0);
                    seat.eventfd.set(false);
                    world.tally.add(Count::ClientWakes);
                }
            }
            Effect::PollFd { row, fd, .. } => {
                let found = seated.fds.iter_mut().find(|it| it.handle == fd);
                let found = found.expect("a poll of an fd that was given");
                assert!(found.row.is_none(), "an fd is polled twice");
                found.row = Some(row);
                let ticket = &mut seat.book.borrow_mut().tickets[found.ticket];
                ticket.polled = true;
                ticket.accepted = world.fair();
            }
            Effect::ReleaseFd { row, fd, polling, .. } => {
                let at = seated.fds.iter().position(|it| it.handle == fd);
                let found = seated.fds.swap_remove(at.expect("an fd is released once"));
                assert_eq!(polling, found.row.is_some() && !found.fired, "{found:?}");
                if polling && world.rng.one_in(2) {
                    seated.stale.push((row, fd));
                }
            }
            Effect::Close { error, .. } => {
                assert!(!seat.honest, "an honest session is closed: {error}");
                seat.left.set(true);
                world.tally.add(Count::Closed);
            }
        }
    }

    /// Gives the fds back of a SUBMIT that was refused.
    pub fn give_back(&mut self, slot: u16, handles: &[u32]) {
        if let Some(seated) = &mut self.seated[slot as usize] {
            seated.fds.retain(|fd| !handles.contains(&fd.handle));
        }
    }

    /// Ends every ticket.
    pub fn shut_down(&mut self, world: &Rc<World>) {
        self.now = MonoNs(world.now.get());
        for seat in self.seats() {
            let mut book = seat.book.borrow_mut();
            (book.shut, book.draining) = (true, true);
            drop(book);
            self.engine.shut_down(seat.slot, self.now);
        }
        self.publish(world);
        self.asleep = None;
    }
}
