//! HELLO with lanes to adopt: what comes is a stranger's until it is checked, and what is in order
//! is served, whoever made it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parkd::core::error::ErrorCode;
use parkd::proto::entry::Status;
use parkd::proto::layout::{PAGE_BYTES, lanes};
use parkd::proto::message::{self, Hello, Opcode, Role};
use parkd::shm::header;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use zerocopy::IntoBytes;

use super::Scene;
use super::support::raw::{Session, Wire, hello, word};
use super::support::{Executor, until};

crate::for_each_executor! {
    counts_and_roles_are_refused,
    what_are_no_lanes_is_refused,
    what_is_no_eventfd_is_refused,
    lanes_that_a_session_has_are_refused,
    lanes_of_a_clients_own_making_are_served,
    refusals_keep_nothing,
}

/// A HELLO that brings lanes.
fn adopting() -> Hello {
    Hello { adopt: 1, ..hello() }
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd")
}

/// The code with which such a HELLO is refused, and the connection closed.
fn refused(scene: &Scene, hello: &Hello, fds: &[BorrowedFd<'_>]) -> ErrorCode {
    let wire = Wire::connect(&scene.socket());
    let record = message::encode(Opcode::Hello as u16, 1, hello, &[]);
    wire.try_send(&record, fds).expect("send");
    wire.parted()
}

/// The seals of session memory.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A memfd of so many bytes that begins with these, sealed.
fn memfd(bytes: usize, begins: &[u8], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let fd = memfd_create("lanes", flags).expect("a memfd");
    assert_eq!(rustix::io::pwrite(&fd, begins, 0), Ok(begins.len()));
    ftruncate(&fd, bytes as u64).expect("a size");
    fcntl_add_seals(&fd, seals).expect("seals");
    fd
}

/// A lanes area of one's own making, like the daemon's.
fn own_lanes(count: u32, seals: SealFlags) -> OwnedFd {
    memfd(lanes::bytes(count), header::of_lanes(count).as_bytes(), seals)
}

fn counts_and_roles_are_refused(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let (area, event) = (own_lanes(64, FIXED), event());
    let (area, event) = (area.as_fd(), event.as_fd());
    let code = |hello: &Hello, fds: &[BorrowedFd<'_>]| refused(&scene, hello, fds);
    let bad = ErrorCode::BadMessage;
    assert_eq!(code(&adopting(), &[]), bad);
    assert_eq!(code(&adopting(), &[area]), bad);
    assert_eq!(code(&adopting(), &[area, event, event, event]), ErrorCode::TooManyFds);
    assert_eq!(code(&adopting(), &[event; 200]), ErrorCode::TooManyFds);
    assert_eq!(code(&hello(), &[area, event]), ErrorCode::TooManyFds);
    for adopt in [2, u32::MAX] {
        assert_eq!(code(&Hello { adopt, ..hello() }, &[area, event]), bad);
    }
    for role in [Role::Control as u32, 7] {
        assert_eq!(code(&Hello { role, ..adopting() }, &[area, event]), bad);
    }
    let two = Hello { version_min: 2, version_max: 2, ..adopting() };
    assert_eq!(code(&two, &[area, event]), ErrorCode::VersionMismatch);
    scene.unharmed();
}

fn what_are_no_lanes_is_refused(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let event = event();
    let code = |hello: &Hello, fd: &OwnedFd| refused(&scene, hello, &[fd.as_fd(), event.as_fd()]);
    let memory = ErrorCode::SessionMemory;
    // Seals.
    for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        assert_eq!(code(&adopting(), &own_lanes(64, seals)), memory, "{seals:?}");
    }
    // Sizes that disagree: with HELLO, with the header, with both.
    let fixed = own_lanes(128, FIXED);
    for lanes in [0, 64, 256, 4096] {
        assert_eq!(code(&Hello { lanes, ..adopting() }, &fixed), memory, "{lanes}");
    }
    let area = |lanes: u32| header::of_lanes(lanes);
    let bytes = lanes::bytes(64);
    for bytes in [1, 31, 4095, PAGE_BYTES, bytes - 1, bytes + 1, 2 * bytes] {
        assert_eq!(code(&adopting(), &memfd(bytes, area(64).as_bytes(), FIXED)), memory, "{bytes}");
    }
    for lanes in [0, 1, 63, 65, 8192, u32::MAX] {
        let fd = memfd(lanes::bytes(64), area(lanes).as_bytes(), FIXED);
        assert_eq!(code(&Hello { lanes, ..adopting() }, &fd), memory, "{lanes}");
    }
    // Other areas, and headers with a bit too many.
    let sizes = parkd::shm::ring::RingSizes::new(64, 64).expect("small rings");
    for header in [header::of_rings(sizes), header::of_status()] {
        assert_eq!(code(&adopting(), &memfd(bytes, header.as_bytes(), FIXED)), memory);
    }
    assert_eq!(code(&adopting(), &scene.neighbour.rings_fd), memory);
    assert_eq!(code(&adopting(), &scene.neighbour.status_fd), memory);
    let mut reserved = area(64);
    reserved.reserved = 1;
    assert_eq!(code(&adopting(), &memfd(bytes, reserved.as_bytes(), FIXED)), memory);
    let mut newer = area(64);
    newer.version += 1;
    let newer = memfd(bytes, newer.as_bytes(), FIXED);
    assert_eq!(code(&adopting(), &newer), ErrorCode::VersionMismatch);
    // No memfds at all.
    let name = scene.daemon.proc("exe");
    let file: OwnedFd = File::open(name).expect("the daemon's program").into();
    let null: OwnedFd = File::open("/dev/null").expect("/dev/null").into();
    let (pipe, _end) = std::io::pipe().expect("a pipe");
    let path = rustix::fs::open("/", OFlags::PATH, rustix::fs::Mode::empty()).expect("O_PATH");
    for fd in [file, null, pipe.into(), path, self::event()] {
        assert_eq!(code(&adopting(), &fd), memory, "{fd:?}");
    }
    scene.unharmed();
}

fn what_is_no_eventfd_is_refused(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let (area, event) = (own_lanes(64, FIXED), event());
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).expect("a timer");
    let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
    let (socket, _other) = socketpair(kind.0, kind.1, kind.2, None).expect("sockets");
    let (pipe, end) = std::io::pipe().expect("a pipe");
    let null: OwnedFd = File::open("/dev/null").expect("/dev/null").into();
    let others = [timer, socket, pipe.into(), end.into(), null, own_lanes(64, FIXED)];
    for other in &others {
        let (area, event, other) = (area.as_fd(), event.as_fd(), other.as_fd());
        for fds in [&[area, other][..], &[area, other, event], &[area, event, other]] {
            assert_eq!(refused(&scene, &adopting(), fds), ErrorCode::FdKindRefused, "{other:?}");
        }
    }
    scene.unharmed();
}

fn lanes_that_a_session_has_are_refused(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let event = event();
    let theirs = scene.neighbour.lanes_fd.try_clone().expect("a copy");
    let fds = [theirs.as_fd(), event.as_fd()];
    assert_eq!(refused(&scene, &adopting(), &fds), ErrorCode::LimitExceeded);
    // Those of a session that has ended are free again.
    let session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    session.store(lane, 7);
    let (area, notify) = (session.lanes_fd, session.eventfd);
    session.wire.bye();
    let fds = [area.as_fd(), notify.as_fd()];
    let mut session = until("the lanes are free", || {
        let wire = Wire::connect(&scene.socket());
        let record = message::encode(Opcode::Hello as u16, 1, &adopting(), &[]);
        wire.try_send(&record, &fds).expect("send");
        let reply = wire.receive().expect("an answer");
        reply.body.is_ok().then(|| Session::welcomed(wire, reply))
    });
    let opened: message::LaneOpened = session.lane_of("default", lane, 64).parts().0;
    assert_eq!((opened.lane, opened.value), (lane, 7), "it goes on from its number");
    session.submit(&[word(lane, 8, 1)], &[]);
    session.store(lane, 8);
    assert_eq!(session.outcome(), (1, Status::Done));
    scene.unharmed();
}

/// The daemon only reads them, so who made them is no matter, nor what else they can be.
fn lanes_of_a_clients_own_making_are_served(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    for extra in [SealFlags::empty(), SealFlags::SEAL] {
        let (area, event) = (own_lanes(64, FIXED | extra), event());
        let fds = [area.as_fd(), event.as_fd(), event.as_fd()];
        let mut session = Session::open_bringing(&scene.socket(), &adopting(), &fds);
        let lane = session.lane(64).lane;
        for number in 1..20 {
            session.submit(&[word(lane, number, number)], &[]);
            session.store(lane, number);
            assert_eq!(session.outcome(), (number, Status::Done));
            scene.goes_on();
        }
        session.wire.bye();
    }
    scene.unharmed();
}

fn refusals_keep_nothing(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let (area, event) = (own_lanes(64, FIXED), event());
    let bare = own_lanes(64, SealFlags::empty());
    let round = || {
        let fds = [bare.as_fd(), event.as_fd(), event.as_fd()];
        assert_eq!(refused(&scene, &adopting(), &fds), ErrorCode::SessionMemory);
        let fds = [area.as_fd(), area.as_fd()];
        assert_eq!(refused(&scene, &adopting(), &fds), ErrorCode::FdKindRefused);
    };
    let held = || {
        let maps = std::fs::read_to_string(scene.daemon.proc("maps")).expect("maps");
        (scene.daemon.fds(), maps.lines().filter(|line| line.contains("/memfd:lanes")).count())
    };
    let before = held();
    (0..200).for_each(|_| round());
    until("what was refused is closed", || (held() <= before).then_some(()));
    assert_eq!(before.1, 0);
    scene.unharmed();
}
