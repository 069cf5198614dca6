//! The demo's children: how they are started, heard, and ended.
//!
//! A *member* is one child; it talks in lines on its stdout. What always holds: members are killed
//! and reaped by their pid when the family is dropped; a parent that dies first takes them along
//! (PR_SET_PDEATHSIG); a member that ends before it was excused is an error that names it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, set_parent_process_death_signal};

use super::error::DemoError;
use crate::core::time::MonoNs;
use crate::host::clock;
use crate::host::signals::Signals;

/// Which member, in the order they were started.
pub(super) type MemberId = usize;

/// Bytes of a member's line at most: a report with every bucket of its histogram.
const LINE_BYTES_MAX: usize = 8 << 20;
/// Bytes of a member's last words that are shown.
const LAST_WORDS_BYTES: usize = 2000;

struct Member {
    name: String,
    child: Child,
    heard: Vec<u8>,
    /// Where its stderr goes, if not to the parent's.
    log: Option<PathBuf>,
    /// Readable once the child has ended.
    pidfd: OwnedFd,
    ended: Option<ExitStatus>,
    excused: bool,
}

/// The children of a demo. See the file's head.
pub(super) struct Family<'a> {
    executable: &'a Path,
    members: Vec<Member>,
    signals: &'a mut Signals,
}

impl<'a> Family<'a> {
    /// Children of this process, each a part of `executable`.
    pub(super) fn new(executable: &'a Path, signals: &'a mut Signals) -> Family<'a> {
        Family { executable, members: Vec::new(), signals }
    }

    /// Starts a part. Its stderr goes to the file `log`, or to the parent's.
    pub(super) fn start(
        &mut self,
        name: String,
        part: &[&str],
        log: Option<PathBuf>,
    ) -> Result<MemberId, DemoError> {
        let failed = |error| DemoError::io(format!("start of {name}"), error);
        let mut command = Command::new(self.executable);
        command.args(["demo-part", "--parent", &std::process::id().to_string()]).args(part);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(log) = &log {
            command.stderr(File::create(log).map_err(failed)?);
        }
        let mut child = command.spawn().map_err(failed)?;
        let pidfd = match watch(&child) {
            Ok(pidfd) => pidfd,
            Err(errno) => {
                // Not a member yet, so nobody else would end it.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(failed(errno.into()));
            }
        };
        let heard = Vec::new();
        self.members.push(Member { name, child, heard, log, pidfd, ended: None, excused: false });
        Ok(self.members.len() - 1)
    }

    /// The member's process.
    pub(super) fn pid(&self, id: MemberId) -> u32 {
        self.members[id].child.id()
    }

    /// The member's name, for texts.
    pub(super) fn name(&self, id: MemberId) -> &str {
        &self.members[id].name
    }

    /// Lets the member end from here on.
    pub(super) fn excuse(&mut self, id: MemberId) {
        self.members[id].excused = true;
    }

    /// Says a line to the member.
    pub(super) fn tell(&mut self, id: MemberId, line: &str) -> Result<(), DemoError> {
        let member = &mut self.members[id];
        let Some(stdin) = &mut member.child.stdin else { return Ok(()) };
        let told = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        told.map_err(|error| DemoError::io(format!("pipe to {}", member.name), error))
    }

    /// The next line of any member; none when `until` has passed.
    pub(super) fn hear(&mut self, until: MonoNs) -> Result<Option<(MemberId, String)>, DemoError> {
        loop {
            for id in 0..self.members.len() {
                if let Some(line) = self.members[id].line() {
                    return Ok(Some((id, line)));
                }
                self.members[id].check()?;
            }
            if self.signals.take().is_some() {
                return Err(DemoError::Interrupted);
            }
            if !self.sleep(until)? {
                return Ok(None);
            }
        }
    }

    /// Which member died, if one does until `until`: asked once another says that it failed, which
    /// may be known earlier than the death that it failed of.
    pub(super) fn death(&mut self, until: MonoNs) -> Result<Option<DemoError>, DemoError> {
        loop {
            let killed = |member: &&Member| member.ended.is_some_and(|status| !status.success());
            if let Some(member) = self.members.iter().find(killed) {
                return Ok(member.check().err());
            }
            if !self.sleep(until)? {
                return Ok(None);
            }
        }
    }

    /// Sleeps until something can be heard, and reads it; false when `until` has passed.
    fn sleep(&mut self, until: MonoNs) -> Result<bool, DemoError> {
        let left = until.since(clock::now()).0;
        let left = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as _,
        };
        let mut fds = vec![PollFd::new(&*self.signals, PollFlags::IN)];
        for member in self.members.iter().filter(|member| member.ended.is_none()) {
            fds.push(PollFd::new(&member.pidfd, PollFlags::IN));
            fds.extend(member.child.stdout.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        }
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(DemoError::io("poll", errno)),
        }
        self.members.iter_mut().try_for_each(Member::read)?;
        Ok(true)
    }
}

impl Drop for Family<'_> {
    fn drop(&mut self) {
        for member in &mut self.members {
            // Gone already: that is what is wanted.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

impl Member {
    /// Takes in what can be read now, and whether the child has ended. What it said before its
    /// end has been read when the end is known.
    fn read(&mut self) -> Result<(), DemoError> {
        if self.ended.is_some() {
            return Ok(());
        }
        let failed = |error| DemoError::io(format!("pipe from {}", self.name), error);
        self.ended = self.child.try_wait().map_err(failed)?;
        let Some(pipe) = &mut self.child.stdout else { return Ok(()) };
        let mut bytes = [0; 16 << 10];
        loop {
            match pipe.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => self.heard.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
            if self.heard.len() > LINE_BYTES_MAX {
                let what = format!("a line of more than {LINE_BYTES_MAX} bytes");
                return Err(DemoError::Child { child: self.name.clone(), what });
            }
        }
        Ok(())
    }

    fn line(&mut self) -> Option<String> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// An error where the member has ended and was not excused.
    fn check(&self) -> Result<(), DemoError> {
        let Some(status) = self.ended.filter(|_| !self.excused) else { return Ok(()) };
        let how = format!("{status}{}", self.log.as_deref().map_or_else(String::new, last_words));
        Err(DemoError::Died { child: self.name.clone(), how })
    }
}

/// A pidfd of the child; its stdout no longer blocks.
fn watch(child: &Child) -> rustix::io::Result<OwnedFd> {
    if let Some(pipe) = &child.stdout {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}

/// The end of a log, set off by a line break.
fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = text.len().saturating_sub(LAST_WORDS_BYTES);
    format!("\n{}", String::from_utf8_lossy(&text[from..]).trim_end())
}

/// Has this process end with its parent, whose pid is `parent`.
pub(super) fn end_with(parent: i32) -> Result<(), DemoError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| DemoError::io("PR_SET_PDEATHSIG", errno))?;
    // It may have gone before the kernel was told.
    if getppid() != Pid::from_raw(parent) {
        return Err(DemoError::io(
            "parent",
            io::Error::other(format!("process {parent} has gone")),
        ));
    }
    Ok(())
}

/// Replaces this process by the daemon; comes back only with an error. That it ends with its
/// parent stays.
pub(super) fn become_daemon(config: &Path) -> DemoError {
    match std::env::current_exe() {
        Ok(executable) => {
            let mut daemon = Command::new(executable);
            daemon.args(["serve", "--config"]).arg(config);
            // What started the demo waits for nothing from a daemon.
            for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM", "LISTEN_FDS"] {
                daemon.env_remove(name);
            }
            DemoError::io("exec of the daemon", daemon.exec())
        }
        Err(error) => DemoError::io("exec of the daemon", error),
    }
}
