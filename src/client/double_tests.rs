//! A double of the daemon, for the client's tests: one thread that speaks the protocol over a
//! socketpair and serves one session as the daemon does, with the same rings, bells and fences.
//! It has no plans and no estimator; results of one look are published in a shuffled order.

use std::collections::{HashMap, HashSet};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen,
    socket_with, socketpair,
};

use super::connect::SessionBuilder;
use super::session::Session;
use super::wire::Wire;
use crate::core::error::{Error, ErrorCode};
use crate::core::line::Width;
use crate::core::time::DurNs;
use crate::host::clock;
use crate::proto::entry::Status;
use crate::proto::layout::BellKind;
use crate::proto::message::{self, Header, Hello, Opcode, REPLY, Role, Welcome, encode};
use crate::proto::request::{self, Request};

#[path = "double_fill_tests.rs"]
mod fill;

use fill::{Fill, is_on};

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
    /// Go on as this life of the daemon, started anew with an fd store.
    pub(crate) next_life: AtomicU32,
    /// Do not say so, as one that dies before it could.
    pub(crate) silent_life: AtomicBool,
    /// Say so by a second WELCOME, as one that does not know whether the first was sent.
    pub(crate) welcome_again: AtomicBool,
    /// Do this many requests without an answer, as a daemon that dies right after.
    pub(crate) mute: AtomicU32,
    /// Take this many requests without doing them, as a daemon that dies right before.
    pub(crate) swallow: AtomicU32,
    /// As `swallow`, for the request that is the so manieth to be sent again.
    pub(crate) swallow_again: AtomicU64,
    /// Requests that were sent again, and those of them that this life had had.
    pub(crate) agains: AtomicU64,
    pub(crate) doubled: AtomicU64,
    /// Fds of tickets that this life has.
    pub(crate) fds: AtomicU64,
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
            move || Desk::new(ours, levers).run()
        });
        (Double { levers, thread: Some(thread.unwrap()) }, Wire::over(theirs))
    }

    /// A double that listens at `path`, and hangs up on so many HELLOs first.
    pub(crate) fn listen(path: &Path, hangs_up: u32) -> Double {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let listener = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
        listen(&listener, 8).unwrap();
        let levers = Arc::new(Levers::default());
        let thread = std::thread::Builder::new().name("double".into()).spawn({
            let levers = Arc::clone(&levers);
            move || {
                for _ in 0..hangs_up {
                    let client = accept(&listener).unwrap();
                    let got = rustix::net::recv(&client, &mut [0u8; 64], RecvFlags::empty());
                    assert!(got.unwrap().0 > 0);
                }
                Desk::new(accept(&listener).unwrap(), levers).run();
            }
        });
        Double { levers, thread: Some(thread.unwrap()) }
    }

    /// A double with a session connected.
    pub(crate) fn session() -> (Double, Session) {
        Double::session_of(SessionBuilder::default())
    }

    /// A double with a session whose sleeps end by the daemon's wake and by nothing else, so that a
    /// lost one shows.
    pub(crate) fn session_that_is_woken() -> (Double, Session) {
        Double::session_of(SessionBuilder::default().look_at_socket(DurNs::MAX))
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

/// How long anything may take before it counts as never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that another thread brings about.
pub(crate) fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
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
    /// Cookies of what this life has received.
    received: HashSet<u64>,
    last_cookie: u64,
    last_opened: Option<(u64, u32)>,
    /// HELLO's cookie, and its answer.
    welcomed: Option<(u64, Welcome)>,
}

type Reply = (Vec<u8>, Vec<OwnedFd>);

impl Desk {
    fn new(socket: OwnedFd, levers: Arc<Levers>) -> Desk {
        Desk {
            socket,
            levers,
            lanes: HashMap::new(),
            plans: 0,
            received: HashSet::new(),
            last_cookie: 0,
            last_opened: None,
            welcomed: None,
        }
    }

    fn run(mut self) {
        let mut fill: Option<Fill> = None;
        while !self.levers.stop.load(Ordering::SeqCst) && !self.levers.die.load(Ordering::SeqCst) {
            if self.levers.farewell.load(Ordering::SeqCst) {
                let error = Error::new(ErrorCode::SlowReader, "300 replies unread");
                self.send(&message::error(0, &error, 0, true), &[]);
                return;
            }
            let life = self.levers.next_life.swap(0, Ordering::SeqCst);
            if life != 0 {
                self.live_again(life, &mut fill);
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

    fn live_again(&mut self, life: u32, fill: &mut Option<Fill>) {
        self.received.clear();
        if let Some(fill) = fill {
            fill.live_again(life, &self.levers);
        }
        if self.levers.silent_life.load(Ordering::SeqCst) {
            return;
        }
        let said = if self.levers.welcome_again.load(Ordering::SeqCst) {
            let (cookie, welcome) = self.welcomed.unwrap();
            let welcome = Welcome { generation: life, ..welcome };
            message::reply(Opcode::Hello, cookie, &welcome)
        } else {
            message::resumed(life, self.last_cookie)
        };
        self.send(&said, &[]);
    }

    /// Whether the request is to be passed over.
    fn passes_over(&mut self, header: &Header) -> bool {
        let again = header.flags & message::AGAIN != 0;
        let nth = self.levers.agains.fetch_add(u64::from(again), Ordering::SeqCst) + 1;
        if !self.received.insert(header.cookie) {
            assert!(again, "a request came twice");
            self.levers.doubled.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        again && nth == self.levers.swallow_again.load(Ordering::SeqCst)
            || take_one(&self.levers.swallow)
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
        let header = request::header(&record[..bytes]).unwrap();
        let cookie = header.cookie;
        if self.passes_over(&header) {
            return true;
        }
        let answer = request::parse(&record[..bytes])
            .and_then(|(_, request)| self.answer(request, cookie, fds, fill));
        if take_one(&self.levers.mute) {
            return true;
        }
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
    ) -> Result<Reply, Error> {
        let done = |opcode| Ok((message::done(opcode, cookie), Vec::new()));
        let missing = || Error::new(ErrorCode::NotGreeted, "no HELLO yet");
        match request {
            Request::Hello(hello) => {
                let (welcome, fds, new) = greet(&hello, &self.levers);
                *fill = new;
                self.welcomed = Some((cookie, welcome));
                Ok((message::reply(Opcode::Hello, cookie, &welcome), fds))
            }
            Request::OpenLane(_, bits, device) => {
                if device != "default" {
                    let text = format!("device {device} is not configured");
                    return Err(Error::new(ErrorCode::NoSuchDevice, text));
                }
                let fill = fill.as_ref().ok_or_else(missing)?;
                let last = self.last_opened.filter(|(known, _)| *known == cookie);
                let free = match last {
                    Some((_, lane)) => Some(lane),
                    None => (0..fill.lanes.lanes()).find(|lane| !self.lanes.contains_key(lane)),
                };
                let lane = free.ok_or_else(|| Error::new(ErrorCode::NoFreeLane, "all open"))?;
                self.last_opened = Some((cookie, lane));
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
                fill.end_where(&self.levers, Status::Cancelled, 0, |e| is_on(e, lane));
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
                if cookie > self.last_cookie {
                    assert_eq!(cookie, self.last_cookie + 1);
                    self.last_cookie = cookie;
                    let fds = fds.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
                    fill.outstanding.extend(entries.into_iter().zip(fds));
                    self.levers.tickets.fetch_add(u64::from(tickets), Ordering::SeqCst);
                } else {
                    fill.give_fds(&entries, fds);
                }
                self.levers.fds.store(fill.fds(), Ordering::SeqCst);
                let body = message::Submitted { tickets, free: 0 };
                Ok((message::reply(Opcode::Submit, cookie, &body), Vec::new()))
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

/// Whether there is one left; takes it.
fn take_one(count: &AtomicU32) -> bool {
    let less = |count: u32| count.checked_sub(1);
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
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
    let (fill, fds) = Fill::make(&mut welcome, levers);
    (welcome, fds, Some(fill))
}
