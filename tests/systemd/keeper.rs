//! systemd as the keeper, from inside the box.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::Command;

use parkd::core::time::MonoNs;
use parkd::host::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::load::keeper::{Keeper, store_is_empty};
use super::supervisor::Kill;
use super::support::{PATIENCE, until};

/// The unit.
const SERVICE: &str = "parkd.service";

/// Where the box has the daemon log.
const LOG: &str = "/run/parkd.log";

/// systemd, and what it did to the unit so far.
#[derive(Debug, Default)]
pub struct Systemd {
    /// The process of the last life that was ended.
    ended: Cell<i32>,
    lives: Cell<u32>,
    /// Kills since somebody last started the unit: what systemd counts, too.
    kills: Cell<u32>,
    complaint: RefCell<Option<String>>,
}

/// A property of the unit.
fn property(name: &str) -> String {
    let output = Command::new("systemctl").args(["show", "--value", "-p", name, SERVICE]).output();
    let output = output.expect("systemctl");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn number(name: &str) -> u32 {
    property(name).parse().unwrap_or_default()
}

impl Systemd {
    /// Ends the life that runs, or is next to, by `end`.
    fn end(&self, end: impl FnOnce(Pid)) -> Kill {
        let pid = until("a life", || {
            let pid = property("MainPID").parse().unwrap_or_default();
            Pid::from_raw(pid).filter(|_| pid != self.ended.get())
        });
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd of the service");
        let sent = clock::now();
        end(pid);
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&patience));
        assert_eq!(ended, Ok(1), "the service does not end");
        let dead: MonoNs = clock::now();
        self.ended.set(pid.as_raw_nonzero().get());
        self.lives.set(self.lives.get() + 1);
        Kill { sent, dead, life: self.lives.get() }
    }

    /// Compares who has started the unit how often.
    fn count_restarts(&self) {
        let (restarts, kills) = (number("NRestarts"), self.kills.get());
        if restarts != kills {
            let text = format!("{kills} kills, and systemd has started it {restarts} times");
            *self.complaint.borrow_mut() = Some(text);
        }
    }
}

impl Keeper for Systemd {
    fn socket(&self) -> PathBuf {
        Path::new("/run/parkd/parkd.sock").to_owned()
    }

    fn has_store(&self) -> bool {
        true
    }

    fn ready(&self, _life: u32) {
        until("the unit is active", || {
            let ended = self.ended.get().to_string();
            (property("MainPID") != ended && property("ActiveState") == "active").then_some(())
        });
    }

    fn kill(&self) -> Kill {
        self.kills.set(self.kills.get() + 1);
        self.end(|pid| kill_process(pid, Signal::KILL).expect("SIGKILL to the service"))
    }

    fn restart(&self) -> Kill {
        self.count_restarts();
        self.kills.set(0);
        self.end(|_| {
            let done = Command::new("systemctl").args(["restart", "--no-block", SERVICE]).status();
            assert!(done.expect("systemctl").success(), "systemctl restart");
        })
    }

    fn left_alone(&self) -> Vec<String> {
        self.count_restarts();
        let left = store_is_empty(|| number("NFileDescriptorStore") as usize);
        let complaints = self.complaint.take().into_iter().chain(left);
        // A sandbox that lacks something shows here.
        let warned = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
        let log = self.log();
        let warnings = log.lines().filter(warned).map(str::to_owned);
        complaints.chain(warnings).collect()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(LOG).unwrap_or_default()
    }
}
