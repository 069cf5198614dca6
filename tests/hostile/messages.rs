//! Messages that are wrong: in their bytes, their order, or what they ask for.

use std::os::fd::BorrowedFd;

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{Op, SubmitEntry, TicketKind};
use parkd::proto::limits::MESSAGE_BYTES_MAX;
use parkd::proto::message::{self, Hello, Opcode, encode, name_field};
use parkd::proto::request::submit_tail;

use super::support::Executor;
use super::support::raw::{self, Reply, Session, Wire, hello, word};
use super::{Scene, noise};

crate::for_each_executor! {
    garbage_is_refused,
    nothing_comes_before_hello,
    hello_is_checked,
    a_second_hello_is_refused,
    wrong_messages_are_refused_and_the_session_goes_on,
    wrong_tickets_are_refused_whole,
    cookies_come_in_order,
    no_mutated_message_is_met_with_silence,
    noise_under_a_right_header_is_answered,
    requests_in_a_row_are_answered_in_order,
    a_control_session_has_no_tickets,
}

/// What an unknowing program sends: each is answered and ends its connection.
fn refused(scene: &Scene, record: &[u8]) -> ErrorCode {
    let wire = Wire::connect(&scene.socket());
    wire.send(record);
    wire.parted()
}

fn garbage_is_refused(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    for seed in 0..32 {
        refused(&scene, &noise(seed, 1 + seed as usize * 37));
    }
    let bad = ErrorCode::BadMessage;
    for bytes in [0, 1, 15] {
        assert_eq!(refused(&scene, &vec![0; bytes]), bad, "{bytes} bytes");
    }
    for bytes in [MESSAGE_BYTES_MAX + 1, 64 * 1024, 128 * 1024] {
        let mut long = encode(Opcode::Hello as u16, 1, &hello(), &[]);
        long.resize(bytes, 0);
        // The length may be true: it is too long all the same.
        long[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
        assert_eq!(refused(&scene, &long), bad, "{bytes} bytes");
    }
    let whole = encode(Opcode::Hello as u16, 1, &hello(), &[]);
    assert_eq!(refused(&scene, &whole[..whole.len() - 1]), bad);
    assert_eq!(refused(&scene, &[&whole[..], &[0]].concat()), bad);
    assert_eq!(refused(&scene, &encode(77, 1, &hello(), &[])), ErrorCode::UnknownOpcode);
    // A reply is no request.
    assert_eq!(refused(&scene, &encode(0x8001, 1, &hello(), &[])), ErrorCode::UnknownOpcode);
    let mut flagged = whole;
    flagged[3] = 0x80;
    assert_eq!(refused(&scene, &flagged), ErrorCode::UnknownFlags);
    scene.unharmed();
}

/// A message of each kind but HELLO that would be right in its place.
fn requests(session: &Session, lane: u32) -> Vec<(Opcode, Vec<u8>)> {
    let device = name_field("default").expect("a short name");
    let open = message::OpenLane { lane: u32::MAX, width: 64, device };
    let plan = "flag:park_us=50,backstop_us=1000";
    let text = message::Plan { by_name: 0, bytes: plan.len() as u32 };
    let named = message::Plan { by_name: 1, bytes: 7 };
    let tickets = [word(lane, 0, 1), word(lane, 0, 2)];
    let submit = message::Submit { tickets: 2, fds: 0 };
    let (close, cancel) =
        (message::CloseLane { lane: 63, reserved: 0 }, message::Cancel { user_data: 1 });
    let fail = message::Fail { lane: 62, code: 5 };
    let status = message::StatusRequest { reserved: 0 };
    let (share, revoke) = (
        message::Share { lane, reserved: 0, secret: [0; 16] },
        message::Revoke { lane, reserved: 0 },
    );
    let redeem = message::Redeem { capability: [7; 16] };
    let drain = message::Drain { timeout_ms: 0, reserved: 0 };
    let of = |opcode: Opcode, record: Vec<u8>| (opcode, record);
    let plain = |opcode: Opcode| (opcode, encode(opcode as u16, 9, &(), &[]));
    let n = |opcode: Opcode| opcode as u16;
    vec![
        of(Opcode::OpenLane, encode(n(Opcode::OpenLane), 9, &open, &[])),
        of(Opcode::CloseLane, encode(n(Opcode::CloseLane), 9, &close, &[])),
        of(Opcode::Plan, encode(n(Opcode::Plan), 9, &text, plan.as_bytes())),
        of(Opcode::Plan, encode(n(Opcode::Plan), 9, &named, b"default")),
        of(
            Opcode::Submit,
            encode(n(Opcode::Submit), session.cookie, &submit, submit_tail(&tickets)),
        ),
        of(Opcode::Cancel, encode(n(Opcode::Cancel), 9, &cancel, &[])),
        of(Opcode::Fail, encode(n(Opcode::Fail), 9, &fail, &[])),
        of(Opcode::Status, encode(n(Opcode::Status), 9, &status, &[])),
        of(Opcode::Share, encode(n(Opcode::Share), 9, &share, &[])),
        of(Opcode::Redeem, encode(n(Opcode::Redeem), 9, &redeem, &[])),
        of(Opcode::Revoke, encode(n(Opcode::Revoke), 9, &revoke, &[])),
        plain(Opcode::RegisterEvent),
        plain(Opcode::ReleaseEvent),
        of(Opcode::Drain, encode(n(Opcode::Drain), 9, &drain, &[])),
        plain(Opcode::Bye),
    ]
}

fn nothing_comes_before_hello(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    for (opcode, record) in requests(&scene.neighbour, 0) {
        assert_eq!(refused(&scene, &record), ErrorCode::NotGreeted, "{opcode:?}");
    }
    scene.unharmed();
}

fn hello_is_checked(executor: &Executor) {
    let mut scene = Scene::new(executor, "[limits]\nsession_tickets = 1024\nsession_lanes = 128\n");
    let (bad, limit) = (ErrorCode::BadMessage, ErrorCode::LimitExceeded);
    let version = ErrorCode::VersionMismatch;
    let cases = [
        (Hello { version_min: 0, version_max: 0, ..hello() }, version),
        (Hello { version_min: 2, version_max: 9, ..hello() }, version),
        (Hello { version_min: 2, version_max: 1, ..hello() }, version),
        (Hello { role: 3, ..hello() }, bad),
        (Hello { submit_entries: 63, ..hello() }, bad),
        (Hello { submit_entries: 32, ..hello() }, bad),
        (Hello { submit_entries: 96, ..hello() }, bad),
        (Hello { result_entries: 1, ..hello() }, bad),
        (Hello { lanes: 65, ..hello() }, bad),
        (Hello { result_entries: 2048, ..hello() }, limit),
        (Hello { submit_entries: 1 << 31, ..hello() }, limit),
        (Hello { result_entries: u32::MAX, ..hello() }, limit),
        (Hello { lanes: 256, ..hello() }, limit),
        (Hello { adopt: 1, ..hello() }, ErrorCode::BadMessage),
    ];
    for (hello, code) in cases {
        let record = encode(Opcode::Hello as u16, 1, &hello, &[]);
        assert_eq!(refused(&scene, &record), code, "{hello:?}");
    }
    // Newer versions and features that the daemon does not know are what HELLO is there to settle.
    let newer = Hello { version_max: 9, features: u64::MAX, lanes: 0, ..hello() };
    let session = Session::open_with(&scene.socket(), &newer);
    assert_eq!((session.welcome.version, session.welcome.features), (1, 0));
    scene.unharmed();
}

fn a_second_hello_is_refused(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    for role in 0..4 {
        let again = session.wire.ask(Opcode::Hello, 7, &Hello { role, ..hello() }, &[]);
        assert_eq!(again.code(), ErrorCode::NotGreeted);
    }
    // It is the session that it was.
    session.lane(64);
    scene.unharmed();
}

/// Sends a record to a session and answers the code of its refusal, which closes nothing.
fn refusal(wire: &Wire, record: &[u8], fds: &[BorrowedFd<'_>]) -> Reply {
    wire.try_send(record, fds).expect("send");
    let reply = wire.receive().expect("an answer");
    assert!(!reply.closes(), "{reply:?}");
    reply
}

fn wrong_messages_are_refused_and_the_session_goes_on(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    let bad = ErrorCode::BadMessage;
    let code = |record: &[u8]| refusal(&session.wire, record, &[]).code();
    for (opcode, record) in requests(&session, lane) {
        let mut unknown = record.clone();
        unknown[2] = 2;
        assert_eq!(code(&unknown), ErrorCode::UnknownFlags, "{opcode:?}");
        assert_eq!(code(&record[..record.len() - 1]), bad, "{opcode:?} short");
        let mut long = [&record[..], &[0; 8]].concat();
        assert_eq!(code(&long), bad, "{opcode:?} longer than it says");
        let length = long.len() as u32;
        long[4..8].copy_from_slice(&length.to_le_bytes());
        // What this daemon does not serve, it does not look into either.
        let code = code(&long);
        assert!(code == bad || code == ErrorCode::NotSupported, "{opcode:?} long: {code:?}");
    }
    let n = |opcode: Opcode| opcode as u16;
    let close = message::CloseLane { lane, reserved: 1 };
    assert_eq!(code(&encode(n(Opcode::CloseLane), 9, &close, &[])), bad);
    let status = message::StatusRequest { reserved: 1 };
    assert_eq!(code(&encode(n(Opcode::Status), 9, &status, &[])), bad);
    let mut device = name_field::<32>("default").expect("a short name");
    for width in [0, 16, 33, 128] {
        let open = message::OpenLane { lane: 5, width, device };
        assert_eq!(code(&encode(n(Opcode::OpenLane), 9, &open, &[])), bad, "{width} wide");
    }
    device[31] = b'x';
    let open = message::OpenLane { lane: 5, width: 64, device };
    assert_eq!(code(&encode(n(Opcode::OpenLane), 9, &open, &[])), bad);
    assert_eq!(session.lane_of("default", 64, 64).code(), ErrorCode::NoSuchLane);
    assert_eq!(session.lane_of("default", lane, 64).code(), bad);
    for (by_name, bytes, text) in [(0, 0, ""), (0, 641, "x"), (2, 5, "block"), (0, 2, "\u{e4}")] {
        let plan = message::Plan { by_name, bytes };
        let text = if bytes == 641 { "x".repeat(641) } else { text.to_owned() };
        let code = code(&encode(n(Opcode::Plan), 9, &plan, text.as_bytes()));
        assert!(code == bad || code == ErrorCode::InvalidPlan, "{by_name} {text}: {code:?}");
    }
    assert_eq!(session.lane(64).value, 0);
    scene.unharmed();
}

fn wrong_tickets_are_refused_whole(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    let good = word(lane, 0, 1);
    let event = TicketKind::Event as u8;
    let bad = ErrorCode::BadMessage;
    let cases = [
        (SubmitEntry { op: 0, ..good }, bad),
        (SubmitEntry { op: Op::Cancel as u8, kind: 0, ..good }, bad),
        (SubmitEntry { op: Op::Fail as u8, kind: 0, ..good }, bad),
        (SubmitEntry { op: 9, ..good }, bad),
        (SubmitEntry { kind: 0, ..good }, bad),
        (SubmitEntry { kind: 77, ..good }, bad),
        (SubmitEntry { flags: 1, ..good }, ErrorCode::UnknownFlags),
        (SubmitEntry { reserved0: 1, ..good }, bad),
        (SubmitEntry { reserved1: [0, 1 << 63], ..good }, bad),
        (SubmitEntry { plan: 65, ..good }, ErrorCode::NoSuchPlan),
        (SubmitEntry { plan: u16::MAX, ..good }, ErrorCode::NoSuchPlan),
        (SubmitEntry { source: lane + 1, ..good }, ErrorCode::NoSuchLane),
        (SubmitEntry { source: u32::MAX, ..good }, ErrorCode::NoSuchLane),
        (SubmitEntry { kind: event, ..good }, ErrorCode::NotSupported),
        (raw::fd(0, 1), bad),
        (raw::fd(u32::MAX, 1), bad),
    ];
    for (wrong, code) in cases {
        // Whatever stands before it is not taken either.
        let reply = session.try_submit(&[good, good, wrong], &[]);
        assert_eq!(reply.code(), code, "{wrong:?}");
    }
    for (tickets, fds, code) in [
        (0, 0, ErrorCode::LimitExceeded),
        (257, 0, ErrorCode::LimitExceeded),
        (u32::MAX, 0, ErrorCode::LimitExceeded),
        (2, 0, bad),
        (1, 1, bad),
        (1, 65, ErrorCode::TooManyFds),
        (1, u32::MAX, ErrorCode::TooManyFds),
    ] {
        let submit = message::Submit { tickets, fds };
        let record = encode(Opcode::Submit as u16, session.cookie, &submit, submit_tail(&[good]));
        assert_eq!(refusal(&session.wire, &record, &[]).code(), code, "{tickets} and {fds}");
    }
    session.still();
    assert_eq!(session.submit(&[good], &[]), 63);
    scene.unharmed();
}

fn cookies_come_in_order(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    for next in 1..=3 {
        for wrong in [0, next - 1, next + 1, u64::MAX] {
            session.cookie = wrong;
            let reply = session.try_submit(&[word(lane, 0, 1)], &[]);
            assert_eq!(reply.code(), ErrorCode::CookieOutOfOrder);
            assert_eq!(reply.body.expect_err("a refusal").value, next);
        }
        session.still();
        session.cookie = next;
        session.submit(&[word(lane, 0, next)], &[]);
        assert_eq!(session.result().user_data, next);
    }
    scene.unharmed();
}

fn no_mutated_message_is_met_with_silence(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let large = Hello { result_entries: 4096, submit_entries: 4096, ..hello() };
    let open = |socket| {
        let session = Session::open_with(socket, &large);
        let lane = session.lane(64).lane;
        (session, lane)
    };
    let socket = scene.socket();
    let (mut session, mut lane) = open(&socket);
    let kinds = requests(&session, lane);
    // A DRAIN whose time was mutated is a DRAIN, and the tests may ask for it.
    let meek = |&kind: &usize| kind == 0 || kinds[kind - 1].0 != Opcode::Drain;
    for kind in (0..=kinds.len()).filter(meek) {
        // Every byte in turn; SUBMIT's cookie is always the one that is next.
        let record = |session: &Session, lane| match kind.checked_sub(1) {
            Some(kind) => requests(session, lane).swap_remove(kind).1,
            None => encode(Opcode::Hello as u16, 9, &large, &[]),
        };
        for at in 0..record(&session, lane).len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut mutated = record(&session, lane);
                mutated[at] ^= flip;
                session.wire.send(&mutated);
                match session.wire.receive() {
                    Some(reply) if reply.closes() => session.wire.closed(),
                    Some(reply) if reply.body.is_ok() && reply.opcode == 0x8005 => {
                        session.cookie += 1;
                        continue;
                    }
                    // A BYE whose cookie was mutated is a BYE.
                    Some(reply) if reply.opcode == 0x800f => session.wire.closed(),
                    Some(_) => continue,
                    None => {}
                }
                (session, lane) = open(&socket);
            }
        }
        scene.goes_on();
    }
    scene.unharmed();
}

fn noise_under_a_right_header_is_answered(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    for opcode in 0..=Opcode::ALL.len() as u16 + 1 {
        for seed in 0..40 {
            let body = noise(seed << 8 | u64::from(opcode), seed as usize * 13 % 700);
            let mut record = encode(opcode, session.cookie, &(), &body);
            // Small numbers get further than large ones.
            for byte in record[16..].iter_mut().filter(|byte| **byte < 200) {
                *byte %= 3;
            }
            session.wire.send(&record);
            let reply = session.wire.receive();
            if reply.is_none_or(|reply| reply.closes() || reply.opcode == 0x800f) {
                session.wire.closed();
                session = Session::open(&scene.socket());
            }
        }
        scene.goes_on();
    }
    scene.unharmed();
}

fn requests_in_a_row_are_answered_in_order(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    let plan = message::Plan { by_name: 0, bytes: 5 };
    let status = message::StatusRequest { reserved: 0 };
    let cancel = message::Cancel { user_data: 7 };
    // Some are answered by the desk, some by FILL, some refused; more than may be asked at once.
    // Requests of one kind keep their order, and none is forgotten.
    let mut asked = Vec::new();
    for cookie in 0..200u64 {
        let record = match cookie % 4 {
            0 => encode(Opcode::Plan as u16, cookie, &plan, b"block"),
            1 => encode(Opcode::Cancel as u16, cookie, &cancel, &[]),
            2 => encode(Opcode::Status as u16, cookie, &status, &[]),
            _ => encode(77, cookie, &(), &[]),
        };
        session.wire.send(&record);
        asked.push(cookie);
    }
    let mut answered: Vec<u64> =
        asked.iter().map(|_| session.wire.receive().expect("an answer").cookie).collect();
    for way in 0..4 {
        let of = answered.iter().filter(|cookie| *cookie % 4 == way);
        assert!(of.is_sorted(), "{answered:?}");
    }
    answered.sort_unstable();
    assert_eq!(answered, asked);
    scene.unharmed();
}

fn a_control_session_has_no_tickets(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let wire = raw::control(&scene.socket());
    for (opcode, record) in requests(&scene.neighbour, 0) {
        match opcode {
            Opcode::Status | Opcode::Drain | Opcode::Bye => continue,
            _ => {
                let code = refusal(&wire, &record, &[]).code();
                assert_eq!(code, ErrorCode::NotSupported, "{opcode:?}");
            }
        }
    }
    wire.status();
    wire.bye();
    scene.unharmed();
}
