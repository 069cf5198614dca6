//! Lives of a daemon: one serves a session, dies, and leaves a table, which the next goes on from,
//! as it is or after something else has written into it.
//!
//! The input is a script of what client, devices, time and death do. As long as nobody has written
//! into the table or lied in the rings, every ticket has exactly one result. Whatever was written,
//! a table is refused or served, nothing panics, and no more is outstanding than the ring holds.

#[path = "script.rs"]
mod script;
#[path = "session.rs"]
mod session;

use std::collections::HashSet;

use parkd::core::bands::Bands;
use parkd::core::error::ErrorCode;
use parkd::core::line::Width;
use parkd::core::time::{DurNs, MonoNs};
use parkd::engine::table::{LaneRecord, PlanRecord, Row, TableHeader, TableLayout};
use parkd::engine::{Config, Effect, Engine, Prepared, SessionParams, recovery};
use parkd::proto::entry::{Op, SubmitEntry, TicketKind};
use parkd::proto::layout;
use parkd::proto::limits::SESSION_PLANS_MAX;
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::result_ring::ResultConsumer;
use parkd::shm::submit_ring::SubmitProducer;
use parkd::shm::words::WriteWords;
use script::Script;
use session::{ENTRIES, LANES, Left, Memory, Shared, Table};
use zerocopy::IntoBytes;

const PLANS: [&str; 4] = [
    "block",
    "poll",
    "flag:park_us=50,backstop_us=1000",
    "flag:park_us=50,backstop_us=1000\
     +predict:margin_us=150,min_sleep_us=20,max_sleep_us=50000,window=8",
];

/// Steps of one input: enough for several lives.
const STEPS_MAX: u32 = 200;

pub fn run(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut world = World::new(&mut script);
    for _ in 0..STEPS_MAX {
        if script.is_over() || world.over {
            break;
        }
        world.step(&mut script);
        assert!(world.engine.outstanding_of(0) <= ENTRIES);
    }
    world.end();
}

struct World {
    engine: Engine<Memory>,
    config: Config,
    shared: Shared,
    left: Left,
    producer: SubmitProducer<Region<ReadWrite>>,
    consumer: ResultConsumer<Region<ReadWrite>>,
    now: MonoNs,
    /// The client's next name for a ticket, and those that have no result.
    name: u64,
    owed: HashSet<u64>,
    /// Fd tickets' polls: row and fd.
    polls: Vec<(u32, u32)>,
    /// Nobody but the daemon wrote into what is the daemon's, and the client kept to the rules.
    sound: bool,
    over: bool,
}

impl World {
    fn new(script: &mut Script<'_>) -> World {
        let plan = Bands::parse(PLANS[usize::from(script.byte()) % PLANS.len()]).expect("a plan");
        let config = Config::with_plan(plan);
        let shared = Shared::new();
        let left = Left::default();
        let layout = TableLayout::new(LANES, ENTRIES);
        let table = Table { words: vec![0; layout.bytes() / 8], left: left.clone() };
        let params = SessionParams {
            submit_entries: ENTRIES,
            result_entries: ENTRIES,
            lanes: LANES,
            pid: 7,
            uid: 1000,
            clock_offset_ns: i64::from(script.byte()) - 128,
        };
        let prepared = Prepared::new(0, &params, shared.daemon(), table, &config);
        let mut engine = Engine::new(config.clone(), 2);
        assert!(engine.attach(prepared.expect("a table that fits")).is_ok());
        World {
            engine,
            config,
            producer: shared.producer(),
            consumer: shared.consumer(),
            shared,
            left,
            now: MonoNs(1_000_000_000),
            name: 0,
            owed: HashSet::new(),
            polls: Vec::new(),
            sound: true,
            over: false,
        }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let lane = |script: &mut Script<'_>| u32::from(script.byte()) % (LANES + 1);
        let now = self.now;
        match script.byte() % 16 {
            0 => {
                let width = if script.byte().is_multiple_of(2) { Width::W64 } else { Width::W32 };
                let cookie = script.byte().into();
                let _ = self.engine.open_lane(0, Some(lane(script)), width, 0, cookie, now);
            }
            1 => self.submit(script),
            2 => self.push(script),
            3 => {
                let place = layout::lanes::lane(lane(script) % LANES);
                let number = match script.byte() {
                    255 => script.long(),
                    small => small.into(),
                };
                self.shared.lanes.store64(place, number);
            }
            4 => self.engine.look(0, script.byte().is_multiple_of(2).then_some(0), now),
            5 => self.pass(script),
            6 => self.publish(),
            7 => self.read(),
            8 => match script.byte() {
                255 => drop(self.engine.share(0, lane(script), script.word().into(), now)),
                254 => drop(self.engine.revoke(0, lane(script), now)),
                name => drop(self.engine.cancel(0, name.into(), now)),
            },
            9 => drop(self.engine.fail(0, lane(script), script.word(), now)),
            10 => drop(self.engine.close_lane(0, lane(script), now)),
            11 => {
                let plan = Bands::parse(PLANS[usize::from(script.byte()) % PLANS.len()]);
                let _ = self.engine.add_plan(0, plan.expect("a plan"), now);
            }
            12 => self.fd_event(script),
            13 => self.lie(script),
            14 => {
                let (name, fd) = (script.byte().into(), script.byte().into());
                self.engine.give_fd(0, name, fd, now);
            }
            _ => self.die(script),
        }
    }

    fn ticket(&mut self, script: &mut Script<'_>) -> SubmitEntry {
        self.name += 1;
        let deadline = script.byte();
        SubmitEntry {
            op: Op::Ticket as u8,
            kind: TicketKind::Word as u8,
            source: (script.byte() % 4).into(),
            user_data: self.name,
            target: script.byte().into(),
            point: (deadline % 3).into(),
            deadline_ns: match deadline {
                0..128 => 0,
                _ => self.now.0 + u64::from(deadline) * 1000,
            },
            plan: (script.byte() % 6).into(),
            ..SubmitEntry::default()
        }
    }

    /// Whether the client may hand in `count` tickets.
    fn has_credit(&self, count: usize) -> bool {
        self.owed.len() + count <= ENTRIES as usize
    }

    fn submit(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        let count = usize::from(how % 3) + 1;
        let mut entries: Vec<SubmitEntry> = (0..count).map(|_| self.ticket(script)).collect();
        if how >= 128 {
            (entries[0].kind, entries[0].source) = (TicketKind::Fd as u8, how.into());
        }
        let cookie = self.engine.last_cookie(0, self.now).wrapping_add(1);
        if self.engine.submit(0, cookie, &entries, self.now).is_ok() {
            self.owed.extend(entries.iter().map(|entry| entry.user_data));
        }
    }

    fn push(&mut self, script: &mut Script<'_>) {
        let mut entry = self.ticket(script);
        let how = script.byte();
        if how >= 240 {
            entry.op = Op::Cancel as u8;
            entry = SubmitEntry { op: entry.op, user_data: how.into(), ..SubmitEntry::default() };
        } else if !self.has_credit(1) {
            return;
        }
        if let Ok(Some(_)) = self.producer.push(&entry.to_words())
            && entry.op == Op::Ticket as u8
        {
            self.owed.insert(entry.user_data);
        }
        self.producer.publish();
        if how.is_multiple_of(2) {
            while self.engine.drain(0, self.now) {}
        }
    }

    fn pass(&mut self, script: &mut Script<'_>) {
        let ticks = u64::from(script.byte());
        self.now = self.now + DurNs(ticks * ticks * 1000);
        self.engine.run_due(self.now);
        self.engine.look_hot(self.now);
    }

    fn publish(&mut self) {
        self.engine.publish(self.now);
        let effects: Vec<Effect> = self.engine.effects().collect();
        for effect in effects {
            match effect {
                Effect::PollFd { row, fd, .. } => self.polls.push((row, fd)),
                Effect::ReleaseFd { row, fd, .. } => {
                    self.polls.retain(|poll| *poll != (row, fd));
                }
                Effect::Close { error, .. } => {
                    assert!(!self.sound, "{error}");
                    self.over = true;
                }
                _ => {}
            }
        }
    }

    fn read(&mut self) {
        while let Some(entry) = self.consumer.next() {
            let owed = self.owed.remove(&entry.user_data);
            assert!(owed || !self.sound, "{entry:?}");
            if self.consumer.head().is_multiple_of(ENTRIES) && !self.sound {
                break;
            }
        }
        self.consumer.advance();
    }

    fn fd_event(&mut self, script: &mut Script<'_>) {
        let (row, fd) = match self.polls.pop() {
            Some(poll) => poll,
            None => (script.byte().into(), script.byte().into()),
        };
        self.engine.fd_ready(0, row, fd, (script.byte() % 2).into(), 1, self.now);
    }

    /// The client writes what it likes into the rings.
    fn lie(&mut self, script: &mut Script<'_>) {
        self.sound = false;
        let offset = script.word() as usize % (self.shared.sizes.bytes() / 4) * 4;
        let offset = if script.byte().is_multiple_of(2) { 128 + offset % 16 } else { offset };
        self.shared.rings.store32(offset, script.word());
    }

    /// The daemon dies, things are written into its table, and the next life goes on from it.
    fn die(&mut self, script: &mut Script<'_>) {
        self.engine = Engine::new(self.config.clone(), 2);
        self.polls.clear();
        let mut words = self.left.take();
        for _ in 0..script.byte() % 8 {
            self.sound = false;
            harm(words.as_mut_bytes(), script);
        }
        let mut table = Table { words, left: self.left.clone() };
        let recovered = recovery::begin(table.as_mut())
            .and_then(|_| Prepared::recover(0, self.shared.daemon(), table, &self.config));
        match recovered {
            Ok(prepared) => {
                prepared.devices();
                assert!(self.engine.attach(prepared).is_ok());
                self.engine.resume(0, self.now);
                self.engine.relink(self.now);
                self.publish();
                self.engine.recovered(0, self.now);
            }
            Err(error) => {
                let coded = [ErrorCode::SessionMemory, ErrorCode::Quarantined];
                assert!(!self.sound, "{error}");
                assert!(coded.contains(&error.code) || error.code == ErrorCode::InvalidPlan);
                self.over = true;
            }
        }
    }

    /// The daemon ends in order: what it owes, it pays.
    fn end(mut self) {
        if self.over {
            return;
        }
        while self.engine.drain(0, self.now) {}
        self.engine.shut_down(0, self.now);
        self.publish();
        self.read();
        assert!(self.owed.is_empty() || !self.sound, "{:?} have no result", self.owed);
    }
}

/// Something writes into the table: a field, or anything anywhere.
fn harm(bytes: &mut [u8], script: &mut Script<'_>) {
    const LANE: usize = size_of::<LaneRecord>();
    const PLAN: usize = size_of::<PlanRecord>();
    const ROW: usize = size_of::<Row>();
    let plans = layout::PAGE_BYTES + LANES as usize * LANE;
    let rows = plans + SESSION_PLANS_MAX as usize * PLAN;
    let (part, index) = (script.byte(), usize::from(script.byte()));
    let field = usize::from(script.byte());
    let at = match part % 5 {
        0 => field % size_of::<TableHeader>(),
        1 => layout::PAGE_BYTES + index % LANES as usize * LANE + field % LANE,
        2 => plans + index % 4 * PLAN + field,
        3 => rows + index % ENTRIES as usize * ROW + field % ROW,
        _ => (index << 8 | field) % bytes.len(),
    };
    let value = script.bytes::<4>();
    let long = if part >= 128 { 4 } else { 1 };
    let end = (at + long).min(bytes.len());
    bytes[at..end].copy_from_slice(&value[..end - at]);
}
