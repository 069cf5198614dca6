//! A small service manager that speaks systemd's protocol to the daemon that it starts.
//!
//! A *life* is one run of the daemon's program. Each gets the same listening socket (`listen`) and
//! whatever is in the *store*: fds that earlier lives sent with FDSTORE=1 and did not take back.
//! However a life ends, the next begins a moment later, until the supervisor goes. What systemd 252
//! does with a unit of `Type=notify`, `NotifyAccess=main`, `FileDescriptorStoreMax=` and
//! `Restart=always` is done here in its order: messages before the death of who sent them.

mod manager;
mod notices;
mod store;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parkd::core::time::MonoNs;
use parkd::host::clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Folder, PATIENCE};
use manager::{Manager, State, Watched};

/// Lines of the service's log that are shown where a test fails.
const LAST_LINES: usize = 60;

/// The unit: what to run, and how.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// `FileDescriptorStoreMax=`.
    pub store_max: usize,
    /// Whether the socket is passed, and messages are heard; a life is ready when it was begun
    /// where they are not.
    pub speaks: bool,
    /// `RestartSec=`.
    pub pause: Duration,
}

/// How a life ended that was killed.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Just before the signal.
    pub sent: MonoNs,
    /// Once the process was no more: what is later than this is the next life's.
    pub dead: MonoNs,
    /// Which life it was, from 1.
    pub life: u32,
}

/// What the supervisor has seen so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Lives begun.
    pub lives: u32,
    /// Lives that ended by something else than [`Supervisor::kill`] or [`Supervisor::restart`].
    pub fell: Vec<(u32, ExitStatus)>,
    /// The last STATUS=.
    pub status: String,
    /// WATCHDOG=1 messages.
    pub watchdogs: u64,
    /// What systemd would have complained of.
    pub complaints: Vec<String>,
}

/// A running service, and who keeps it running. Ends with its service.
#[derive(Debug)]
pub struct Supervisor {
    watched: Arc<Watched>,
    manager: Option<JoinHandle<()>>,
    folder: Arc<Folder>,
    unit: Unit,
}

impl Supervisor {
    /// Starts the unit's first life. Its socket and its log are in `folder`.
    pub fn start(folder: &Arc<Folder>, unit: Unit) -> Supervisor {
        let watched = Arc::new(Watched::new());
        let manager = Manager::new(folder, unit.clone(), watched.clone());
        let manager = std::thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(move || manager.run())
            .expect("a thread");
        Supervisor { watched, manager: Some(manager), folder: folder.clone(), unit }
    }

    /// What it runs.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Where clients connect.
    pub fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// Waits until the life of this number, or a later one, has said READY=1.
    pub fn ready(&self, life: u32) {
        self.wait(&format!("READY=1 of life {life}"), |state| {
            (state.life.number >= life && state.life.ready).then_some(())
        });
    }

    /// Whether the life of this number, or a later one, has said READY=1.
    pub fn is_ready(&self, life: u32) -> bool {
        self.watched.look(|state| state.life.number >= life && state.life.ready)
    }

    /// Waits until a life of this number, or a later one, has begun.
    pub fn begun(&self, life: u32) {
        self.wait(&format!("life {life}"), |state| {
            (state.life.number >= life && state.life.pid.is_some()).then_some(())
        });
    }

    /// The life that runs, or is next to.
    pub fn life(&self) -> u32 {
        self.watched.look(|state| state.life.number + u32::from(state.life.pid.is_none()))
    }

    /// The process of the life that runs.
    pub fn pid(&self) -> Pid {
        self.wait("a life", |state| state.life.pid)
    }

    /// Kills the life that runs, or the next as soon as it has begun, and waits for its end.
    pub fn kill(&self) -> Kill {
        self.end(Signal::KILL)
    }

    /// Asks the life that runs to end in order, as `systemctl restart` does, and waits for that.
    pub fn restart(&self) -> Kill {
        self.end(Signal::TERM)
    }

    fn end(&self, signal: Signal) -> Kill {
        let (life, sent) = self.wait("a life to end", |state| {
            let pid = state.life.pid?;
            state.life.asked = true;
            let sent = clock::now();
            // Under the lock it cannot have been waited for, so the number is still its own.
            kill_process(pid, signal).expect("a signal to the service");
            Some((state.life.number, sent))
        });
        let dead = self.wait("the end of a life", |state| {
            state.ends.iter().find(|(number, _)| *number == life).map(|(_, dead)| *dead)
        });
        Kill { sent, dead, life }
    }

    /// The names and fds that are in the store now, in the order in which a life gets them.
    pub fn stored(&self) -> Vec<(String, OwnedFd)> {
        self.watched.look(|state| state.store.copies())
    }

    /// What has been seen so far.
    pub fn seen(&self) -> Seen {
        self.watched.look(|state| state.seen.clone())
    }

    /// What all lives have logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(manager::log(&self.folder)).unwrap_or_default()
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        let seen = self.watched.wait(end, &mut look);
        seen.unwrap_or_else(|| panic!("{what}: not within {PATIENCE:?}"))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.watched.quit();
        if let Some(manager) = self.manager.take() {
            // What it panicked with was printed already.
            let _ = manager.join();
        }
        if std::thread::panicking() {
            let (seen, log) = (self.seen(), self.log());
            let lines: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
            eprintln!("{seen:?}\n--- the service's log, last line first\n{}", lines.join("\n"));
        }
    }
}
