//! Thousands of rounds of abuse, and what the daemon keeps of them: nothing.

use std::os::fd::{AsFd, OwnedFd};

use parkd::proto::layout::{armed, rings};
use parkd::proto::message::{self, AGAIN, Opcode, encode, name_field};
use parkd::proto::request::submit_tail;
use parkd::shm::words::WriteWords;
use rustix::event::EventfdFlags;
use rustix::fs::{OFlags, fcntl_setfl};

use super::memory::punch;
use super::support::raw::{Session, Wire, fd, hello, word};
use super::support::{Executor, until};
use super::{Scene, noise};

crate::for_each_executor! {
    thousands_of_rounds_leave_nothing,
}

/// Rounds before the first look, and rounds after it.
const WARM_UP: u64 = 600;
const ROUNDS: u64 = 2400;

/// What the daemon's memory may have grown by meanwhile: some pages of an allocator that finds its
/// places anew, and no page for each round.
const GROWTH_KIB: u64 = 2048;

const CONFIG: &str = "[limits]\nconnects_per_second = 1000000\n";

/// Bytes of the daemon that are in memory and its own, in KiB: what it shares with clients is
/// theirs as long as they live.
fn private_kib(scene: &Scene) -> u64 {
    let status = std::fs::read_to_string(scene.daemon.proc("status")).expect("its state");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// How many threads the daemon has.
fn threads(scene: &Scene) -> usize {
    std::fs::read_dir(scene.daemon.proc("task")).expect("its threads").count()
}

fn thousands_of_rounds_leave_nothing(executor: &Executor) {
    let mut scene = Scene::new(executor, CONFIG);
    let fds = scene.daemon.fds();
    let event: OwnedFd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let play = |scene: &mut Scene, rounds: std::ops::Range<u64>| {
        for round in rounds {
            abuse(scene, round, &event);
            if round.is_multiple_of(100) {
                scene.goes_on();
            }
        }
        until("the rounds leave nothing behind", || {
            let sessions = scene.neighbour.wire.status()["sessions"] == 1;
            (sessions && scene.daemon.fds() <= fds).then_some(())
        });
    };
    play(&mut scene, 0..WARM_UP);
    let (before, workers) = (private_kib(&scene), threads(&scene));
    play(&mut scene, WARM_UP..WARM_UP + ROUNDS);
    let (after, most) = (private_kib(&scene), workers.max(7));
    assert!(after <= before + GROWTH_KIB, "{before} KiB became {after} in {ROUNDS} rounds");
    until("no thread is left over", || (threads(&scene) <= most).then_some(()));
    scene.unharmed();
}

/// One round: a connection, a session in most, tickets, an abuse, and one of the ways to leave.
fn abuse(scene: &Scene, round: u64, event: &OwnedFd) {
    let socket = scene.socket();
    if round.is_multiple_of(12) {
        let wire = Wire::connect(&socket);
        wire.send(&noise(round, 1 + round as usize % 90));
        let _ = wire.parted();
        return;
    }
    let mut session = Session::open(&socket);
    session.lane(64);
    session.plan("flag:park_us=50,backstop_us=1000", false);
    session.submit(&[word(0, 1 << 40, 1), fd(0, 2)], &[event.as_fd()]);
    session.push(&[word(0, 0, 3), word(0, 1 << 41, 4)]);
    session.drained();
    match round % 12 {
        1 => session.rings.store32(rings::SUBMIT_TAIL, 1 << 20),
        2 => session.rings.store32(rings::RESULT_HEAD, 1 << 20),
        3 => {
            punch(&session.rings_fd, 0);
            punch(&session.lanes_fd, 0);
        }
        4 => {
            let strangers = rustix::pipe::pipe().expect("a pipe");
            let tickets = [fd(0, 7), fd(1, 8)];
            let reply = session.try_submit(&tickets, &[strangers.0.as_fd(), strangers.1.as_fd()]);
            assert!(reply.body.is_err());
        }
        5 => {
            fcntl_setfl(&session.eventfd, OFlags::RDWR).expect("its flags");
            rustix::io::write(&session.eventfd, &(u64::MAX - 1).to_ne_bytes()).expect("a write");
            session.arm(armed::BOTH);
            session.push(&[word(0, 0, 5)]);
            session.published(2);
        }
        6 => (0..40).for_each(|_| {
            let body = message::StatusRequest { reserved: 0 };
            session.wire.send(&encode(Opcode::Status as u16, 9, &body, &[]));
        }),
        7 => {
            let full: Vec<_> = (10..74).map(|name| word(0, 1 << 42, name)).collect();
            assert!(session.try_submit(&full, &[]).body.is_err());
        }
        8 => {
            let share = message::Share { lane: 0, reserved: 0, secret: [0; 16] };
            assert!(session.wire.ask(Opcode::Share, 5, &share, &[]).body.is_ok());
        }
        9 => {
            let body = message::Submit { tickets: 1, fds: 1 };
            let mut record = encode(Opcode::Submit as u16, 1, &body, submit_tail(&[fd(0, 2)]));
            record[2..4].copy_from_slice(&AGAIN.to_le_bytes());
            session.wire.try_send(&record, &[event.as_fd()]).expect("send");
        }
        10 => {
            let device = name_field("nothing").expect("a short name");
            let open = message::OpenLane { lane: 9, width: 64, device };
            let many = [event.as_fd(); 100];
            let record = encode(Opcode::OpenLane as u16, 9, &open, &[]);
            session.wire.try_send(&record, &many).expect("send");
        }
        _ => session.wire.send(&encode(Opcode::Hello as u16, 1, &hello(), &[])),
    }
    session.ring(0);
    if round.is_multiple_of(5) {
        session.wire.send(&encode(Opcode::Bye as u16, 1, &(), &[]));
        session.wire.closed();
    }
}
