//! A double of the daemon, for the client's tests: one thread that speaks the protocol over a
//! socketpair and serves one session as the daemon does, with the same rings, bells and fences.
//! It has no plans and no estimator; results of one look are published in a shuffled order.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, socketpair,
};

use crate::core::error::{Error, ErrorCode};
use crate::core::line::Width;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::futex::{self, FutexAddr};
use crate::proto::entry::{Op, ResultEntry, Status, SubmitEntry};
use crate::proto::layout::{BellKind, SessionState, armed};
use crate::proto::message::{self, Hello, Opcode, REPLY, Role, Welcome, encode};
use crate::proto::request::{self, Request};
use crate::shm::area::Area;
use crate::shm::bells::BellsView;
use crate::shm::control::Control;
use crate::shm::lanes::LanesView;
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::result_ring::ResultProducer;
use crate::shm::ring::RingSizes;
use crate::shm::status::StatusPage;
use crate::shm::submit_ring::SubmitConsumer;
use crate::shm::sync::fence;

use super::connect::SessionBuilder;
use super::session::Session;
use super::wire::Wire;

/// What a test tells the double, and what it learns from it.
#[derive(Default)]
pub(crate) struct Levers {
    stop: AtomicBool,
    /// End without a word, as a killed daemon does.
    pub(crate) die: AtomicBool,
    /// Close the session with this code.
    pub(crate) close: AtomicU32,
    /// Publish nothing.
    pub(crate) hold: AtomicBool,
    /// Take nothing from the submission ring.
    pub(crate) deaf: AtomicBool,
    /// Publish every result twice, where there is room.
    pub(crate) twice: AtomicBool,
    /// Say sizes in WELCOME that the areas do not have.
    pub(crate) lie: AtomicBool,
    /// Send an ERROR that closes, then end.
    pub(crate) farewell: AtomicBool,
    /// Send every answer once more under an old cookie, before it.
    pub(crate) echo: AtomicBool,
    /// Ring bells through an eventfd.
    pub(crate) bell_eventfd: AtomicBool,
    /// Tickets taken.
    pub(crate) tickets: AtomicU64,
    /// CANCELs taken.
    pub(crate) cancels: AtomicU64,
    /// Results published.
    pub(crate) results: AtomicU64,
    /// Tickets outstanding now.
    pub(crate) outstanding: AtomicU64,
    /// Lanes open now.
    pub(crate) lanes: AtomicU64,
    /// Most tickets that were ever outstanding or unread.
    pub(crate) most_held: AtomicU64,
    /// System calls made to wake the client.
    pub(crate) wakes: AtomicU64,
    /// BYEs received.
    pub(crate) byes: AtomicU64,
}

/// A running double.
pub(crate) struct Double {
    pub(crate) levers: Arc<Levers>,
    thread: Option<JoinHandle<()>>,
}

impl Double {
    /// A double and the client's end of its socket.
    pub(crate) fn start() -> (Double, Wire) {
        Double::start_with(Levers::default())
    }

    /// A double whose levers stand so from the start.
    pub(crate) fn start_with(levers: Levers) -> (Double, Wire) {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (theirs, ours) = socketpair(kind.0, kind.1, kind.2, None).unwrap();
        let levers = Arc::new(levers);
        let thread = std::thread::Builder::new().name("double".into()).spawn({
            let levers = Arc::clone(&levers);
            move || Desk { socket: ours, levers, lanes: HashMap::new(), plans: 0 }.run()
        });
        (Double { levers, thread: Some(thread.unwrap()) }, Wire::over(theirs))
    }

    /// A double with a session connected.
    pub(crate) fn session() -> (Double, Session) {
        Double::session_of(SessionBuilder::default())
    }

    /// A double with a session of these sizes connected.
    pub(crate) fn session_of(builder: SessionBuilder) -> (Double, Session) {
        let (double, wire) = Double::start();
        let session = builder.greet(wire).unwrap();
        (double, session)
    }

    /// A count that the double keeps.
    pub(crate) fn count(&self, which: impl Fn(&Levers) -> &AtomicU64) -> u64 {
        which(&self.levers).load(Ordering::SeqCst)
    }

    /// Pulls a lever.
    pub(crate) fn set(&self, which: impl Fn(&Levers) -> &AtomicBool, on: bool) {
        which(&self.levers).store(on, Ordering::SeqCst);
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.levers.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the double failed");
    }
}

/// Waits for something that another thread brings about.
pub(crate) fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let patience = clock::now() + DurNs(20_000_000_000);
    while !happened() {
        assert!(clock::now() < patience, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// The socket's side.
struct Desk {
    socket: OwnedFd,
    levers: Arc<Levers>,
    /// Open lanes and their widths.
    lanes: HashMap<u32, Width>,
    plans: u32,
}

/// The session's side.
struct Fill {
    submit: SubmitConsumer<Region<ReadWrite>>,
    submit_head: u32,
    results: ResultProducer<Region<ReadWrite>>,
    result_tail: u32,
    control: Control<Region<ReadWrite>>,
    lanes: LanesView<Region<ReadOnly>>,
    bells: BellsView<Region<ReadOnly>>,
    status: StatusPage<Region<ReadWrite>>,
    events: OwnedFd,
    bell_events: Option<OwnedFd>,
    told: u32,
    outstanding: Vec<(SubmitEntry, Option<OwnedFd>)>,
    random: u64,
}

impl Desk {
    fn run(mut self) {
        let mut fill: Option<Fill> = None;
        while !self.levers.stop.load(Ordering::SeqCst) && !self.levers.die.load(Ordering::SeqCst) {
            if self.levers.farewell.load(Ordering::SeqCst) {
                let error = Error::new(ErrorCode::SlowReader, "300 replies unread");
                self.send(&message::error(0, &error, 0, true), &[]);
                return;
            }
            let patience = if fill.is_some() { 0 } else { 1_000_000 };
            if self.readable(patience) && !self.serve(&mut fill) {
                return;
            }
            if let Some(fill) = &mut fill {
                fill.turn(&self.levers, &self.lanes);
            }
        }
    }

    fn readable(&self, patience_ns: i64) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: patience_ns };
        matches!(poll(&mut fds, Some(&patience)), Ok(1))
    }

    /// One record; false at the socket's end.
    fn serve(&mut self, fill: &mut Option<Fill>) -> bool {
        let mut record = vec![0; 32 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut record)];
        let got =
            rustix::net::recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let Ok(bytes) = got.map(|message| message.bytes) else { return false };
        if bytes == 0 {
            return false;
        }
        let mut fds = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                fds.extend(rights);
            }
        }
        let cookie = request::header(&record[..bytes]).map_or(0, |header| header.cookie);
        let answer = request::parse(&record[..bytes])
            .and_then(|(_, request)| self.answer(request, cookie, fds, fill));
        let (reply, fds) =
            answer.unwrap_or_else(|error| (message::error(cookie, &error, 0, false), Vec::new()));
        if self.levers.echo.load(Ordering::SeqCst) {
            let mut old = reply.clone();
            old[8..16].copy_from_slice(&(cookie - 1).to_le_bytes());
            self.send(&old, &[]);
        }
        self.send(&reply, &fds);
        true
    }

    fn send(&self, record: &[u8], fds: &[OwnedFd]) {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
        }
        let parts = [IoSlice::new(record)];
        // The client may be gone.
        let _ = rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL);
    }

    fn answer(
        &mut self,
        request: Request,
        cookie: u64,
        fds: Vec<OwnedFd>,
        fill: &mut Option<Fill>,
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), Error> {
        let done = |opcode| Ok((message::done(opcode, cookie), Vec::new()));
        let missing = || Error::new(ErrorCode::NotGreeted, "no HELLO yet");
        match request {
            Request::Hello(hello) => {
                let (welcome, fds, new) = greet(&hello, &self.levers);
                *fill = new;
                Ok((message::reply(Opcode::Hello, cookie, &welcome), fds))
            }
            Request::OpenLane(_, bits, device) => {
                if device != "default" {
                    let text = format!("device {device} is not configured");
                    return Err(Error::new(ErrorCode::NoSuchDevice, text));
                }
                let fill = fill.as_ref().ok_or_else(missing)?;
                let free = (0..fill.lanes.lanes()).find(|lane| !self.lanes.contains_key(lane));
                let lane = free.ok_or_else(|| Error::new(ErrorCode::NoFreeLane, "all open"))?;
                self.lanes.insert(lane, Width::from_bits(bits as u8).unwrap());
                self.levers.lanes.store(self.lanes.len() as u64, Ordering::SeqCst);
                let opened = message::LaneOpened { lane, bell: 1, value: fill.lanes.load(lane) };
                Ok((message::reply(Opcode::OpenLane, cookie, &opened), Vec::new()))
            }
            Request::CloseLane(lane) => {
                if self.lanes.remove(&lane).is_none() {
                    let text = format!("lane {lane} is not open");
                    return Err(Error::new(ErrorCode::NoSuchLane, text));
                }
                self.levers.lanes.store(self.lanes.len() as u64, Ordering::SeqCst);
                let fill = fill.as_mut().ok_or_else(missing)?;
                fill.end_where(&self.levers, Status::Cancelled, 0, |e| e.source == lane);
                done(Opcode::CloseLane)
            }
            Request::PlanText(text) if text == "nonsense" => {
                Err(Error::new(ErrorCode::InvalidPlan, "plan: nonsense (column 1)"))
            }
            Request::PlanText(_) | Request::PlanName(_) => {
                self.plans += 1;
                let known = message::PlanKnown { plan: self.plans, reserved: 0 };
                Ok((message::reply(Opcode::Plan, cookie, &known), Vec::new()))
            }
            Request::Submit(entries, _) => {
                let fill = fill.as_mut().ok_or_else(missing)?;
                let tickets = entries.len() as u32;
                let fds = fds.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
                fill.outstanding.extend(entries.into_iter().zip(fds));
                self.levers.tickets.fetch_add(u64::from(tickets), Ordering::SeqCst);
                let body = message::Submitted { tickets, free: 0 };
                Ok((message::reply(Opcode::Submit, cookie, &body), Vec::new()))
            }
            Request::Fail(lane, code) => {
                let fill = fill.as_mut().ok_or_else(missing)?;
                fill.take_submissions(&self.levers);
                fill.end_where(&self.levers, Status::DeviceFailed, code, |e| e.source == lane);
                done(Opcode::Fail)
            }
            Request::Status => {
                let json = br#"{"executor":"double"}"#;
                let head = message::StatusText { bytes: json.len() as u32, reserved: 0 };
                Ok((encode(Opcode::Status as u16 | REPLY, cookie, &head, json), Vec::new()))
            }
            Request::Bye => {
                self.levers.byes.fetch_add(1, Ordering::SeqCst);
                done(Opcode::Bye)
            }
            other => Err(Error::new(ErrorCode::NotSupported, format!("{other:?}"))),
        }
    }
}

fn greet(hello: &Hello, levers: &Levers) -> (Welcome, Vec<OwnedFd>, Option<Fill>) {
    let or = |asked, default| if asked == 0 { default } else { asked };
    let by_eventfd = levers.bell_eventfd.load(Ordering::SeqCst);
    let mut welcome = Welcome {
        version: 1,
        bell_kind: if by_eventfd { BellKind::Eventfd as u8 } else { BellKind::Futex as u8 },
        reserved0: 0,
        session: 7,
        features: 0,
        generation: 3,
        submit_entries: or(hello.submit_entries, 256),
        result_entries: or(hello.result_entries, 256),
        lanes: or(hello.lanes, 64),
        submit_tickets_max: 256,
        submit_fds_max: 64,
        now_ns: clock::now().0,
        clock_offset_ns: 0,
    };
    if hello.role == Role::Control as u32 {
        welcome.bell_kind = 0;
        return (welcome, Vec::new(), None);
    }
    let sizes = RingSizes::new(welcome.submit_entries, welcome.result_entries).unwrap();
    let (rings, lanes) = (Area::rings(sizes).unwrap(), Area::lanes(welcome.lanes).unwrap());
    let (page, count) = (Area::status().unwrap(), welcome.lanes);
    let events = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
    let (events, bell_events) = (events(), by_eventfd.then(events));
    welcome.lanes <<= u32::from(levers.lie.load(Ordering::SeqCst));
    let memory: Region<ReadWrite> = rings.map().unwrap();
    let watched: Region<ReadOnly> = lanes.map().unwrap();
    let fill = Fill {
        submit: SubmitConsumer::new(memory.clone(), sizes).unwrap(),
        submit_head: 0,
        results: ResultProducer::new(memory.clone(), sizes).unwrap(),
        result_tail: 0,
        control: Control::new(memory, sizes).unwrap(),
        lanes: LanesView::new(watched.clone(), count).unwrap(),
        bells: BellsView::new(watched).unwrap(),
        status: StatusPage::new(page.map().unwrap()).unwrap(),
        events: events.try_clone().unwrap(),
        bell_events: bell_events.as_ref().map(|bell| bell.try_clone().unwrap()),
        told: 0,
        outstanding: Vec::new(),
        random: 0x9e37_79b9_7f4a_7c15,
    };
    fill.control.serve(3, SessionState::Live);
    fill.status.begin(3, "double");
    let mut fds = vec![rings.into_fd(), lanes.into_fd(), page.readonly_fd().unwrap(), events];
    fds.extend(bell_events);
    (welcome, fds, Some(fill))
}

impl Fill {
    fn turn(&mut self, levers: &Levers, widths: &HashMap<u32, Width>) {
        self.take_submissions(levers);
        self.look(levers, widths);
        let close = levers.close.swap(0, Ordering::SeqCst);
        if close != 0 {
            self.control.close(ErrorCode::from_number(close as u16).unwrap());
        }
        self.idle();
    }

    fn take_submissions(&mut self, levers: &Levers) {
        if levers.deaf.load(Ordering::SeqCst) {
            return;
        }
        for _ in 0..self.submit.pending(self.submit_head).unwrap() {
            let entry = SubmitEntry::from_words(self.submit.entry(self.submit_head));
            self.submit_head = self.submit_head.wrapping_add(1);
            match entry.check().unwrap().0 {
                Op::Ticket => {
                    levers.tickets.fetch_add(1, Ordering::SeqCst);
                    self.outstanding.push((entry, None));
                }
                Op::Cancel => {
                    levers.cancels.fetch_add(1, Ordering::SeqCst);
                    let named = |e: &SubmitEntry| e.user_data == entry.user_data;
                    self.end_where(levers, Status::Cancelled, 0, named);
                }
                Op::Fail => panic!("the library posts FAIL over the socket"),
            }
        }
        self.submit.set_head(self.submit_head);
        let held = self.outstanding.len() as u64;
        let held = held + u64::from(self.results.unread(self.result_tail).unwrap());
        levers.most_held.fetch_max(held, Ordering::SeqCst);
        levers.outstanding.store(self.outstanding.len() as u64, Ordering::SeqCst);
    }

    fn end_where(
        &mut self,
        levers: &Levers,
        status: Status,
        code: u32,
        which: impl Fn(&SubmitEntry) -> bool,
    ) {
        let (ended, rest) = self.outstanding.drain(..).partition(|(e, _)| which(e));
        self.outstanding = rest;
        let _: &Vec<(SubmitEntry, Option<OwnedFd>)> = &ended;
        for (entry, _) in &ended {
            self.write(levers, entry, status, code, 0);
        }
        self.publish(levers);
    }

    fn look(&mut self, levers: &Levers, widths: &HashMap<u32, Width>) {
        if levers.hold.load(Ordering::SeqCst) {
            return;
        }
        // Shuffled: what is asked for last can be answered first.
        for index in (1..self.outstanding.len()).rev() {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.outstanding.swap(index, (self.random % (index as u64 + 1)) as usize);
        }
        let now = clock::now();
        let mut ended = Vec::new();
        let lanes = &self.lanes;
        self.outstanding.retain(|(entry, fd)| {
            let (reached, seen) = match fd {
                Some(fd) => {
                    let mut fds = [PollFd::new(fd, PollFlags::IN)];
                    (poll(&mut fds, Some(&Timespec::default())) == Ok(1), 1)
                }
                None => {
                    let width = widths.get(&entry.source).copied().unwrap_or(Width::W64);
                    let seen = lanes.load(entry.source);
                    (width.reached(seen, entry.target), seen)
                }
            };
            let expired = entry.deadline_ns != 0 && now.0 >= entry.deadline_ns;
            if reached || expired {
                let status = if reached { Status::Done } else { Status::DeadlineExpired };
                ended.push((*entry, status, seen));
            }
            !(reached || expired)
        });
        for (entry, status, seen) in ended {
            self.write(levers, &entry, status, 0, seen);
        }
        self.publish(levers);
    }

    fn write(
        &mut self,
        levers: &Levers,
        entry: &SubmitEntry,
        status: Status,
        code: u32,
        seen: u64,
    ) {
        let now = clock::now().0;
        let result = ResultEntry {
            user_data: entry.user_data,
            status: status as u8,
            waited: if status == Status::Done { 3 } else { 0 },
            code,
            seen,
            submitted_ns: now,
            detected_ns: now,
            published_ns: now,
            ..ResultEntry::default()
        };
        for _ in 0..if levers.twice.load(Ordering::SeqCst) { 2 } else { 1 } {
            let unread = self.results.unread(self.result_tail).unwrap();
            assert!(unread < self.results.entries(), "the client went beyond its credit");
            self.results.write(self.result_tail, result);
            self.result_tail = self.result_tail.wrapping_add(1);
            levers.results.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn publish(&mut self, levers: &Levers) {
        self.results.publish(self.result_tail);
        levers.outstanding.store(self.outstanding.len() as u64, Ordering::SeqCst);
        self.wake(levers);
    }

    fn wake(&mut self, levers: &Levers) {
        fence(Ordering::SeqCst);
        let now_armed = self.results.armed();
        let how = armed::due(now_armed, self.told, self.result_tail);
        if how == armed::NOT {
            return;
        }
        self.told = now_armed;
        levers.wakes.fetch_add(1, Ordering::SeqCst);
        if how & armed::FUTEX != 0 {
            futex::wake_one(FutexAddr::new(self.results.tail_address())).unwrap();
        }
        if how & armed::EVENTFD != 0 {
            let _ = rustix::io::write(&self.events, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until the doorbell rings, a moment at most: stores ring nothing.
    fn idle(&self) {
        const MOMENT: DurNs = DurNs(100_000);
        self.status.park();
        let seen = self.bells.read(0);
        if self.submit.pending(self.submit_head).unwrap() == 0 {
            match &self.bell_events {
                None => {
                    let until: MonoNs = clock::now() + MOMENT;
                    futex::wait(FutexAddr::new(self.bells.address(0)), seen, Some(until)).unwrap();
                }
                Some(bell) => {
                    let mut fds = [PollFd::new(bell, PollFlags::IN)];
                    let moment = Timespec { tv_sec: 0, tv_nsec: MOMENT.0 as _ };
                    if poll(&mut fds, Some(&moment)) == Ok(1) {
                        let _ = rustix::io::read(bell, &mut [0u8; 8]);
                    }
                }
            }
        }
        self.status.unpark();
    }
}
