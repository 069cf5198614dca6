//! The desk: the thread that talks to clients, makes and unmakes their sessions, and logs.
//!
//! A *peer* is a connection. It greets with HELLO and then has a *session* (or none, for those who
//! only look), whose tickets FILL serves. Every request is answered under its cookie, here or by
//! FILL. A peer that breaks a rule is told why in an ERROR and *parts*: it is closed when it hangs
//! up, or a moment later.
//!
//! What always holds: only the desk receives, sends and closes foreign file descriptors; a peer's
//! fault ends that peer; the desk sleeps without a time-out while nobody greets or parts.

mod accept;
mod adopt;
mod capabilities;
mod closer;
mod complaints;
mod drain;
mod greet;
mod keep;
mod peer;
mod poller;
mod quota;
mod rate;
mod recover;
mod replies;
mod requests;
mod status;
mod trial;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use self::capabilities::Capabilities;
use self::closer::{Closer, Strangers};
use self::complaints::Complaints;
use self::peer::{Delivery, Peer, Phase};
use self::poller::{Poller, Source};
use self::quota::Quotas;
use self::rate::Rates;
use self::status::Askers;
use self::wire::{Inbox, Received};
use super::allow::Allow;
use super::command::{Command, DeskEnd, Seat};
use super::config::Config;
use super::listen::Listener;
use super::store::{Kept, Store};
use super::trial::{Due, Trial};
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::rate::Rate;
use crate::core::time::{DurNs, MonoNs};
use crate::engine;
use crate::host::clock;
use crate::host::signals::Signals;
use crate::proto::layout::BellKind;
use crate::proto::limits::{SESSION_REQUESTS_MAX, SESSIONS_MAX};
use crate::proto::message;
use crate::shm::area::Area;

/// How long a peer that was told why it is closed has to hang up.
const PARTING: DurNs = DurNs(1_000_000_000);

/// Records taken from one peer before the next has its turn.
const RECORD_BATCH: usize = 16;

/// What the desk was started with.
pub struct Setup {
    /// The configuration.
    pub config: Config,
    /// The engine's settings, for the sessions that are made for it.
    pub engine: engine::Config,
    /// Who may connect.
    pub allow: Allow,
    /// The listening socket.
    pub listener: Listener,
    /// Where sessions are kept over a restart.
    pub store: Store,
    /// Sessions that an earlier life of the daemon left.
    pub kept: Vec<Kept>,
    /// What is to be tried once it is ready.
    pub to_try: Option<Due>,
    /// The queues to FILL.
    pub end: DeskEnd,
    /// The status page.
    pub status: Area,
    /// SIGTERM, SIGINT and SIGHUP.
    pub signals: Signals,
    /// The executor that runs.
    pub executor: String,
    /// How bells are rung.
    pub bell: BellKind,
    /// The CPU that FILL is pinned to, where it is.
    pub cpu: Option<u32>,
    /// Coded warnings of the start.
    pub warnings: Vec<Error>,
    /// Which life of the daemon this is.
    pub generation: u32,
}

/// The desk.
pub struct Desk {
    setup: Setup,
    poller: Poller,
    peers: HashMap<u32, Peer>,
    /// Peers that greet, oldest first, as far as they still do.
    greeting: VecDeque<u32>,
    parting: VecDeque<u32>,
    /// Peers whose session the service manager is given.
    keeping: VecDeque<u32>,
    /// Sessions that are still to be taken over.
    to_recover: VecDeque<Kept>,
    /// Sessions that FILL has not let go yet: uid and lanes.
    leaving: HashMap<Seat, (u32, u32)>,
    slots: Vec<u16>,
    serial: u32,
    quotas: Quotas,
    capabilities: Capabilities,
    connects: Rates,
    inbox: Inbox,
    askers: Askers,
    closer: Closer,
    complaints: Complaints,
    /// Commands that FILL's queue had no room for.
    backlog: VecDeque<Command>,
    /// Kept open to have a fd when there is none.
    spare: Option<OwnedFd>,
    /// When connections are taken again, while there is no fd for any.
    accept_again: Option<MonoNs>,
    started: MonoNs,
    /// DRAIN was asked for.
    draining: bool,
    stopping: bool,
    trial: Option<Trial>,
    ended: Option<Option<Error>>,
}

impl Desk {
    /// A desk without peers.
    ///
    /// # Errors
    /// `SystemFailed` where epoll cannot be had.
    pub fn new(mut setup: Setup) -> Result<Desk> {
        let poller = Poller::new()?;
        let to_recover = VecDeque::from(std::mem::take(&mut setup.kept));
        // Numbers go on from the highest: none is used twice.
        let serial = to_recover.iter().map(|kept| kept.serial).max().unwrap_or(0);
        poller.watch(Source::Fill, &*setup.end.doorbell)?;
        poller.watch(Source::Signals, &setup.signals)?;
        let slots = SESSIONS_MAX.min(setup.config.limits.sessions) as u16;
        let connects = setup.config.limits.connects_per_second;
        Ok(Desk {
            poller,
            peers: HashMap::new(),
            greeting: VecDeque::new(),
            parting: VecDeque::new(),
            keeping: VecDeque::new(),
            to_recover,
            leaving: HashMap::new(),
            slots: (0..slots).rev().collect(),
            serial,
            quotas: Quotas::default(),
            capabilities: Capabilities::new(),
            connects: Rates::new(Rate::new(connects, connects)),
            inbox: Inbox::new(),
            askers: Askers::default(),
            closer: Closer::default(),
            complaints: Complaints::default(),
            backlog: VecDeque::new(),
            spare: accept::spare(),
            accept_again: None,
            started: clock::now(),
            draining: false,
            stopping: false,
            trial: None,
            ended: None,
            setup,
        })
    }

    /// Serves until a signal says stop, or FILL fails.
    ///
    /// # Errors
    /// What ended FILL; `SystemFailed` where epoll fails.
    pub fn run(mut self) -> Result<()> {
        self.recover_next()?;
        loop {
            let sources = self.poller.wait(self.next_deadline())?;
            for (source, flags) in sources {
                match source {
                    Source::Listener => self.accept(),
                    Source::Fill => self.replies(),
                    Source::Signals => self.signal(),
                    Source::Trial => self.tried(),
                    Source::Peer(serial) => self.peer_event(serial, flags),
                    Source::Process(serial) => self.process_ended(serial),
                    Source::Barrier(serial) => self.kept(serial),
                }
            }
            self.send_backlog();
            self.accept_overdue();
            self.end_overdue();
            self.end_overdue_keeping();
            if let Some(error) = self.ended.take() {
                return error.map_or(Ok(()), Err);
            }
        }
    }

    /// Every session that was left is served: new ones are welcome.
    fn ready(&mut self) -> Result<()> {
        self.command(Command::Relink);
        self.poller.watch(Source::Listener, &self.setup.listener)?;
        // Fails where there is no service manager to tell.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let (sessions, generation) = (self.session_count(), self.setup.generation);
        tracing::info!(generation, sessions, "ready");
        if let Some(due) = self.setup.to_try.take() {
            self.try_futexes(due);
        }
        Ok(())
    }

    /// When the oldest greeting or parting is over, or the backlog is worth another try.
    fn next_deadline(&self) -> Option<MonoNs> {
        let of = |serial: &u32| self.peers.get(serial).map(|peer| peer.deadline);
        let greeting = self.greeting.front().and_then(of);
        let parting = self.parting.front().and_then(of);
        let keeping = self.keeping.front().and_then(of);
        let retry = (!self.backlog.is_empty()).then(|| clock::now() + DurNs::from_us(1000));
        [greeting, parting, keeping, retry, self.accept_again].into_iter().flatten().min()
    }

    fn signal(&mut self) {
        while let Some(signal) = self.setup.signals.take() {
            if signal == libc::SIGHUP {
                tracing::info!("SIGHUP: nothing in the configuration can be reloaded yet");
            } else if !std::mem::replace(&mut self.stopping, true) {
                tracing::info!(signal, sessions = self.session_count(), "stopping");
                // With a store this is a pause: the next life goes on with every session.
                let leave = self.setup.store.is_used();
                self.command(if leave { Command::Leave } else { Command::Stop });
            }
        }
    }

    /// Sessions that are served.
    fn session_count(&self) -> usize {
        self.peers.values().filter(|peer| matches!(peer.phase, Phase::Session(_))).count()
    }

    /// Sends FILL a command, now or later, in order.
    fn command(&mut self, command: Command) {
        self.backlog.push_back(command);
        self.send_backlog();
    }

    fn send_backlog(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(command) = self.setup.end.send(command) {
                return self.backlog.push_front(command);
            }
        }
    }

    fn peer_event(&mut self, serial: u32, flags: rustix::event::epoll::EventFlags) {
        use rustix::event::epoll::EventFlags;
        if flags.contains(EventFlags::OUT) {
            self.deliver(serial, Peer::flush);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP) {
            self.receive(serial);
        }
        self.set_interest(serial);
    }

    /// Takes a batch of records from a peer.
    fn receive(&mut self, serial: u32) {
        for _ in 0..RECORD_BATCH {
            let Some(peer) = self.peers.get(&serial) else { return };
            if peer.asked >= SESSION_REQUESTS_MAX || matches!(peer.phase, Phase::Keeping(_)) {
                return;
            }
            use std::os::fd::AsFd;
            match self.inbox.receive(peer.socket.as_fd()) {
                Received::Record { bytes, fds, cut } => {
                    let strangers = Strangers::new(fds, peer.who.uid, self.closer.clone());
                    self.record(serial, bytes, strangers, cut);
                }
                Received::Nothing => return,
                Received::Gone => return self.drop_peer(serial),
            }
        }
    }

    /// The process behind a peer has ended, whoever else still holds the socket.
    fn process_ended(&mut self, serial: u32) {
        if let Some(peer) = self.peers.get(&serial) {
            tracing::debug!(peer = peer.label(), "its process ended");
        }
        self.drop_peer(serial);
    }

    /// Sends a peer a record.
    fn send(&mut self, serial: u32, record: Vec<u8>, fds: Vec<OwnedFd>) {
        self.deliver(serial, |peer| peer.send(record, fds));
        self.set_interest(serial);
    }

    fn deliver(&mut self, serial: u32, work: impl FnOnce(&mut Peer) -> Delivery) {
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        match work(peer) {
            Delivery::Done | Delivery::Waiting => {}
            Delivery::Gone => self.drop_peer(serial),
            Delivery::TooSlow => {
                let text = format!("{} replies unread", crate::proto::limits::SESSION_REPLIES_MAX);
                let error = Error::new(ErrorCode::SlowReader, text);
                self.complaints.about(&peer.label(), &error);
                self.leave_session(serial, &error);
                self.drop_peer(serial);
            }
        }
    }

    /// Watches a peer for what it may do now.
    fn set_interest(&mut self, serial: u32) {
        use rustix::event::epoll::EventFlags;
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        let mut interest = EventFlags::RDHUP;
        let keeping = matches!(peer.phase, Phase::Keeping(_));
        interest.set(EventFlags::IN, peer.asked < SESSION_REQUESTS_MAX && !keeping);
        interest.set(EventFlags::OUT, peer.has_outbox());
        if interest != peer.interest {
            peer.interest = interest;
            self.poller.change(Source::Peer(serial), &peer.socket, interest);
        }
    }

    /// Tells a peer why its connection is closed, and closes it when it hangs up.
    fn part(&mut self, serial: u32, cookie: u64, error: &Error) {
        let Some(peer) = self.peers.get(&serial) else { return };
        if matches!(peer.phase, Phase::Parting) {
            return;
        }
        self.leave_session(serial, error);
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        self.complaints.about(&peer.label(), error);
        peer.phase = Phase::Parting;
        peer.deadline = clock::now() + PARTING;
        self.parting.push_back(serial);
        self.send(serial, message::error(cookie, error, 0, true), Vec::new());
        if let Some(peer) = self.peers.get(&serial) {
            let _ = rustix::net::shutdown(&peer.socket, rustix::net::Shutdown::Write);
        }
    }

    /// Ends a peer's session, if it has one; the connection stays.
    fn leave_session(&mut self, serial: u32, why: &Error) {
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        let uid = peer.who.uid;
        match std::mem::replace(&mut peer.phase, Phase::Parting) {
            Phase::Session(session) => {
                session.control.close(why.code);
                self.setup.store.forget(serial);
                self.capabilities.forget(session.seat);
                self.leaving.insert(session.seat, (uid, session.params.lanes));
                self.quotas.give_back_fds(uid, session.fds);
                self.command(Command::Detach(session.seat));
            }
            Phase::Keeping(keeping) => {
                if let Some(barrier) = &keeping.barrier {
                    self.poller.forget(barrier);
                }
                self.setup.store.forget(serial);
                self.leaving.insert(keeping.session.seat, (uid, keeping.session.params.lanes));
                self.vacate(keeping.session.seat);
            }
            _ => {}
        }
    }

    /// A session's seat is free again.
    fn vacate(&mut self, seat: Seat) {
        if let Some((uid, lanes)) = self.leaving.remove(&seat) {
            self.quotas.close(uid, lanes);
            self.slots.push(seat.slot);
        }
    }

    /// Forgets a peer, and with it its session.
    fn drop_peer(&mut self, serial: u32) {
        let gone = Error::new(ErrorCode::Disconnected, "the client has gone");
        self.leave_session(serial, &gone);
        if let Some(peer) = self.peers.remove(&serial) {
            self.poller.forget(&peer.socket);
            if let Some(pidfd) = &peer.pidfd {
                self.poller.forget(pidfd);
            }
            // What its peer sent and nobody has read is closed with it.
            let _ = rustix::net::shutdown(&peer.socket, rustix::net::Shutdown::Both);
            self.closer.close(peer.who.uid, vec![peer.socket]);
        }
    }

    /// Ends greetings and partings that took too long.
    fn end_overdue(&mut self) {
        while let Some(&serial) = self.parting.front() {
            match self.peers.get(&serial) {
                Some(peer) if peer.deadline > clock::now() => break,
                _ => self.drop_peer(serial),
            }
            self.parting.pop_front();
        }
        while let Some(&serial) = self.greeting.front() {
            match self.peers.get(&serial) {
                Some(peer) if matches!(peer.phase, Phase::Greeting) => {
                    if peer.deadline > clock::now() {
                        break;
                    }
                    self.no_hello(serial);
                }
                _ => {}
            }
            self.greeting.pop_front();
        }
    }
}
