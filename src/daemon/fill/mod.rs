//! FILL: the one pinned thread that watches, answers, and sleeps.
//!
//! A *turn* takes what came in (events, commands, bells), runs the tasks of the sessions that have
//! submissions, has the engine look at what is due and publish, and does the engine's effects.
//! Between turns FILL is *hot* (it goes on at once) or *parked*: the status page says so, every
//! bell has been read since, and one system call, bounded by the engine's next due time, hands over
//! what is queued and sleeps. A parked FILL that wakes for a look stays parked: whoever rings makes
//! the wake, so only the bells that did are read.
//!
//! What always holds: FILL touches no socket and no vendor driver, receives and closes no fd,
//! neither logs nor allocates on the way from a store to its result, and blocks nowhere but in
//! `FillHost::idle`.

mod awake;
mod bells;
mod doorbell;
mod draining;
mod effects;
mod lead;
mod overshoot;
mod requests;
mod seats;
mod ticket_fds;
mod token;

use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;

pub use self::awake::{Awake, Measured};
use self::bells::Owed;
use self::draining::Draining;
use self::overshoot::Overshoot;
use self::seats::Seats;
use self::token::Named;
use super::command::{FillEnd, Reply, Seat};
use super::memory::Memory;
use crate::core::error::{Error, ErrorCode};
use crate::core::executor::{Executor, yield_now};
use crate::core::line::{CompletionLine, LineValues};
use crate::core::reactor::Reactor;
use crate::core::time::{DurNs, Idle, MonoNs};
use crate::engine::{Config, Effect, Engine};
use crate::host::clock::{self, MonoClock};
use crate::host::fill::{EventBatch, FillHost};
use crate::host::wordpark::WordPark;

use crate::proto::limits::SESSIONS_MAX;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::status::StatusPage;

/// Commands that one turn takes.
const COMMAND_BATCH: usize = 64;

/// What tasks may take of a turn, but for the last batch, before others look at their words.
const TASK_TIME: DurNs = DurNs::from_us(10);

/// Due looks that take no time to speak of.
const FEW_LOOKS: u64 = 8;

/// The thread's state.
pub struct Fill<H: FillHost> {
    host: H,
    engine: Engine<Memory>,
    seats: Seats,
    end: FillEnd,
    status: StatusPage<Region<ReadWrite>>,
    /// What the status page says.
    parked: bool,
    /// Sessions whose tasks are to be started.
    arrived: Vec<u16>,
    /// Sessions of an earlier life that were resumed in this turn.
    recovering: Vec<Seat>,
    more_commands: bool,
    /// Whether the host can watch words, and be relied on.
    words: bool,
    owed: Owed,
    events: EventBatch,
    effects: Vec<Effect>,
    park: DurNs,
    overshoot: Overshoot,
    awake: Awake,
    draining: Draining,
    /// Between two hot turns.
    word_park: WordPark,

    turns: u64,
    now: MonoNs,
}

impl<H: FillHost> Fill<H> {
    /// A FILL without sessions. Called on its own thread: the host belongs to it. `words` says
    /// whether it can watch words.
    ///
    /// # Errors
    /// `SystemFailed` when the desk's doorbell cannot be watched.
    pub fn new(
        host: H,
        words: bool,
        config: Config,
        awake: Awake,
        end: FillEnd,
        status: StatusPage<Region<ReadWrite>>,
    ) -> Result<Fill<H>, Error> {
        let mut fill = Fill {
            host,
            park: config.park,
            overshoot: Overshoot::default(),
            awake,
            draining: Draining::default(),
            word_park: WordPark::detect(),
            engine: Engine::new(config, SESSIONS_MAX as u16),
            seats: Seats::new(),
            end,
            status,
            parked: false,
            arrived: Vec::new(),
            recovering: Vec::new(),
            more_commands: false,
            words,
            owed: Owed::default(),
            events: EventBatch::new(),
            effects: Vec::with_capacity(256),

            turns: 0,
            now: clock::now(),
        };
        fill.watch_desk().map_err(failed)?;
        Ok(fill)
    }

    fn watch_desk(&mut self) -> io::Result<()> {
        self.host.watch_eventfd(Named::Desk.token(), self.end.doorbell.as_raw_fd())
    }

    /// Turns until the desk says stop, or the host fails; then says so.
    pub fn run(self) {
        let fill = RefCell::new(self);
        let error = Fill::turns(&fill).and_then(|()| fill.borrow_mut().last_turn()).err();
        let mut fill = fill.into_inner();
        fill.end.reply(Reply::Stopped(error.map(failed)));
        while fill.end.flush() {
            std::thread::yield_now();
        }
    }

    /// The turns: what came in, the sessions' tasks, what is due.
    fn turns(fill: &RefCell<Fill<H>>) -> io::Result<()> {
        let reactor = Reactor::new(MonoClock, InHost, DurNs::ZERO);
        let mut tasks = Executor::new();
        loop {
            if !fill.borrow_mut().begin_turn()? {
                return Ok(());
            }
            let arrived = std::mem::take(&mut fill.borrow_mut().arrived);
            for slot in arrived {
                tasks.spawn(serve(fill, slot));
            }
            let end = fill.borrow().now + TASK_TIME;
            let mut busy = false;
            // One batch each, in turn, as long as there is time.
            while tasks.run_ready(&reactor, 1) > 0 {
                busy = true;
                if clock::now() >= end {
                    break;
                }
            }
            fill.borrow_mut().end_turn(busy, tasks.any_ready())?;
        }
    }

    /// Does what is due. Who rang while much was done for others is heard before the turn ends, and
    /// need not wait for as much again; `true` when any did, for whom tasks may be ready now.
    fn run_due(&mut self, busy: bool) -> bool {
        let looks = self.engine.stats().due_looks;
        self.engine.run_due(self.now);
        if !busy && self.engine.stats().due_looks - looks <= FEW_LOOKS {
            return false;
        }
        self.now = clock::now();
        self.read_bells()
    }

    /// Takes what came in; `false` when the desk said stop.
    fn begin_turn(&mut self) -> io::Result<bool> {
        self.turns += 1;
        self.reap()?;
        if !self.take_commands()? {
            return Ok(false);
        }
        if self.parked {
            self.read_muted();
        } else {
            self.read_bells();
        }
        Ok(true)
    }

    /// Takes a batch of a session's submissions; `true` when there are more.
    fn drain(&mut self, slot: u16) -> bool {
        self.engine.drain(slot, self.now)
    }

    /// Does what is due, publishes, and sleeps where nothing is left to do.
    fn end_turn(&mut self, busy: bool, more_tasks: bool) -> io::Result<()> {
        let mut rung = self.run_due(busy);
        self.engine.look_hot(self.now);
        let drained = self.end_drain();
        self.engine.publish(self.now);
        self.effects()?;
        drained.into_iter().for_each(|reply| self.end.reply(reply));
        self.keep_awake()?;
        self.recovered();
        rung |= self.read_published();
        if more_tasks || rung || self.more_commands || self.engine.is_hot() {
            self.stay_awake(more_tasks || rung)
        } else {
            self.sleep()
        }
    }

    /// Keeps CPUs awake while a completion is imminent, and until its wakes have left.
    fn keep_awake(&mut self) -> io::Result<()> {
        let imminent = self.engine.is_imminent();
        if self.awake.holds() && !imminent {
            self.host.flush()?;
        }
        self.awake.hold(imminent, self.now);
        self.engine.set_ahead(self.awake.ahead());
        Ok(())
    }

    /// Looks at the bells of sessions that were just given results; `true` when one moved. A
    /// client makes no wake for tickets that wait behind others of their lane: what it
    /// has sent by the time when one of those ends is seen here, and what comes later knows that
    /// it has ended, since a full fence lies between the two on both sides.
    fn read_published(&mut self) -> bool {
        let mut rung = false;
        for at in 0..self.engine.published().len() {
            rung |= self.read_bells_of(self.engine.published()[at]);
        }
        rung
    }

    /// Every ticket has been ended: their clients are told.
    fn last_turn(&mut self) -> io::Result<()> {
        self.engine.publish(self.now);
        self.effects()?;
        self.host.flush()
    }

    fn reap(&mut self) -> io::Result<()> {
        self.host.reap(&mut self.events)?;
        // After the sleep, and before what the events lead to bears it as its time.
        self.now = clock::now();
        for at in 0..self.events.len() {
            let event = self.events.as_slice()[at];
            self.event(event)?;
        }
        Ok(())
    }

    /// Takes a batch of commands; `false` when one was to stop.
    fn take_commands(&mut self) -> io::Result<bool> {
        for _ in 0..COMMAND_BATCH {
            match self.end.take() {
                Some(command) => {
                    if !self.command(command)? {
                        return Ok(false);
                    }
                }
                None => {
                    self.more_commands = false;
                    return Ok(true);
                }
            }
        }
        self.more_commands = true;
        Ok(true)
    }

    /// Goes on without sleeping; whoever rings need not make a wake.
    fn stay_awake(&mut self, busy: bool) -> io::Result<()> {
        if std::mem::replace(&mut self.parked, false) {
            self.status.unpark();
        }
        self.end.flush();
        self.host.flush()?;
        if !busy {
            self.word_park.pause();
        }
        Ok(())
    }

    /// Sleeps, unless something came in on the way.
    fn sleep(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.parked, true) {
            self.status.park();
            // Who rang, or sent a command, before it could see `parked` has made no wake: the
            // bell's count, or the command, is there to be seen now.
            let rung = self.read_bells();
            if rung || self.end.has_next() {
                return Ok(());
            }
        }
        let replies_left = self.end.flush();
        self.watch_bells()?;
        let mut until = self.engine.next_due().min(self.draining.until());
        if self.owed.any_muted() || replies_left {
            until = until.min(self.now + self.park);
        }
        self.status.beat(self.turns);
        self.host.idle((until != MonoNs::MAX).then_some(until))?;
        self.engine.set_lead(self.overshoot.woke(until, clock::now()));
        Ok(())
    }
}

/// The tasks' reactor never idles: FILL does, in its host, which knows what tasks do not.
struct InHost;

impl Idle for InHost {
    fn sleep_until(&self, _at: MonoNs) {}
    fn park_line(&self, _line: &CompletionLine, _seen: &LineValues, _until: MonoNs) {}
}

/// A session's task: takes its submissions in batches, each when its turn has come.
async fn serve<H: FillHost>(fill: &RefCell<Fill<H>>, slot: u16) {
    let Some(doorbell) = fill.borrow_mut().seats.at(slot).map(|seated| seated.doorbell.clone())
    else {
        return;
    };
    while doorbell.rung().await {
        while fill.borrow_mut().drain(slot) {
            yield_now().await;
        }
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("FILL: {error}"))
}
