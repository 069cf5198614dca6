//! FILL: the one pinned thread that watches, answers, and sleeps.
//!
//! A *turn* takes what came in (events, commands, bells), runs the engine, publishes, and does the
//! engine's effects. Between turns FILL is *hot* (it goes on at once) or *parked*: the status page
//! says so, every bell has been read since, and one system call, bounded by the engine's next due
//! time, hands over what is queued and sleeps. A parked FILL that wakes for a look stays parked:
//! whoever rings makes the wake, so only the bells that did are read.
//!
//! What always holds: FILL touches no socket and no vendor driver, receives and closes no fd,
//! neither logs nor allocates on the way from a store to its result, and blocks nowhere but in
//! `FillHost::idle`.

mod bells;
mod effects;
mod requests;
mod seats;
mod token;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;

use self::bells::Owed;
use self::seats::Seats;
use self::token::Named;
use super::command::{FillEnd, Reply};
use super::memory::Memory;
use crate::core::error::{Error, ErrorCode};
use crate::core::time::{DurNs, MonoNs};
use crate::engine::{Config, Effect, Engine};
use crate::host::clock;
use crate::host::fill::{EventBatch, FillHost};

use crate::proto::limits::SESSIONS_MAX;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::status::StatusPage;

/// Commands that one turn takes.
const COMMAND_BATCH: usize = 64;

/// Sessions of whose submissions one turn takes a batch.
const DRAIN_BATCH: usize = 64;

/// The thread's state.
pub struct Fill<H: FillHost> {
    host: H,
    engine: Engine<Memory>,
    seats: Seats,
    end: FillEnd,
    status: StatusPage<Region<ReadWrite>>,
    /// What the status page says.
    parked: bool,
    /// Sessions whose doorbell moved, each at most once.
    ready: VecDeque<u16>,
    owed: Owed,
    events: EventBatch,
    effects: Vec<Effect>,
    park: DurNs,

    turns: u64,
    now: MonoNs,
}

impl<H: FillHost> Fill<H> {
    /// A FILL without sessions. Called on its own thread: the host belongs to it.
    ///
    /// # Errors
    /// `SystemFailed` when the desk's doorbell cannot be watched.
    pub fn new(
        host: H,
        config: Config,
        end: FillEnd,
        status: StatusPage<Region<ReadWrite>>,
    ) -> Result<Fill<H>, Error> {
        let mut fill = Fill {
            host,
            park: config.park,
            engine: Engine::new(config, SESSIONS_MAX as u16),
            seats: Seats::new(),
            end,
            status,
            parked: false,
            ready: VecDeque::with_capacity(SESSIONS_MAX as usize),
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
    pub fn run(mut self) {
        let error = loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break self.last_turn().err().map(failed),
                Err(error) => break Some(failed(error)),
            }
        };
        self.end.reply(Reply::Stopped(error));
        while self.end.flush() {
            std::thread::yield_now();
        }
    }

    /// One turn; `false` when the desk said stop.
    fn turn(&mut self) -> io::Result<bool> {
        self.turns += 1;
        self.reap()?;
        self.now = clock::now();
        let (more_commands, stop) = self.take_commands()?;
        if stop {
            return Ok(false);
        }
        if self.parked {
            self.read_muted();
        } else {
            self.read_bells();
        }
        self.drain_ready();
        self.engine.run_due(self.now);
        self.engine.look_hot(self.now);
        self.engine.publish(self.now);
        self.effects()?;
        if more_commands || self.engine.is_hot() || !self.ready.is_empty() {
            self.stay_awake()?;
        } else {
            self.sleep()?;
        }
        Ok(true)
    }

    /// Every ticket has been ended: their clients are told.
    fn last_turn(&mut self) -> io::Result<()> {
        self.engine.publish(self.now);
        self.effects()?;
        self.host.flush()
    }

    fn reap(&mut self) -> io::Result<()> {
        self.host.reap(&mut self.events)?;
        for at in 0..self.events.len() {
            let event = self.events.as_slice()[at];
            self.event(event)?;
        }
        Ok(())
    }

    /// Takes a batch of commands; answers whether there may be more, and whether to stop.
    fn take_commands(&mut self) -> io::Result<(bool, bool)> {
        for _ in 0..COMMAND_BATCH {
            match self.end.take() {
                Some(command) => {
                    if !self.command(command)? {
                        return Ok((false, true));
                    }
                }
                None => return Ok((false, false)),
            }
        }
        Ok((true, false))
    }

    /// Takes a batch of submissions from each session whose doorbell moved.
    fn drain_ready(&mut self) {
        for _ in 0..self.ready.len().min(DRAIN_BATCH) {
            let Some(slot) = self.ready.pop_front() else { return };
            if let Some(seated) = self.seats.at(slot) {
                seated.ready = false;
            }
            if self.engine.drain(slot, self.now) {
                self.make_ready(slot);
            }
        }
    }

    /// Goes on without sleeping; whoever rings need not make a wake.
    fn stay_awake(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.parked, false) {
            self.status.unpark();
        }
        self.end.flush();
        self.host.flush()?;
        if self.ready.is_empty() {
            std::hint::spin_loop();
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
        let mut until = self.engine.next_due();
        if self.owed.any_muted() || replies_left {
            until = until.min(self.now + self.park);
        }
        self.status.beat(self.turns);
        self.host.idle((until != MonoNs::MAX).then_some(until))
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("FILL: {error}"))
}
