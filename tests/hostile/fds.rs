//! File descriptors that no ticket may wait for, that are too many, or that belong to nothing.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::message::{self, Opcode, encode};
use parkd::proto::request::submit_tail;
use rustix::event::EventfdFlags;
use rustix::fs::MemfdFlags;

use super::Scene;
use super::support::raw::{Reply, Session, Wire, fd, hello, word};
use super::support::{Executor, until};

crate::for_each_executor! {
    fds_of_a_wrong_kind_are_refused,
    more_fds_than_a_message_may_carry_are_refused,
    fds_come_as_announced,
    each_fd_is_one_tickets,
    fds_on_other_messages_are_refused,
    fds_have_a_quota,
}

fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd")
}

/// SUBMIT with these words of its own about how many tickets and fds it has.
fn submit(session: &Session, tickets: &[SubmitEntry], said: u32, fds: &[BorrowedFd<'_>]) -> Reply {
    let body = message::Submit { tickets: tickets.len() as u32, fds: said };
    let record = encode(Opcode::Submit as u16, session.cookie, &body, submit_tail(tickets));
    session.wire.try_send(&record, fds).expect("send");
    session.wire.receive().expect("an answer")
}

/// A scene, a session in it, and how many fds the daemon has then.
fn stage(executor: &Executor, config: &str) -> (Scene, Session, usize) {
    let scene = Scene::new(executor, config);
    let session = Session::open(&scene.socket());
    session.lane(64);
    let fds = scene.daemon.fds();
    (scene, session, fds)
}

/// The daemon has closed what it was sent, the session goes on, and nobody noticed.
fn closed(mut scene: Scene, mut session: Session, before: usize) {
    session.still();
    until("the fds are closed", || (scene.daemon.fds() <= before).then_some(()));
    let event = eventfd();
    session.submit(&[fd(0, 7)], &[event.as_fd()]);
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("a write");
    assert_eq!(session.outcome(), (7, Status::Done));
    scene.unharmed();
}

/// One of each kind that is not let in, by its name.
fn strangers() -> Vec<(&'static str, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    let flags = rustix::event::epoll::CreateFlags::CLOEXEC;
    let (one, other) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a TCP socket");
    let open = |path| OwnedFd::from(File::open(path).expect("a file"));
    vec![
        ("file", open("/proc/self/exe")),
        ("folder", open("/")),
        ("device", open("/dev/null")),
        ("proc", open("/proc/self/status")),
        ("pipe", read),
        ("pipe", write),
        ("socket", one.into()),
        ("socket", other.into()),
        ("socket", tcp.into()),
        ("memfd", rustix::fs::memfd_create("[eventfd]", MemfdFlags::CLOEXEC).expect("a memfd")),
        ("epoll", rustix::event::epoll::create(flags).expect("an epoll")),
    ]
}

fn fds_of_a_wrong_kind_are_refused(executor: &Executor) {
    let (scene, session, before) = stage(executor, "");
    let good = eventfd();
    for (kind, stranger) in strangers() {
        let fds = [good.as_fd(), stranger.as_fd()];
        let reply = submit(&session, &[fd(0, 1), fd(1, 2)], 2, &fds);
        assert_eq!(reply.code(), ErrorCode::FdKindRefused, "{kind}");
        let detail = reply.body.expect_err("a refusal").detail;
        assert!(!detail.contains('/'), "{kind}: a path in {detail}");
    }
    // The very connection that it comes over.
    let own = submit(&session, &[fd(0, 1)], 1, &[session.wire.socket.as_fd()]);
    assert_eq!(own.code(), ErrorCode::FdKindRefused);
    closed(scene, session, before);
}

fn more_fds_than_a_message_may_carry_are_refused(executor: &Executor) {
    let (scene, session, before) = stage(executor, "");
    let event = eventfd();
    let fds = vec![event.as_fd(); 253];
    for count in [65, 128, 253] {
        let tickets: Vec<SubmitEntry> = (0..count).map(|at| fd(at, at.into())).collect();
        let reply = submit(&session, &tickets, count, &fds[..count as usize]);
        assert_eq!(reply.code(), ErrorCode::TooManyFds, "{count} fds");
        // And where the message says less.
        let reply = submit(&session, &[fd(0, 1)], 1, &fds[..count as usize]);
        assert_eq!(reply.code(), ErrorCode::BadMessage, "{count} fds");
    }
    closed(scene, session, before);
}

fn fds_come_as_announced(executor: &Executor) {
    let (scene, session, before) = stage(executor, "");
    let event = eventfd();
    let fds = [event.as_fd(); 3];
    for (said, sent) in [(2, 1), (2, 0), (2, 3), (64, 1)] {
        let reply = submit(&session, &[fd(0, 1), fd(1, 2)], said, &fds[..sent]);
        assert_eq!(reply.code(), ErrorCode::BadMessage, "{said} said, {sent} sent");
    }
    closed(scene, session, before);
}

fn each_fd_is_one_tickets(executor: &Executor) {
    let (scene, session, before) = stage(executor, "");
    let event = eventfd();
    let fds = [event.as_fd(); 2];
    for tickets in [
        [fd(0, 1), fd(0, 2)],
        [fd(1, 1), fd(1, 2)],
        [fd(0, 1), word(0, 0, 2)],
        [fd(0, 1), fd(2, 2)],
    ] {
        let reply = submit(&session, &tickets, 2, &fds);
        assert_eq!(reply.code(), ErrorCode::BadMessage, "{tickets:?}");
    }
    closed(scene, session, before);
}

fn fds_on_other_messages_are_refused(executor: &Executor) {
    let (scene, session, before) = stage(executor, "");
    let event = eventfd();
    let fds = vec![event.as_fd(); 253];
    for count in [1, 253] {
        for &opcode in Opcode::ALL {
            let record = match opcode {
                Opcode::Hello | Opcode::Submit => continue,
                Opcode::OpenLane => {
                    let device = message::name_field("default").expect("a short name");
                    let open = message::OpenLane { lane: u32::MAX, width: 64, device };
                    encode(opcode as u16, 9, &open, &[])
                }
                Opcode::CloseLane => {
                    encode(opcode as u16, 9, &message::CloseLane { lane: 0, reserved: 0 }, &[])
                }
                Opcode::Plan => {
                    encode(opcode as u16, 9, &message::Plan { by_name: 0, bytes: 5 }, b"block")
                }
                Opcode::Cancel => encode(opcode as u16, 9, &message::Cancel { user_data: 1 }, &[]),
                Opcode::Fail => encode(opcode as u16, 9, &message::Fail { lane: 0, code: 1 }, &[]),
                Opcode::Status => {
                    encode(opcode as u16, 9, &message::StatusRequest { reserved: 0 }, &[])
                }
                Opcode::Share => encode(
                    opcode as u16,
                    9,
                    &message::Share { lane: 0, reserved: 0, secret: [0; 16] },
                    &[],
                ),
                Opcode::Redeem => {
                    encode(opcode as u16, 9, &message::Redeem { capability: [0; 16] }, &[])
                }
                Opcode::Revoke => {
                    encode(opcode as u16, 9, &message::Revoke { lane: 0, reserved: 0 }, &[])
                }
                Opcode::Drain => {
                    let drain = message::Drain { timeout_ms: 0, reserved: 0 };
                    encode(opcode as u16, 9, &drain, &[])
                }
                _ => encode(opcode as u16, 9, &(), &[]),
            };
            session.wire.try_send(&record, &fds[..count]).expect("send");
            let reply = session.wire.receive().expect("an answer");
            assert_eq!(reply.code(), ErrorCode::TooManyFds, "{opcode:?} with {count}");
            assert!(!reply.closes());
        }
        // A HELLO that adopts nothing takes none.
        let wire = Wire::connect(&scene.socket());
        let record = encode(Opcode::Hello as u16, 1, &hello(), &[]);
        wire.try_send(&record, &fds[..count]).expect("send");
        assert_eq!(wire.parted(), ErrorCode::TooManyFds);
        // Nor does an empty record, or garbage.
        for record in [&b""[..], b"garbage"] {
            session.wire.try_send(record, &fds[..count]).expect("send");
            let reply = session.wire.receive().expect("an answer");
            assert_eq!(reply.code(), ErrorCode::BadMessage);
        }
    }
    closed(scene, session, before);
}

fn fds_have_a_quota(executor: &Executor) {
    let limits = "[limits]\nsession_fds = 8\nfds_per_uid = 12\n";
    let (scene, mut session, before) = stage(executor, limits);
    let mut other = Session::open(&scene.socket());
    let event = eventfd();
    let fds = [event.as_fd(); 9];
    let tickets: Vec<SubmitEntry> = (0..9).map(|at| fd(at, at.into())).collect();
    let refused = |session: &mut Session, count: usize| {
        session.try_submit(&tickets[..count], &fds[..count]).code()
    };
    assert_eq!(refused(&mut session, 9), ErrorCode::LimitExceeded);
    session.submit(&tickets[..8], &fds[..8]);
    assert_eq!(refused(&mut session, 1), ErrorCode::LimitExceeded);
    // The neighbour has one, this session eight: three are left of the user's twelve.
    assert_eq!(refused(&mut other, 4), ErrorCode::QuotaExceeded);
    other.submit(&tickets[..3], &fds[..3]);
    assert_eq!(refused(&mut other, 1), ErrorCode::QuotaExceeded);
    other.wire.bye();
    for user_data in 0..8 {
        let reply = session.wire.ask(Opcode::Cancel, 9, &message::Cancel { user_data }, &[]);
        assert!(reply.body.is_ok());
        assert_eq!(session.outcome(), (user_data, Status::Cancelled));
    }
    closed(scene, session, before);
}
