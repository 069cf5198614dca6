//! Lanes that others wait on: SHARE, REDEEM, REVOKE, and how the owner's end shows.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parkd::core::error::ErrorCode;
use parkd::proto::entry::Status;
use parkd::proto::limits::{GUESSES_MAX, SESSION_SHARES_MAX};
use parkd::proto::message::{self, Hello, Opcode, Redeemed};

use super::support::raw::{Reply, Session, hello, word};
use super::support::{Daemon, Executor, skipped, until, user};
use super::{WAYS, Way};

crate::for_each_executor! {
    a_redeemed_lane_shows_its_owners_numbers,
    its_owners_ring_is_heard,
    a_narrow_lane_stays_narrow,
    what_its_owner_posts_reaches_those_who_wait,
    a_revoked_lane_ends_its_waits_and_its_capability,
    however_an_owner_ends_its_redeemers_are_told_once,
    an_owner_that_is_killed_is_a_producer_that_died,
    another_container_waits_on_a_lane,
    only_its_owner_can_share_fail_or_revoke_a_lane,
    a_secret_gives_the_same_capability_again,
    guessing_is_slow_and_only_for_who_guesses,
    shares_and_redeemed_lanes_are_counted,
    a_capability_is_enough_for_another_user,
}

/// An owner with a lane that it shares, and a waiter that has redeemed it.
struct Pair {
    owner: Session,
    lane: u32,
    waiter: Session,
    redeemed: Redeemed,
}

impl Pair {
    fn new(daemon: &Daemon, width: u32) -> Pair {
        let owner = Session::open(&daemon.socket());
        // Not the same index on both sides.
        owner.lane(64);
        let lane = owner.lane(width).lane;
        let waiter = Session::open(&daemon.socket());
        let redeemed = waiter.redeem(owner.share(lane));
        Pair { owner, lane, waiter, redeemed }
    }

    fn word(&self, target: u64, user_data: u64) -> parkd::proto::entry::SubmitEntry {
        word(self.redeemed.lane, target, user_data)
    }
}

fn a_redeemed_lane_shows_its_owners_numbers(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let owner = Session::open(&daemon.socket());
    let lane = owner.lane(64).lane;
    owner.store(lane, 41);
    let capability = owner.share(lane);
    assert_eq!(owner.share(lane), capability, "a lane has one capability");
    let mut waiter = Session::open(&daemon.socket());
    let own = waiter.lane(64).lane;
    let reply = waiter.try_redeem(capability);
    assert!(reply.fds.is_empty(), "memory has passed");
    let (redeemed, rest): (Redeemed, _) = reply.parts();
    let expected = Redeemed { lane: own + 1, width: 64, bell: 1, reserved: 0, value: 41 };
    assert_eq!((redeemed, rest.len()), (expected, 0));
    for (at, way) in (0..).zip(WAYS) {
        let number = 42 + at;
        // What the waiter stores at that index of its own area counts for nothing.
        waiter.store(redeemed.lane, 1000);
        way.submit(&mut waiter, &[word(redeemed.lane, number, 1), word(own, 1000, 2)]);
        waiter.still();
        owner.store(lane, number);
        let result = waiter.result();
        assert_eq!((result.user_data, result.seen), (1, number), "{way:?}");
        assert_eq!(result.status, Status::Done as u8);
        let body = message::Cancel { user_data: 2 };
        assert!(waiter.wire.ask(Opcode::Cancel, 9, &body, &[]).body.is_ok());
        assert_eq!(waiter.outcome(), (2, Status::Cancelled));
    }
}

/// With a backstop of a second, what is found within that second was found by a ring.
fn its_owners_ring_is_heard(executor: &Executor) {
    let config = "[park]\nbackstop_us = 1000000\n[plans]\ndefault = \"block\"\n";
    let daemon = Daemon::start(executor, config);
    let mut pair = Pair::new(&daemon, 64);
    let mut number = 0;
    until("a rung store is found", || {
        number += 1;
        let entry = pair.word(number, number);
        pair.waiter.submit(&[entry], &[]);
        pair.owner.store(pair.lane, number);
        pair.owner.ring(1);
        let result = pair.waiter.result();
        assert_eq!((result.user_data, result.status), (number, Status::Done as u8));
        (result.detected_ns - result.submitted_ns < 900_000_000).then_some(())
    });
}

fn a_narrow_lane_stays_narrow(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut pair = Pair::new(&daemon, 32);
    assert_eq!(pair.redeemed.width, 32);
    pair.owner.store(pair.lane, 0xdead_beef_0000_0005);
    let entries = [pair.word(5, 1), pair.word(6, 2)];
    pair.waiter.submit(&entries, &[]);
    assert_eq!(pair.waiter.outcome(), (1, Status::Done));
    pair.waiter.still();
    pair.owner.store_low(pair.lane, 6);
    assert_eq!(pair.waiter.outcome(), (2, Status::Done));
}

fn what_its_owner_posts_reaches_those_who_wait(executor: &Executor) {
    let daemon = Daemon::start(executor, "[plans]\ndefault = \"block\"\n");
    for way in WAYS {
        let mut pair = Pair::new(&daemon, 64);
        let entries = [pair.word(1, 1), pair.word(2, 2)];
        pair.waiter.submit(&entries, &[]);
        pair.owner.store(pair.lane, 1);
        super::ends::post_failure(&mut pair.owner, way, pair.lane, 700);
        assert_eq!(pair.waiter.outcome(), (1, Status::Done), "{way:?}");
        let result = pair.waiter.result();
        assert_eq!((result.user_data, result.code), (2, 700), "{way:?}");
        assert_eq!(result.status, Status::DeviceFailed as u8);
        let late = pair.word(2, 3);
        pair.waiter.submit(&[late], &[]);
        assert_eq!(pair.waiter.outcome(), (3, Status::DeviceFailed));
    }
}

fn a_revoked_lane_ends_its_waits_and_its_capability(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut pair = Pair::new(&daemon, 64);
    let revoked = u32::from(ErrorCode::LaneRevoked.number());
    let capability = pair.owner.share(pair.lane);
    let entries = [pair.word(1, 1), pair.word(2, 2), pair.word(3, 3)];
    pair.waiter.submit(&entries, &[]);
    pair.owner.submit(&[word(pair.lane, 3, 9)], &[]);
    pair.owner.store(pair.lane, 1);
    for _ in 0..2 {
        assert!(pair.owner.revoke(pair.lane).body.is_ok());
    }
    assert_eq!(pair.waiter.outcome(), (1, Status::Done));
    for user_data in [2, 3] {
        let result = pair.waiter.result();
        assert_eq!((result.user_data, result.code), (user_data, revoked));
        assert_eq!(result.status, Status::Refused as u8);
    }
    assert_eq!(pair.waiter.try_redeem(capability).code(), ErrorCode::NoSuchCapability);
    let fresh = pair.owner.share(pair.lane);
    assert_ne!(fresh, capability);
    let again = pair.waiter.redeem(fresh);
    assert_eq!((again.lane, again.value), (pair.redeemed.lane + 1, 1));
    // The owner's own waits went on, and what it stores reaches the lane redeemed since.
    pair.owner.store(pair.lane, 3);
    pair.waiter.submit(&[word(pair.redeemed.lane, 3, 4), word(again.lane, 3, 5)], &[]);
    let result = pair.waiter.result();
    assert_eq!((result.user_data, result.code), (4, revoked), "what came later is not seen");
    assert_eq!(pair.waiter.outcome(), (5, Status::Done));
    assert_eq!(pair.owner.outcome(), (9, Status::Done));
    let body = message::CloseLane { lane: pair.redeemed.lane, reserved: 0 };
    assert!(pair.waiter.wire.ask(Opcode::CloseLane, 9, &body, &[]).body.is_ok());
}

fn however_an_owner_ends_its_redeemers_are_told_once(executor: &Executor) {
    let daemon = Daemon::start(executor, "[plans]\ndefault = \"block\"\n");
    type End = fn(&Session, u32);
    let close: End = |owner, lane| {
        let body = message::CloseLane { lane, reserved: 0 };
        assert!(owner.wire.ask(Opcode::CloseLane, 9, &body, &[]).body.is_ok());
    };
    let bye: End = |owner, _| {
        assert!(owner.wire.ask(Opcode::Bye, 9, &(), &[]).body.is_ok());
    };
    let hang_up: End = |owner, _| {
        rustix::net::shutdown(&owner.wire.socket, rustix::net::Shutdown::Both).expect("shutdown");
    };
    for end in [close, bye, hang_up] {
        for way in WAYS {
            let mut pair = Pair::new(&daemon, 64);
            let entries = [pair.word(1, 1), pair.word(2, 2), pair.word(3, 3)];
            way.submit(&mut pair.waiter, &entries);
            // Behind the daemon's back, and in time.
            pair.owner.store(pair.lane, 1);
            end(&pair.owner, pair.lane);
            assert_eq!(pair.waiter.outcome(), (1, Status::Done));
            for user_data in [2, 3] {
                let result = pair.waiter.result();
                assert_eq!((result.user_data, result.seen), (user_data, 1));
                assert_eq!(result.status, Status::ProducerDied as u8);
            }
            let late = [pair.word(2, 4), pair.word(1, 5)];
            way.submit(&mut pair.waiter, &late);
            let both = [pair.waiter.outcome(), pair.waiter.outcome()];
            assert_eq!(both, [(4, Status::ProducerDied), (5, Status::Done)]);
            pair.waiter.still();
        }
    }
}

/// What the process below is to be, and what it needs for it.
const ROLE: &str = "PARKD_TEST_SHARES";
const SOCKET: &str = "PARKD_TEST_SHARES_SOCKET";
const CAPABILITY: &str = "PARKD_TEST_SHARES_CAPABILITY";

fn hex(capability: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(capability))
}

fn of_hex(text: &str) -> [u8; 16] {
    u128::from_str_radix(text, 16).expect("32 hex digits").to_be_bytes()
}

/// Not a test by itself: this program is started again to be an owner, or a waiter elsewhere.
#[test]
fn a_process_of_its_own() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let socket = std::env::var_os(SOCKET).expect("a socket");
    let mut session = Session::open(Path::new(&socket));
    if role == "owner" {
        let lane = session.lane(64).lane;
        session.store(lane, 7);
        println!("\nshared {}", hex(session.share(lane)));
        // Until it is killed.
        let _ = std::io::stdin().read(&mut [0]);
    } else {
        let capability = of_hex(&std::env::var(CAPABILITY).expect("a capability"));
        let lane = session.redeem(capability).lane;
        session.submit(&[word(lane, 1, 1)], &[]);
        println!("\nwaits");
        println!("\nends {:?}", session.outcome());
    }
}

/// Starts it, by way of another program or not.
fn process(daemon: &Daemon, by: &[&str], role: &str, capability: Option<[u8; 16]>) -> Child {
    let this = std::env::current_exe().expect("this program");
    let mut command = match by {
        [] => Command::new(this),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(this);
            command
        }
    };
    command
        .args(["--exact", "shares::a_process_of_its_own", "--nocapture"])
        .env(ROLE, role)
        .env(SOCKET, daemon.socket())
        .env(CAPABILITY, capability.map(hex).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().expect("a process")
}

/// What it says behind `word`, once it does.
fn said(output: &mut impl BufRead, word: &str) -> String {
    let lines = output.lines().map_while(Result::ok);
    let mut said = lines.filter_map(|line| Some(line.strip_prefix(word)?.trim().to_owned()));
    said.next().unwrap_or_else(|| panic!("the process ended without saying {word}"))
}

fn an_owner_that_is_killed_is_a_producer_that_died(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut owner = process(&daemon, &[], "owner", None);
    let mut output = BufReader::new(owner.stdout.take().expect("a pipe"));
    let capability = of_hex(&said(&mut output, "shared"));
    let mut waiter = Session::open(&daemon.socket());
    let redeemed = waiter.redeem(capability);
    assert_eq!(redeemed.value, 7);
    let tickets: Vec<_> = (1..=40).map(|name| word(redeemed.lane, 7 + name, name)).collect();
    waiter.submit(&tickets[..20], &[]);
    waiter.push(&tickets[20..]);
    waiter.still();
    owner.kill().expect("SIGKILL");
    owner.wait().expect("its end");
    let mut ended: Vec<_> = (1..=40).map(|_| waiter.outcome()).collect();
    ended.sort_unstable_by_key(|(name, _)| *name);
    let died: Vec<_> = (1..=40).map(|name| (name, Status::ProducerDied)).collect();
    assert_eq!(ended, died);
    waiter.still();
    assert_eq!(waiter.try_redeem(capability).code(), ErrorCode::NoSuchCapability);
    let status = waiter.wire.status();
    assert_eq!((&status["sessions"], &status["tickets"]), (&1.into(), &0.into()));
}

fn another_container_waits_on_a_lane(executor: &Executor) {
    let by = ["unshare", "--mount", "--pid", "--ipc", "--net", "--uts", "--fork"];
    let can = Command::new(by[0]).args(&by[1..]).arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return skipped("namespaces cannot be unshared here");
    }
    let daemon = Daemon::start(executor, "");
    let owner = Session::open(&daemon.socket());
    let lane = owner.lane(64).lane;
    let mut waiter = process(&daemon, &by, "waiter", Some(owner.share(lane)));
    let mut output = BufReader::new(waiter.stdout.take().expect("a pipe"));
    said(&mut output, "waits");
    owner.store(lane, 1);
    assert_eq!(said(&mut output, "ends"), "(1, Done)");
    assert!(waiter.wait().expect("its end").success());
}

fn only_its_owner_can_share_fail_or_revoke_a_lane(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut pair = Pair::new(&daemon, 64);
    let lane = pair.redeemed.lane;
    let wire = &pair.waiter.wire;
    let share = message::Share { lane, reserved: 0, secret: [0; 16] };
    assert_eq!(wire.ask(Opcode::Share, 9, &share, &[]).code(), ErrorCode::NotOwner);
    assert_eq!(pair.waiter.revoke(lane).code(), ErrorCode::NotOwner);
    let fail = message::Fail { lane, code: 1 };
    assert_eq!(wire.ask(Opcode::Fail, 9, &fail, &[]).code(), ErrorCode::NotOwner);
    // In the ring it is nothing.
    let entry = pair.word(1, 1);
    pair.waiter.push(&[entry, super::ends::fail(lane, 1)]);
    pair.waiter.drained();
    pair.waiter.still();
    assert_eq!(pair.owner.revoke(60).code(), ErrorCode::NoSuchLane);
    let own = pair.owner.try_redeem(pair.owner.share(pair.lane));
    assert_eq!(own.code(), ErrorCode::NotSupported);
    pair.owner.store(pair.lane, 1);
    assert_eq!(pair.waiter.outcome(), (1, Status::Done));
}

fn a_secret_gives_the_same_capability_again(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let owner = Session::open(&daemon.socket());
    let lanes = [owner.lane(64).lane, owner.lane(64).lane];
    let share = |session: &Session, lane, secret: u8| {
        let body = message::Share { lane, reserved: 0, secret: [secret; 16] };
        session.wire.ask(Opcode::Share, 9, &body, &[])
    };
    let capability = |reply: Reply| reply.parts::<message::Shared>().0.capability;
    let first = capability(share(&owner, lanes[0], 7));
    assert_ne!(first, [7; 16], "who has one does not have the secret");
    assert_eq!(capability(share(&owner, lanes[0], 8)), first, "one at a time");
    let other = Session::open(&daemon.socket());
    let theirs = other.lane(64).lane;
    for reply in [share(&owner, lanes[1], 7), share(&other, theirs, 7)] {
        assert_eq!(reply.code(), ErrorCode::LimitExceeded);
    }
    // The capability is no secret: it does not give itself.
    let body = message::Share { lane: theirs, reserved: 0, secret: first };
    assert_ne!(capability(other.wire.ask(Opcode::Share, 9, &body, &[])), first);
    drop(owner);
    until("the lane is nobody's", || share(&other, theirs, 7).body.is_ok().then_some(()));
    assert!(other.revoke(theirs).body.is_ok());
    assert_eq!(capability(share(&other, theirs, 7)), first);
}

fn guessing_is_slow_and_only_for_who_guesses(executor: &Executor) {
    let daemon = Daemon::start(executor, &format!("[allow]\nuids = [{}]\n", user::STRANGER));
    let pair = Pair::new(&daemon, 64);
    let right = pair.owner.share(pair.lane);
    for at in 0..GUESSES_MAX {
        let mut wrong = right;
        wrong[at as usize % 16] ^= 1 << (at / 16);
        assert_eq!(pair.waiter.try_redeem(wrong).code(), ErrorCode::NoSuchCapability, "{at}");
    }
    // From here on not even the right one is looked up, until the time that the answer tells.
    let refused = pair.waiter.try_redeem(right);
    assert_eq!(refused.code(), ErrorCode::RateExceeded);
    let refusal = refused.body.unwrap_err();
    assert!((1..=250).contains(&refusal.value), "{refusal:?}");
    assert!(refusal.detail.contains(&format!("again in {} ms", refusal.value)), "{refusal:?}");
    until("it may try again", || {
        let reply = pair.waiter.try_redeem(right);
        let allowed = reply.body.is_ok();
        assert!(allowed || reply.code() == ErrorCode::RateExceeded);
        allowed.then_some(())
    });
    if let Some(why) = user::unavailable() {
        return skipped(why);
    }
    pair.waiter.try_redeem([1; 16]);
    user::open_to_all(&daemon.socket());
    user::being(user::STRANGER, || {
        Session::open(&daemon.socket()).redeem(right);
    });
}

fn shares_and_redeemed_lanes_are_counted(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let large = Hello { lanes: 2 * SESSION_SHARES_MAX, ..hello() };
    let owner = Session::open_with(&daemon.socket(), &large);
    let lanes: Vec<u32> = (0..=SESSION_SHARES_MAX).map(|_| owner.lane(64).lane).collect();
    let (last, first) = lanes.split_last().expect("lanes");
    let capabilities: Vec<_> = first.iter().map(|&lane| owner.share(lane)).collect();
    let share = |lane| message::Share { lane, reserved: 0, secret: [0; 16] };
    let refused = owner.wire.ask(Opcode::Share, 9, &share(*last), &[]);
    assert_eq!(refused.code(), ErrorCode::LimitExceeded);
    assert!(owner.revoke(lanes[0]).body.is_ok());
    owner.share(*last);
    // Redeemed lanes take places among the waiter's own.
    let waiter = Session::open(&daemon.socket());
    for at in 0..64 {
        assert_eq!(waiter.redeem(capabilities[1 + at as usize]).lane, at);
    }
    assert_eq!(waiter.try_redeem(capabilities[70]).code(), ErrorCode::NoFreeLane);
    assert_eq!(waiter.lane_of("default", u32::MAX, 64).code(), ErrorCode::NoFreeLane);
    let body = message::CloseLane { lane: 5, reserved: 0 };
    assert!(waiter.wire.ask(Opcode::CloseLane, 9, &body, &[]).body.is_ok());
    assert_eq!(waiter.redeem(capabilities[70]).lane, 5);
}

fn a_capability_is_enough_for_another_user(executor: &Executor) {
    if let Some(why) = user::unavailable() {
        return skipped(why);
    }
    let daemon = Daemon::start(executor, &format!("[allow]\nuids = [{}]\n", user::STRANGER));
    user::open_to_all(&daemon.socket());
    let owner = Session::open(&daemon.socket());
    let lane = owner.lane(64).lane;
    let capability = owner.share(lane);
    let outcome = user::being(user::STRANGER, || {
        let mut waiter = Session::open(&daemon.socket());
        let redeemed = waiter.redeem(capability).lane;
        Way::Ring.submit(&mut waiter, &[word(redeemed, 1, 1)]);
        owner.store(lane, 1);
        waiter.outcome()
    });
    assert_eq!(outcome, (1, Status::Done));
}
