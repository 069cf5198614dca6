//! What stands in for what: another executor where io_uring is taken away for real, another kind
//! of bell where futex wakes are in doubt. The sysctl, which is the whole machine's, is taken away
//! in `tests/sysctl.rs`.

pub mod support;

mod forbidding;

use std::fs;

use parkd::core::error::ErrorCode;
use parkd::daemon::boot::{BootNote, Known};
use parkd::proto::layout::BellKind;
use serde_json::Value;

use support::raw::{self, Session};
use support::{Daemon, Executor, Folder, IO_URING, skipped, until};

#[test]
fn a_seccomp_filter_takes_the_ring_away() {
    forbidding::without("seccomp", "a seccomp filter forbids io_uring");
}

#[test]
fn a_memory_lock_limit_takes_the_ring_away() {
    forbidding::without("memlock", "no memory for the ring, RLIMIT_MEMLOCK is 0 bytes");
}

/// The warnings of a daemon about its bells.
fn bell_warnings(status: &Value) -> Vec<&str> {
    let warnings = status["warnings"].as_array().expect("a list").iter();
    let of_bells = |warning: &&Value| warning["code"] == ErrorCode::BellFallback.number();
    warnings.filter(of_bells).map(|warning| warning["detail"].as_str().unwrap_or("")).collect()
}

#[test]
fn futexes_in_doubt_are_no_bells() {
    support::run(&IO_URING, |executor: &Executor| {
        let folder = Folder::new();
        folder.futexes(&Known::Doubtful("3 of 4096 futex wakes were lost".to_owned()));
        // Whatever is configured.
        for config in ["", "bell = \"futex\"\n"] {
            let daemon = Daemon::start_in(&folder, executor, config);
            let status = raw::control(&daemon.socket()).status();
            assert_eq!(
                (&status["executor"], &status["bell"]),
                (&"io-uring".into(), &"eventfd".into())
            );
            let text = "bell: futex is not available (3 of 4096 futex wakes were lost), \
                        eventfd is used; bells that are futexes already are read every park_us";
            assert_eq!(bell_warnings(&status), [text]);
            assert!(daemon.log().contains(text) && daemon.log().contains("code=72"));
            let mut session = Session::open(&daemon.socket());
            assert_eq!(session.welcome.bell_kind, BellKind::Eventfd as u8);
            forbidding::serves(&mut session);
        }
    });
}

#[test]
fn futexes_are_tried_once_a_boot() {
    support::run(&IO_URING, |executor: &Executor| {
        let folder = Folder::new();
        let file = folder.file("socket.trial");
        // Whatever another boot, or anybody, left there.
        for left in [None, Some("parkd-trial 1 0 0 doubtful of another boot\n"), Some("\0\n\n")] {
            fs::remove_file(&file).expect("a file of the last daemon");
            if let Some(left) = left {
                fs::write(&file, left).expect("a file");
            }
            let daemon = Daemon::start_in(&folder, executor, "");
            let mut session = Session::open(&daemon.socket());
            forbidding::serves(&mut session);
            let note = BootNote::beside(&folder.socket()).expect("this boot's name");
            const SOUND: &str = "futex wakes are neither lost nor late";
            const UNKNOWN: &str = "cannot be tried";
            let log = until("the trial is over", || {
                Some(daemon.log()).filter(|log| log.contains(SOUND) || log.contains(UNKNOWN))
            });
            if log.contains(UNKNOWN) {
                return skipped("this machine is too busy for the futex trial");
            }
            assert_eq!(note.read(), Some(Known::Sound), "{log}");
            assert_eq!(bell_warnings(&session.wire.status()), [""; 0]);
            assert_eq!(session.welcome.bell_kind, BellKind::Futex as u8);
        }
        let again = Daemon::start_in(&folder, executor, "");
        let mut session = Session::open(&again.socket());
        forbidding::serves(&mut session);
        assert!(!again.log().contains("futex wakes"), "tried again: {}", again.log());
    });
}
