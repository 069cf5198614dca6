//! `docs/PROTOCOL.md` against the code: its tables field by field, the bytes of its example by
//! reading them as daemon and client do, and its program by running it.

pub mod support;

use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{EntryWords, Op, ResultEntry, Status, SubmitEntry, TicketKind, phase_of};
use parkd::proto::layout::{AreaHeader, SessionState, armed, lanes, rings, status};
use parkd::proto::message::{self, Header, Opcode};
use parkd::proto::request::{self, Request};
use parkd::shm::header;
use parkd::shm::ring::RingSizes;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use support::{Daemon, Executor};

for_each_executor! {
    the_program_of_the_page_is_a_client,
}

/// One row of a table of fields: where, how many bytes, which.
type Row = (usize, usize, String);

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/PROTOCOL.md");
    fs::read_to_string(path).unwrap()
}

/// What stands under a heading, up to the next.
fn section(page: &str, heading: &str) -> String {
    let mut lines = page.lines().skip_while(|line| *line != heading).skip(1);
    let section: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with('#')).collect();
    assert!(!section.is_empty(), "docs/PROTOCOL.md has no {heading}");
    section.join("\n")
}

/// The cells of each row of a table, without white space and backticks.
fn cells(text: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').skip(1).map(|c| c.trim().replace('`', "")).collect())
}

/// The rows of a text's tables that give a field's place and size.
fn rows(text: &str) -> Vec<Row> {
    let row = |cells: Vec<String>| {
        Some((cells.first()?.parse().ok()?, cells.get(1)?.parse().ok()?, cells.get(2)?.clone()))
    };
    cells(text).filter_map(row).collect()
}

/// The fields of a type, every byte of it, with `$from` bytes before it.
macro_rules! fields {
    ($from:expr, $type:ty { $($field:ident),+ $(,)? }) => {{
        let value = <$type>::new_zeroed();
        let rows: Vec<Row> = vec![$((
            $from + offset_of!($type, $field),
            size_of_val(&value.$field),
            stringify!($field).to_owned(),
        )),+];
        let covered: usize = rows.iter().map(|(_, bytes, _)| bytes).sum();
        assert_eq!(covered, size_of::<$type>(), "a field of {} is left out", stringify!($type));
        rows
    }};
}

#[test]
fn messages_lie_as_the_page_says() {
    const BODY: usize = size_of::<Header>();
    let page = page();
    let check = |heading: &str, request: Vec<Row>, reply: Vec<Row>| {
        let text = section(&page, heading);
        let (asked, answered) = text.split_once("The reply:").unwrap_or((&text, ""));
        assert_eq!(rows(asked), request, "{heading}");
        assert_eq!(rows(answered), reply, "the reply to {heading}");
    };
    let header = fields!(0, Header { opcode, flags, length, cookie });
    check("### The header", header, vec![]);
    let hello = fields!(
        BODY,
        message::Hello {
            version_min,
            version_max,
            role,
            features,
            submit_entries,
            result_entries,
            lanes,
            adopt,
            now_ns,
        }
    );
    check("#### HELLO", hello, vec![]);
    let welcome = fields!(
        BODY,
        message::Welcome {
            version,
            bell_kind,
            reserved0,
            session,
            features,
            generation,
            submit_entries,
            result_entries,
            lanes,
            submit_tickets_max,
            submit_fds_max,
            now_ns,
            clock_offset_ns,
        }
    );
    check("#### WELCOME", welcome, vec![]);
    let open = fields!(BODY, message::OpenLane { lane, width, device });
    check("#### OPEN_LANE", open, fields!(BODY, message::LaneOpened { lane, bell, value }));
    check("#### CLOSE_LANE", fields!(BODY, message::CloseLane { lane, reserved }), vec![]);
    let plan = fields!(BODY, message::Plan { by_name, bytes });
    check("#### PLAN", plan, fields!(BODY, message::PlanKnown { plan, reserved }));
    let submit = fields!(BODY, message::Submit { tickets, fds });
    check("#### SUBMIT", submit, fields!(BODY, message::Submitted { tickets, free }));
    check("#### CANCEL", fields!(BODY, message::Cancel { user_data }), vec![]);
    check("#### FAIL", fields!(BODY, message::Fail { lane, code }), vec![]);
    let share = fields!(BODY, message::Share { lane, reserved, secret });
    check("#### SHARE", share, fields!(BODY, message::Shared { capability }));
    let redeem = fields!(BODY, message::Redeem { capability });
    let redeemed = fields!(BODY, message::Redeemed { lane, width, bell, reserved, value });
    check("#### REDEEM", redeem, redeemed);
    check("#### REVOKE", fields!(BODY, message::Revoke { lane, reserved }), vec![]);
    let status = fields!(BODY, message::StatusRequest { reserved });
    check("#### STATUS", status, fields!(BODY, message::StatusText { bytes, reserved }));
    let drain = fields!(BODY, message::Drain { timeout_ms, reserved });
    check("#### DRAIN", drain, fields!(BODY, message::Drained { finished, ended }));
    let error = fields!(BODY, message::ErrorBody { code, blame, closes, bytes, value });
    check("### ERROR", error, vec![]);
    let resumed = fields!(BODY, message::Resumed { generation, reserved, last_cookie });
    check("### RESUMED", resumed, vec![]);
}

#[test]
fn entries_and_areas_lie_as_the_page_says() {
    let page = page();
    let submission = fields!(
        0,
        SubmitEntry {
            op,
            kind,
            flags,
            source,
            user_data,
            target,
            point,
            deadline_ns,
            plan,
            reserved0,
            rows,
            reserved1,
        }
    );
    assert_eq!(rows(&section(&page, "### A submission")), submission);
    let result = fields!(
        0,
        ResultEntry {
            user_data,
            status,
            waited,
            flags,
            code,
            seen,
            submitted_ns,
            detected_ns,
            published_ns,
            reserved,
            phase,
            reserved1,
        }
    );
    assert_eq!(rows(&section(&page, "### A result")), result);
    let header =
        fields!(0, AreaHeader { magic, version, submit_entries, result_entries, lanes, reserved });
    assert_eq!(rows(&section(&page, "## Shared memory")), header);

    let words = |heading: &str| -> Vec<(usize, String)> {
        let place =
            |cells: Vec<String>| Some((cells.first()?.parse().ok()?, cells.get(2)?.clone()));
        cells(&section(&page, heading)).filter_map(place).filter(|(at, _)| *at > 3).collect()
    };
    let named = |places: &[(usize, &str)]| -> Vec<(usize, String)> {
        places.iter().map(|(at, name)| (*at, (*name).to_owned())).collect()
    };
    let of_rings = named(&[
        (rings::SUBMIT_TAIL, "SUBMIT_TAIL"),
        (rings::RESULT_HEAD, "RESULT_HEAD"),
        (rings::ARMED, "ARMED"),
        (rings::SUBMIT_HEAD, "SUBMIT_HEAD"),
        (rings::RESULT_TAIL, "RESULT_TAIL"),
        (rings::STATE, "STATE"),
        (rings::GENERATION, "GENERATION"),
        (rings::CLOSE_CODE, "CLOSE_CODE"),
        (rings::IMMINENT_UNTIL, "IMMINENT_UNTIL"),
        (rings::SUBMIT_RING, "SUBMIT_RING"),
    ]);
    assert_eq!(words("### The rings area"), of_rings);
    let of_lanes =
        [(lanes::bell(0), "DOORBELL"), (lanes::bell(1), "bell 1"), (lanes::lane(0), "lane 0")];
    assert_eq!(words("### The lanes area"), named(&of_lanes));
    let of_status = named(&[
        (status::PARKED, "PARKED"),
        (status::GENERATION, "GENERATION"),
        (status::HEARTBEAT, "HEARTBEAT"),
        (status::EXECUTOR, "EXECUTOR"),
    ]);
    assert_eq!(words("### The status page"), of_status);
}

#[test]
fn numbers_mean_what_the_page_says() {
    let page = page();
    let numbered = |heading: &str| -> Vec<(u32, String)> {
        let number =
            |cells: Vec<String>| Some((cells.first()?.parse().ok()?, cells.get(1)?.clone()));
        cells(&section(&page, heading)).filter_map(number).collect()
    };
    let opcodes = Opcode::ALL.iter().map(|op| (*op as u32, op.name().to_owned()));
    assert_eq!(numbered("### Requests"), opcodes.collect::<Vec<_>>());
    let statuses = (1..=u8::MAX).map_while(Status::from_number);
    let statuses = statuses.map(|status| (status as u32, format!("{status:?}")));
    assert_eq!(numbered("### How they end"), statuses.collect::<Vec<_>>());
    let how = [("NOT", armed::NOT), ("TAIL", armed::TAIL), ("NOTIFY", armed::NOTIFY)];
    let mut how: Vec<_> = how.iter().map(|(name, how)| (*how, (*name).to_owned())).collect();
    how.push((armed::BOTH, "BOTH".to_owned()));
    let of_armed = numbered("### The rings area").into_iter().filter(|(number, _)| *number < 4);
    assert_eq!(of_armed.collect::<Vec<_>>(), how);
    let (again, notice) = (message::AGAIN, message::RESUMED);
    assert!(section(&page, "### The header").contains(&format!("| {again} | AGAIN |")));
    assert!(section(&page, "### RESUMED").contains(&format!("Opcode {notice:#x}")));
    assert_eq!((Op::Ticket as u8, Op::Cancel as u8, Op::Fail as u8), (1, 2, 3));
    assert_eq!((TicketKind::Word as u8, TicketKind::Fd as u8, TicketKind::Event as u8), (1, 2, 3));
    let states = (0..=3).map(SessionState::from_number);
    assert!(states.eq([
        Some(SessionState::Starting),
        Some(SessionState::Live),
        Some(SessionState::Draining),
        Some(SessionState::Closed),
    ]));
}

/// The hex dumps of the page, with the kind of their block.
fn dumps(page: &str) -> Vec<(String, Vec<u8>)> {
    let mut dumps = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (kind, lines) = block.split_once('\n').unwrap();
        if !["request", "reply", "header", "submission", "result", "words"].contains(&kind) {
            continue;
        }
        let mut bytes = Vec::new();
        for line in lines.lines() {
            let (at, hex) = line.split_once("  ").unwrap();
            assert_eq!(usize::from_str_radix(at, 16), Ok(bytes.len()), "{line}");
            bytes.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
        }
        dumps.push((kind.to_owned(), bytes));
    }
    dumps
}

fn words(bytes: &[u8]) -> EntryWords {
    EntryWords::read_from_bytes(bytes).unwrap()
}

#[test]
fn the_example_is_what_the_protocol_makes_of_it() {
    let dumps = dumps(&page());
    let of = |wanted: &str| -> Vec<&[u8]> {
        let dumps = dumps.iter().filter(|(kind, _)| kind == wanted);
        dumps.map(|(_, bytes)| bytes.as_slice()).collect()
    };
    let (requests, replies) = (of("request"), of("reply"));
    assert_eq!((requests.len(), replies.len()), (6, 6));
    let mut asked = Vec::new();
    for (request, reply) in requests.into_iter().zip(replies) {
        let (header, request) = request::parse(request).unwrap();
        let (answered, body) = request::parse_reply(reply).unwrap();
        assert_eq!(answered.cookie, header.cookie);
        if let Err(refusal) = body {
            assert_eq!(refusal.code, Some(ErrorCode::NoSuchTicket));
            assert_eq!((refusal.closes, refusal.detail.len()), (false, 28));
        } else {
            assert_eq!(answered.opcode, header.opcode | message::REPLY);
        }
        asked.push(request);
    }
    assert!(matches!(&asked[0], Request::Hello(hello) if hello.lanes == 64));
    assert_eq!(asked[1], Request::OpenLane(None, 64, "default".into()));
    assert_eq!(asked[2], Request::PlanText("flag:park_us=50,backstop_us=1000".into()));
    assert!(matches!(&asked[3], Request::Submit(tickets, 0) if tickets[0].user_data == 42));
    assert_eq!(asked[4..], [Request::Cancel(99), Request::Bye]);

    let sizes = RingSizes::new(64, 64).unwrap();
    let headers = [header::of_rings(sizes), header::of_lanes(64), header::of_status()];
    assert_eq!(of("header"), headers.each_ref().map(|header| header.as_bytes()));
    let submission = SubmitEntry::from_words(words(of("submission")[0]));
    assert_eq!(submission.check(), Ok((Op::Ticket, TicketKind::Word)));
    let results: Vec<_> =
        of("result").iter().map(|bytes| ResultEntry::from_words(words(bytes))).collect();
    assert_eq!(results.iter().map(|r| r.user_data).collect::<Vec<_>>(), [42, 43]);
    assert!(results.iter().all(|result| result.phase == phase_of(0, 64)));
    assert_eq!((results[0].status, results[1].status), (1, 2));
    let late = results[1].detected_ns - submission.deadline_ns;
    assert_eq!(late / 1000, 15, "microseconds after the deadline, as the text says");
    let daemon = <[u32; 4]>::read_from_bytes(of("words")[0]).unwrap();
    assert_eq!(daemon, [1, 2, SessionState::Live as u32, 1]);
}

/// The C program, compiled; none where there is no compiler, which is said.
fn the_program_of_the_page_is_a_client(executor: &Executor) {
    let page = page();
    let (_, block) = page.split_once("\n```c\n").unwrap();
    let (program, _) = block.split_once("\n```").unwrap();
    let daemon = Daemon::start(executor, "");
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("client-{}.c", executor.name));
    fs::write(&source, program).unwrap();
    let client = match support::compiled(&source) {
        Ok(client) => client,
        Err(why) => return support::skipped(&why),
    };
    let output = Command::new(client).arg(daemon.socket()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said,
        "ticket 42: status 1, seen 1\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success());
}
