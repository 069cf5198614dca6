//! A client that shares no code with the library: the protocol by hand.
//!
//! A [`Wire`] is a connection that sends any bytes and fds. A [`Session`] has said HELLO and maps
//! what WELCOME brought; it follows the rules of docs/PROTOCOL.md where it is asked to do
//! something, and its memory is there to be written over by tests that do not.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use parkd::core::error::ErrorCode;
use parkd::core::time::DurNs;
use parkd::host::{clock, futex};
use parkd::proto::entry::{EntryWords, Op, ResultEntry, Status, SubmitEntry, TicketKind, phase_of};
use parkd::proto::layout::{BellKind, SessionState, armed, lanes, rings, status};
use parkd::proto::message::{self, Hello, LaneOpened, Opcode, REPLY, Submitted, Welcome};
use parkd::proto::request::{self, Refusal};
use parkd::shm::area;
use parkd::shm::region::{ReadOnly, ReadWrite, Region};
use parkd::shm::words::{ReadWords, WriteWords};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{PATIENCE, until};

/// A connection to a daemon.
#[derive(Debug)]
pub struct Wire {
    /// Its socket, blocking.
    pub socket: OwnedFd,
}

/// What a daemon answered.
#[derive(Debug)]
pub struct Reply {
    /// The request's opcode with the top bit set, or ERROR.
    pub opcode: u16,
    /// The request's.
    pub cookie: u64,
    /// The body with its tail; for ERROR, what it says.
    pub body: Result<Vec<u8>, Refusal>,
    /// The fds that came along.
    pub fds: Vec<OwnedFd>,
}

impl Reply {
    /// The reply's body of this type, with whatever follows it.
    pub fn parts<B: FromBytes + KnownLayout + Immutable>(&self) -> (B, &[u8]) {
        let body = self.body.as_ref().expect("a reply that is no ERROR");
        B::read_from_prefix(body).expect("a whole body")
    }

    /// The error's code. Panics for any other reply.
    pub fn code(&self) -> ErrorCode {
        let refusal = self.body.as_ref().expect_err("an ERROR");
        refusal.code.unwrap_or_else(|| panic!("code {} is not registered", refusal.number))
    }

    /// Whether the daemon closes the connection.
    pub fn closes(&self) -> bool {
        self.body.as_ref().is_err_and(|refusal| refusal.closes)
    }
}

impl Wire {
    /// Connects, or says why not.
    pub fn try_connect(path: &Path) -> rustix::io::Result<Wire> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Wire { socket })
    }

    /// Connects.
    pub fn connect(path: &Path) -> Wire {
        Wire::try_connect(path).expect("connect")
    }

    /// Sends these bytes as one record with these fds.
    pub fn try_send(&self, record: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(record)], &mut control, flags).map(|_| ())
    }

    /// Sends these bytes as one record.
    pub fn send(&self, record: &[u8]) {
        self.try_send(record, &[]).expect("send");
    }

    /// Waits for a record: none once the daemon has closed the connection.
    pub fn receive(&self) -> Option<Reply> {
        loop {
            assert!(readable(&self.socket), "a reply: not within {PATIENCE:?}");
            match self.take() {
                // What was received before the reset comes after it.
                Err(Errno::CONNRESET) => {}
                other => return other.expect("recvmsg"),
            }
        }
    }

    fn take(&self) -> rustix::io::Result<Option<Reply>> {
        let mut bytes = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Ok(None);
        }
        let (header, body) =
            request::parse_reply(&bytes[..received.bytes]).expect("a whole message");
        let body = body.map(<[u8]>::to_vec);
        let fds = rights(&mut control);
        Ok(Some(Reply { opcode: header.opcode, cookie: header.cookie, body, fds }))
    }

    /// Sends a request and waits for what is answered under its cookie.
    pub fn ask<B: IntoBytes + Immutable>(
        &self,
        opcode: Opcode,
        cookie: u64,
        body: &B,
        tail: &[u8],
    ) -> Reply {
        self.send(&message::encode(opcode as u16, cookie, body, tail));
        let reply = self.receive().expect("an answer");
        assert_eq!(reply.cookie, cookie, "an answer to something else: {reply:?}");
        assert!(reply.body.is_err() || reply.opcode == opcode as u16 | REPLY, "{reply:?}");
        reply
    }

    /// Waits for the ERROR that closes the connection, and for its end.
    pub fn parted(&self) -> ErrorCode {
        let reply = self.receive().expect("an ERROR before the end");
        assert!(reply.closes(), "{reply:?}");
        self.closed();
        reply.code()
    }

    /// Waits until the daemon has closed the connection, whatever it still says.
    pub fn closed(&self) {
        while self.receive().is_some() {}
    }

    /// Leaves in order.
    pub fn bye(self) {
        assert!(self.ask(Opcode::Bye, 1, &(), &[]).body.is_ok());
        self.closed();
    }

    /// The daemon's STATUS.
    pub fn status(&self) -> serde_json::Value {
        let body = message::StatusRequest { reserved: 0 };
        let reply = self.ask(Opcode::Status, 77, &body, &[]);
        let (_, text): (message::StatusText, _) = reply.parts();
        serde_json::from_slice(text).expect("JSON")
    }
}

fn rights(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten().collect()
}

/// The fds that come with a byte on a socket.
pub fn receive_fds(socket: impl AsFd) -> Vec<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let into = &mut [IoSliceMut::new(&mut byte)];
    let got = recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC).expect("recvmsg");
    assert_eq!(got.bytes, 1, "the other side has gone");
    rights(&mut control)
}

/// Waits until there is something to read, or the other side has gone; `false` if there never is.
pub fn readable(fd: impl AsFd) -> bool {
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)) == Ok(1)
}

/// A HELLO for small rings; tests change what they are about.
pub fn hello() -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        role: 0,
        features: 0,
        submit_entries: 64,
        result_entries: 64,
        lanes: 64,
        adopt: 0,
        now_ns: clock::now().0,
    }
}

/// A connection that has said HELLO as one who only looks.
pub fn control(socket: &Path) -> Wire {
    let wire = Wire::connect(socket);
    let hello = Hello { role: message::Role::Control as u32, ..hello() };
    let reply = wire.ask(Opcode::Hello, 1, &hello, &[]);
    assert!(reply.body.is_ok() && reply.fds.is_empty(), "{reply:?}");
    wire
}

/// A ticket for a lane's number.
pub fn word(lane: u32, target: u64, user_data: u64) -> SubmitEntry {
    let (op, kind) = (Op::Ticket as u8, TicketKind::Word as u8);
    SubmitEntry { op, kind, source: lane, target, user_data, ..SubmitEntry::default() }
}

/// A ticket for the fd of this index in its SUBMIT.
pub fn fd(index: u32, user_data: u64) -> SubmitEntry {
    SubmitEntry { kind: TicketKind::Fd as u8, ..word(index, 0, user_data) }
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// The connection.
    pub wire: Wire,
    /// What the daemon said.
    pub welcome: Welcome,
    /// The rings area.
    pub rings: Region<ReadWrite>,
    /// The file behind it.
    pub rings_fd: OwnedFd,
    /// The lanes area.
    pub lanes: Region<ReadWrite>,
    /// The file behind it.
    pub lanes_fd: OwnedFd,
    /// The daemon's status page.
    pub status: Region<ReadOnly>,
    /// The file behind it.
    pub status_fd: OwnedFd,
    /// By which the daemon tells of results.
    pub eventfd: OwnedFd,
    /// By which producers ring, where bells are eventfds.
    pub bell: Option<OwnedFd>,
    /// The cookie of the next SUBMIT.
    pub cookie: u64,
    /// How far the submission ring is filled.
    pub submit_tail: u32,
    /// How far the result ring is read.
    pub result_head: u32,
}

impl Session {
    /// A session with small rings.
    pub fn open(socket: &Path) -> Session {
        Session::open_with(socket, &hello())
    }

    /// A session as this HELLO asks for.
    pub fn open_with(socket: &Path, hello: &Hello) -> Session {
        Session::open_bringing(socket, hello, &[])
    }

    /// A session that brings fds to adopt.
    pub fn open_bringing(socket: &Path, hello: &Hello, fds: &[BorrowedFd<'_>]) -> Session {
        let wire = Wire::connect(socket);
        let record = message::encode(Opcode::Hello as u16, 1, hello, &[]);
        wire.try_send(&record, fds).expect("send");
        let reply = wire.receive().expect("an answer");
        Session::welcomed(wire, reply)
    }

    /// A session of this WELCOME.
    pub fn welcomed(wire: Wire, mut reply: Reply) -> Session {
        assert_eq!((reply.opcode, reply.cookie), (Opcode::Hello as u16 | REPLY, 1), "{reply:?}");
        let (welcome, rest): (Welcome, _) = reply.parts();
        assert_eq!((welcome.version, rest.len()), (1, 0), "{welcome:?}");
        let bell_fd = welcome.bell_kind == BellKind::Eventfd as u8;
        assert_eq!(reply.fds.len(), 4 + usize::from(bell_fd), "{welcome:?}");
        let bell = bell_fd.then(|| reply.fds.pop()).flatten();
        let [rings_fd, lanes_fd, status_fd, eventfd]: [OwnedFd; 4] =
            reply.fds.try_into().expect("four fds");
        let (rings, _) = area::open_rings(&rings_fd).expect("rings");
        let (lanes, _) = area::open_lanes(&lanes_fd).expect("lanes");
        let status = area::open_status(&status_fd).expect("status page");
        Session {
            wire,
            welcome,
            rings,
            rings_fd,
            lanes,
            lanes_fd,
            status,
            status_fd,
            eventfd,
            bell,
            cookie: 1,
            submit_tail: 0,
            result_head: 0,
        }
    }

    /// Opens any lane of the first device, and answers it.
    pub fn lane(&self, width: u32) -> LaneOpened {
        self.lane_of("default", u32::MAX, width).parts().0
    }

    /// Asks for a lane of a device.
    pub fn lane_of(&self, device: &str, lane: u32, width: u32) -> Reply {
        let device = message::name_field(device).expect("a name that fits");
        self.wire.ask(Opcode::OpenLane, 2, &message::OpenLane { lane, width, device }, &[])
    }

    /// Shares a lane, and answers its capability.
    pub fn share(&self, lane: u32) -> [u8; 16] {
        let body = message::Share { lane, reserved: 0, secret: [0; 16] };
        self.wire.ask(Opcode::Share, 6, &body, &[]).parts::<message::Shared>().0.capability
    }

    /// Asks for the lane that a capability shares.
    pub fn try_redeem(&self, capability: [u8; 16]) -> Reply {
        self.wire.ask(Opcode::Redeem, 7, &message::Redeem { capability }, &[])
    }

    /// Redeems a capability, and answers the lane.
    pub fn redeem(&self, capability: [u8; 16]) -> message::Redeemed {
        self.try_redeem(capability).parts().0
    }

    /// Takes a lane's capability back.
    pub fn revoke(&self, lane: u32) -> Reply {
        self.wire.ask(Opcode::Revoke, 8, &message::Revoke { lane, reserved: 0 }, &[])
    }

    /// Registers a plan, by its text or by its name.
    pub fn plan(&self, text: &str, by_name: bool) -> u16 {
        let body = message::Plan { by_name: by_name.into(), bytes: text.len() as u32 };
        let reply = self.wire.ask(Opcode::Plan, 3, &body, text.as_bytes());
        reply.parts::<message::PlanKnown>().0.plan as u16
    }

    /// Submits tickets over the socket, under the cookie whose turn it is.
    pub fn try_submit(&mut self, entries: &[SubmitEntry], fds: &[BorrowedFd<'_>]) -> Reply {
        let body = message::Submit { tickets: entries.len() as u32, fds: fds.len() as u32 };
        let tail = request::submit_tail(entries);
        let record = message::encode(Opcode::Submit as u16, self.cookie, &body, tail);
        self.wire.try_send(&record, fds).expect("send");
        let reply = self.wire.receive().expect("an answer");
        assert_eq!(reply.cookie, self.cookie, "{reply:?}");
        self.cookie += u64::from(reply.body.is_ok());
        reply
    }

    /// Submits tickets over the socket; answers what is free after them.
    pub fn submit(&mut self, entries: &[SubmitEntry], fds: &[BorrowedFd<'_>]) -> u32 {
        let (taken, _): (Submitted, _) = self.try_submit(entries, fds).parts();
        assert_eq!(taken.tickets as usize, entries.len());
        taken.free
    }

    /// Puts entries into the submission ring and rings the doorbell.
    pub fn push(&mut self, entries: &[SubmitEntry]) {
        self.fill(entries);
        self.ring(0);
    }

    /// Puts entries into the submission ring, and tells nobody.
    pub fn fill(&mut self, entries: &[SubmitEntry]) {
        for entry in entries {
            let at = rings::SUBMIT_RING + self.slot(self.submit_tail, self.welcome.submit_entries);
            let words: EntryWords = entry.to_words();
            for (word, &value) in words.iter().enumerate() {
                self.rings.store64(at + word * 8, value);
            }
            self.submit_tail = self.submit_tail.wrapping_add(1);
        }
        fence(Ordering::Release);
        self.rings.store32(rings::SUBMIT_TAIL, self.submit_tail);
    }

    fn slot(&self, position: u32, entries: u32) -> usize {
        (position % entries) as usize * size_of::<EntryWords>()
    }

    /// Waits until the daemon has taken all that was pushed.
    pub fn drained(&self) {
        until("submissions are taken", || {
            (self.rings.load32(rings::SUBMIT_HEAD) == self.submit_tail).then_some(())
        });
    }

    /// Rings a bell as a producer does.
    pub fn ring(&self, bell: u32) {
        ring(&self.lanes, &self.status, self.bell.as_ref(), bell);
    }

    /// Counts a ring, and wakes nobody.
    pub fn count(&self, bell: u32) {
        fence(Ordering::Release);
        self.lanes.fetch_add32(lanes::bell(bell), 1);
    }

    /// Makes a ring's wake, whether or not anything moved.
    pub fn wake(&self, bell: u32) {
        wake(&self.lanes, self.bell.as_ref(), bell);
    }

    /// A producer that was handed the lanes.
    pub fn producer(&self) -> Producer {
        Producer {
            lanes: area::open_lanes(&self.lanes_fd).expect("lanes").0,
            status: self.status.clone(),
            bell: self.bell.as_ref().map(|bell| bell.try_clone().expect("a duplicate")),
        }
    }

    /// Stores a lane's number, silently.
    pub fn store(&self, lane: u32, number: u64) {
        fence(Ordering::Release);
        self.lanes.store64(lanes::lane(lane), number);
    }

    /// Stores the low half of a lane's number, silently.
    pub fn store_low(&self, lane: u32, number: u32) {
        fence(Ordering::Release);
        self.lanes.store32(lanes::lane(lane), number);
    }

    /// Takes the next result, if it is there, and gives its entry back.
    pub fn take(&mut self) -> Option<ResultEntry> {
        let entries = self.welcome.result_entries;
        let ring = rings::result_ring(self.welcome.submit_entries);
        let at = ring + self.slot(self.result_head, entries);
        if self.rings.load64(at + 56) as u32 != phase_of(self.result_head, entries) {
            return None;
        }
        fence(Ordering::Acquire);
        let words = std::array::from_fn(|word| self.rings.load64(at + word * 8));
        self.result_head = self.result_head.wrapping_add(1);
        fence(Ordering::Release);
        self.rings.store32(rings::RESULT_HEAD, self.result_head);
        Some(ResultEntry::from_words(words))
    }

    /// Looks for the next result until it is there.
    pub fn result(&mut self) -> ResultEntry {
        until("a result", || self.take())
    }

    /// The next result, as who it is of and how it ended.
    pub fn outcome(&mut self) -> (u64, Status) {
        let result = self.result();
        (result.user_data, Status::from_number(result.status).expect("a status"))
    }

    /// Checks that no result has come, once the daemon has seen to all that was sent before.
    pub fn still(&mut self) {
        self.wire.status();
        assert_eq!(self.take(), None, "a result that nothing has brought about");
    }

    /// Waits until the daemon has published this many results in all.
    pub fn published(&self, results: u32) {
        until("results are published", || {
            (self.rings.load32(rings::RESULT_TAIL) == results).then_some(())
        });
    }

    /// Asks to be told of the next result by these means; answers the tail to park on.
    pub fn arm(&self, how: u32) -> u32 {
        self.rings.store32(rings::ARMED, armed::word(self.result_head, how));
        fence(Ordering::SeqCst);
        let tail = self.rings.load32(rings::RESULT_TAIL);
        fence(Ordering::Acquire);
        tail
    }

    /// The next result, asleep until told of it by these means.
    pub fn told(&mut self, how: u32) -> ResultEntry {
        loop {
            let tail = self.arm(how);
            if let Some(result) = self.take() {
                return result;
            }
            if how & armed::NOTIFY != 0 {
                assert!(readable(&self.eventfd), "not told within {PATIENCE:?}");
                rustix::io::read(&self.eventfd, &mut [0u8; 8]).expect("a read of the eventfd");
            } else {
                self.park(tail);
            }
        }
    }

    /// Sleeps on the result tail while it is this one.
    pub fn park(&self, tail: u32) {
        let word = futex::FutexAddr::new(self.rings.address(rings::RESULT_TAIL));
        let end = clock::now() + DurNs(PATIENCE.as_nanos() as u64);
        let woken = futex::wait(word, tail, Some(end)).expect("a wait on the tail");
        assert_ne!(woken, futex::WaitOutcome::TimedOut, "not told within {PATIENCE:?}");
    }

    /// How the daemon says the session stands.
    pub fn state(&self) -> Option<SessionState> {
        SessionState::from_number(self.rings.load32(rings::STATE))
    }

    /// Waits until the control line says closed, and answers why.
    pub fn close_code(&self) -> ErrorCode {
        until("the session is closed", || {
            (self.state() == Some(SessionState::Closed)).then_some(())
        });
        fence(Ordering::Acquire);
        let number = self.rings.load32(rings::CLOSE_CODE) as u16;
        ErrorCode::from_number(number).unwrap_or_else(|| panic!("code {number}"))
    }
}

/// Who stores into a session's lanes, through a mapping of its own.
#[derive(Debug)]
pub struct Producer {
    lanes: Region<ReadWrite>,
    status: Region<ReadOnly>,
    bell: Option<OwnedFd>,
}

fn ring(lanes: &Region<ReadWrite>, page: &Region<ReadOnly>, fd: Option<&OwnedFd>, bell: u32) {
    fence(Ordering::Release);
    lanes.fetch_add32(lanes::bell(bell), 1);
    fence(Ordering::SeqCst);
    if page.load32(status::PARKED) != 0 {
        wake(lanes, fd, bell);
    }
}

fn wake(lanes: &Region<ReadWrite>, fd: Option<&OwnedFd>, bell: u32) {
    match fd {
        Some(eventfd) => {
            rustix::io::write(eventfd, &1u64.to_ne_bytes()).expect("a write to the bell");
        }
        None => {
            let word = futex::FutexAddr::new(lanes.address(lanes::bell(bell)));
            futex::wake_one(word).expect("a wake of the bell");
        }
    }
}

impl Producer {
    /// Rings a bell.
    pub fn ring(&self, bell: u32) {
        ring(&self.lanes, &self.status, self.bell.as_ref(), bell);
    }

    /// Stores a lane's number, silently.
    pub fn store(&self, lane: u32, number: u64) {
        fence(Ordering::Release);
        self.lanes.store64(lanes::lane(lane), number);
    }
}
