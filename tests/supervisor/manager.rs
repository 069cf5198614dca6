//! The thread that starts lives, hears them, keeps their fds and sees them end.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use command_fds::{CommandFdExt, FdMapping};
use parkd::core::time::MonoNs;
use parkd::host::clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::notices::{Notice, Notices};
use super::store::{Store, duplicate};
use super::{Seen, Unit};
use crate::support::Folder;

/// The name of the listening socket among the fds of a life.
const LISTEN: &str = "listen";

/// The first fd that a life is passed.
const FIRST_FD: i32 = 3;

/// Connections that may wait for a life to take them: as many as the kernel lets.
const BACKLOG: i32 = i32::MAX;

/// Has the shell's number, which is that of what it becomes, be the one that is told.
const BECOME: &str = "export LISTEN_PID=$$; exec \"$@\"";

/// One run of the program.
#[derive(Debug, Default)]
pub struct Life {
    /// From 1; 0 before the first.
    pub number: u32,
    /// Its process, while it runs.
    pub pid: Option<Pid>,
    /// Whether it has said READY=1.
    pub ready: bool,
    /// Whether somebody asked it to end.
    pub asked: bool,
}

/// What the manager and the supervisor's owner both look at.
#[derive(Debug)]
pub struct State {
    /// The life that runs, or the last.
    pub life: Life,
    /// When each life ended.
    pub ends: Vec<(u32, MonoNs)>,
    /// The fd store.
    pub store: Store,
    /// For the owner.
    pub seen: Seen,
    quit: bool,
}

/// The state, and the means to wait for it to change.
#[derive(Debug)]
pub struct Watched {
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the manager.
    bell: OwnedFd,
}

impl Watched {
    /// Nothing has begun.
    pub fn new() -> Watched {
        let state = State {
            life: Life::default(),
            ends: Vec::new(),
            store: Store::new(0),
            seen: Seen::default(),
            quit: false,
        };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.expect("an eventfd");
        Watched { state: Mutex::new(state), changed: Condvar::new(), bell }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a manager that has not panicked")
    }

    /// Looks at the state.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state())
    }

    /// Looks at the state whenever it changes, until there is something to see or `end` comes.
    pub fn wait<T>(
        &self,
        end: Instant,
        look: &mut impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(seen) = look(&mut state) {
                return Some(seen);
            }
            let left = end.checked_duration_since(Instant::now())?;
            let woken = self.changed.wait_timeout(state, left);
            state = woken.expect("a manager that has not panicked").0;
        }
    }

    /// Has the manager end, and the service with it.
    pub fn quit(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.quit = true;
        }
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).expect("a write to an eventfd");
    }
}

/// What a sleep ended for.
struct Woken {
    /// The life has ended: whatever it said can be heard, and is heard first.
    ended: bool,
    /// Fds of the store that have hung up.
    hung_up: Vec<Arc<OwnedFd>>,
}

/// The child of a life.
struct Running {
    child: Child,
    pidfd: OwnedFd,
}

/// See the file's head.
pub struct Manager {
    unit: Unit,
    folder: Arc<Folder>,
    watched: Arc<Watched>,
    notices: Notices,
    listener: Option<OwnedFd>,
    log: File,
    running: Option<Running>,
    /// When the next life begins, while none runs.
    next: Instant,
}

/// Where lives log.
pub fn log(folder: &Folder) -> PathBuf {
    folder.file("service.log")
}

impl Manager {
    /// A manager that has yet to start the first life; its socket listens.
    pub fn new(folder: &Arc<Folder>, unit: Unit, watched: Arc<Watched>) -> Manager {
        watched.state().store = Store::new(unit.store_max);
        let log = OpenOptions::new().create(true).append(true).open(log(folder));
        let listener = unit.speaks.then(|| listening(folder));
        let folder = folder.clone();
        let notices = Notices::bind(&folder.file("notify"));
        let log = log.expect("a log");
        let (running, next) = (None, Instant::now());
        Manager { unit, folder, watched, notices, listener, log, running, next }
    }

    /// Keeps the service running until it is told to quit.
    pub fn run(mut self) {
        while !self.watched.state().quit {
            if self.running.is_none() && Instant::now() >= self.next {
                self.begin();
            }
            let woken = self.sleep();
            while let Some(notice) = self.notices.take() {
                self.hear(notice);
            }
            if woken.ended {
                self.bury();
            }
            let store = &mut self.watched.state().store;
            woken.hung_up.iter().for_each(|fd| store.hung_up(fd));
            self.watched.changed.notify_all();
        }
        if let Some(mut running) = self.running.take() {
            running.child.kill().expect("SIGKILL to a child");
            running.child.wait().expect("the child's end");
        }
    }

    /// Starts the next life.
    fn begin(&mut self) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", BECOME, "sh"]).args(&self.unit.command).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(self.log.try_clone().expect("a copy of an fd"));
        if let Some(listener) = &self.listener {
            // systemd's way where the unit does not say NonBlocking=.
            rustix::io::ioctl_fionbio(listener, false).expect("a blocking listener");
            let stored = self.watched.state().store.copies();
            let first = [(LISTEN.to_owned(), duplicate(listener))];
            let (names, fds): (Vec<_>, Vec<_>) = first.into_iter().chain(stored).unzip();
            command.env("NOTIFY_SOCKET", self.folder.file("notify"));
            command.env("LISTEN_FDS", fds.len().to_string());
            command.env("LISTEN_FDNAMES", names.join(":"));
            let mapped = (FIRST_FD..).zip(fds);
            let mapped = mapped.map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
            command.fd_mappings(mapped.collect()).expect("every fd in its own place");
        }
        let child = command.spawn().expect("the service's program");
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd of a child");
        self.running = Some(Running { child, pidfd });
        let state = &mut *self.watched.state();
        let number = state.life.number + 1;
        state.life = Life { number, pid: Some(pid), ready: !self.unit.speaks, asked: false };
        state.seen.lives = number;
        self.watched.changed.notify_all();
    }

    /// Sleeps until there is something to do.
    fn sleep(&self) -> Woken {
        let left = match &self.running {
            Some(_) => None,
            None => Some(self.next.saturating_duration_since(Instant::now())),
        };
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let stored = self.watched.state().store.fds();
        let mut fds = vec![PollFd::new(&self.watched.bell, PollFlags::IN)];
        fds.push(PollFd::new(&self.notices, PollFlags::IN));
        fds.extend(self.running.iter().map(|life| PollFd::new(&life.pidfd, PollFlags::IN)));
        let life = fds.len() - usize::from(self.running.is_some())..fds.len();
        // That an fd hung up is told unasked.
        fds.extend(stored.iter().map(|fd| PollFd::new(&**fd, PollFlags::empty())));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
        let over = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let hung_up = stored.iter().zip(&fds[life.end..]).filter(|(_, fd)| over(fd));
        let hung_up = hung_up.map(|(fd, _)| fd.clone()).collect();
        Woken { ended: fds[life].iter().any(|fd| !fd.revents().is_empty()), hung_up }
    }

    /// Takes in what a life says.
    fn hear(&mut self, notice: Result<Notice, String>) {
        let state = &mut *self.watched.state();
        let complaints = match notice {
            Err(wrong) => vec![wrong],
            Ok(notice) if notice.pid.is_none() || notice.pid != state.life.pid => {
                vec![format!("{:?}: from {:?}, not the main process", notice.lines, notice.pid)]
            }
            Ok(notice) => heard(state, notice),
        };
        state.seen.complaints.extend(complaints);
    }

    /// The life has ended.
    fn bury(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let state = &mut *self.watched.state();
        let status = running.child.wait().expect("the child's end");
        self.next = Instant::now() + self.unit.pause;
        state.life.pid = None;
        state.ends.push((state.life.number, clock::now()));
        if !state.life.asked {
            state.seen.fell.push((state.life.number, status));
        }
    }
}

/// Does what a message of the main process says; answers what is to be complained of.
fn heard(state: &mut State, notice: Notice) -> Vec<String> {
    let mut complaints = Vec::new();
    if notice.says("BARRIER=1") {
        // Who sent it waits for the fd to be closed here, behind all that was sent before.
        if notice.lines.len() > 1 {
            complaints.push(format!("{:?}: more than a barrier", notice.lines));
        } else if notice.fds.len() != 1 {
            complaints.push(format!("a barrier of {} fds", notice.fds.len()));
        }
        return complaints;
    }
    state.life.ready |= notice.says("READY=1");
    state.seen.watchdogs += u64::from(notice.says("WATCHDOG=1"));
    if let Some(status) = notice.value("STATUS") {
        state.seen.status = status.to_owned();
    }
    if notice.says("FDSTOREREMOVE=1") {
        match notice.value("FDNAME") {
            Some(name) => state.store.remove(name),
            None => complaints.push("FDSTOREREMOVE=1 without FDNAME=".to_owned()),
        }
    }
    if notice.says("FDSTORE=1") {
        let name = notice.value("FDNAME").map(str::to_owned);
        complaints.extend(state.store.add(name.as_deref(), notice.fds));
    }
    complaints
}

/// The unit's socket.
fn listening(folder: &Folder) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.expect("a socket");
    let path = folder.socket();
    let address = SocketAddrUnix::new(&path).expect("a short path");
    bind(&socket, &address).expect("a path to bind to");
    chmod(&path, Mode::from_raw_mode(0o660)).expect("chmod");
    listen(socket.as_fd(), BACKLOG).expect("listen");
    socket
}
