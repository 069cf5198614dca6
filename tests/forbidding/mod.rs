//! A daemon that is forbidden io_uring for real: what it does with `strict` and without.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use parkd::core::error::ErrorCode;
use parkd::host::kinds;
use parkd::proto::entry::Status;
use parkd::proto::layout::BellKind;
use parkd::shm::status::StatusReader;
use serde_json::json;

use crate::support::raw::{self, Session, word};
use crate::support::{self, Daemon, Folder, skipped};

/// What the C program ends with where it cannot forbid anything here.
const CANNOT: i32 = 77;

/// The C program, compiled once; or why it cannot be.
fn forbidding() -> Result<&'static Path, &'static str> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        support::compiled(&root.join("tests/forbidding/forbidding.c"))
    });
    made.as_deref().map_err(String::as_str)
}

/// The daemon's program, to be run with something forbidden; or why that cannot be here.
fn parkd(how: &str) -> Result<Command, String> {
    let mut command = Command::new(forbidding()?);
    command.arg(how);
    let tried = Command::new(command.get_program()).args([how, "/bin/true"]).output();
    let tried = tried.map_err(|error| error.to_string())?;
    match tried.status.code() {
        Some(0) => {}
        Some(CANNOT) => return Err(String::from_utf8_lossy(&tried.stderr).into_owned()),
        other => panic!("{how}: {other:?}: {}", String::from_utf8_lossy(&tried.stderr)),
    }
    command.arg(env!("CARGO_BIN_EXE_parkd"));
    Ok(command)
}

/// Takes io_uring away from daemons in this way, and checks that they say `why`.
pub fn without(how: &str, why: &str) {
    if let Err(error) = kinds::resolve(kinds::IO_URING, true)
        && !error.detail.contains(why)
    {
        return skipped(&format!("there is no io_uring to be taken away: {error}"));
    }
    match (parkd(how), parkd(how)) {
        (Ok(strict), Ok(other)) => {
            refuses(strict, why);
            falls_back(other, why);
        }
        (Err(why), _) | (_, Err(why)) => skipped(&format!("{how}: {why}")),
    }
}

/// With `strict` it does not start, and says what to do.
fn refuses(program: Command, why: &str) {
    let folder = Folder::new();
    let mut daemon =
        Daemon::launch_as(program, &folder, "executor = \"io-uring\"\nstrict = true\n");
    assert_eq!(daemon.ended().code(), Some(1));
    let said = daemon.log();
    let refusal = format!(
        "ExecutorRefused (4): executor: io-uring is not available ({why}) and strict is set"
    );
    assert!(said.contains(&refusal), "no {refusal} in\n{said}");
    assert!(said.contains(ErrorCode::ExecutorRefused.remedy()), "{said}");
    assert!(!folder.socket().exists());
}

/// Without, it runs on epoll, says so wherever one may look, and serves.
fn falls_back(program: Command, why: &str) {
    const LABEL: &str = "gpu-reactor (fallback from io-uring)";
    let folder = Folder::new();
    let config = "executor = \"io-uring\"\nstrict = false\n";
    let mut daemon = Daemon::launch_as(program, &folder, config);
    daemon.listening();
    let warning = format!("executor: io-uring is not available ({why}), gpu-reactor is used");
    let status = raw::control(&daemon.socket()).status();
    assert_eq!((&status["executor"], &status["bell"]), (&json!(LABEL), &json!("eventfd")));
    let said = json!({"code": 3, "name": "ExecutorFallback", "detail": warning});
    let warnings = status["warnings"].as_array().expect("a list");
    assert!(warnings.contains(&said), "{said} is not in {warnings:?}");
    let log = daemon.log();
    for said in [warning, "code=3".to_owned(), format!("executor={LABEL:?}")] {
        assert!(log.contains(&said), "no {said} in\n{log}");
    }
    let mut session = Session::open(&daemon.socket());
    let page = StatusReader::new(session.status.clone()).expect("the status page");
    assert_eq!(page.executor(), LABEL);
    assert_eq!(session.welcome.bell_kind, BellKind::Eventfd as u8);
    serves(&mut session);
}

/// Tickets end: by a silent store, by a bell, through the socket and through the ring.
pub fn serves(session: &mut Session) {
    let lane = session.lane(64);
    for number in 1..=20 {
        let ticket = [word(lane.lane, number, number)];
        if number % 2 == 0 {
            session.submit(&ticket, &[]);
        } else {
            session.push(&ticket);
            session.ring(0);
        }
        session.store(lane.lane, number);
        if number % 3 == 0 {
            session.ring(lane.bell);
        }
        assert_eq!(session.outcome(), (number, Status::Done));
    }
}
