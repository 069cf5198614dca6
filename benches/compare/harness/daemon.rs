//! The daemons under test: one for each configuration, started when it is first needed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parkd::client::Control;
use parkd::core::error::ErrorCode;
use parkd::daemon::boot::{BootNote, Known};
use serde_json::Value;

use super::settings::{self, Change};
use super::{Doing, Result};

/// The program, where this one was built beside it.
const PARKD: Option<&str> = option_env!("CARGO_BIN_EXE_parkd");

/// How long a daemon may take to listen: it may have to try something that is tried once a boot.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon; it ends with its value, and with this process.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    control: Control,
}

impl Daemon {
    /// Starts one with these changes to the shipped configuration, in a folder of its own. What is
    /// known of this boot's futexes need not be found out again; else it is, before this returns.
    pub fn start(folder: &Path, changes: &[Change], known: Option<&Known>) -> Result<Daemon> {
        let (file, socket) = (folder.join("parkd.toml"), folder.join("socket"));
        std::fs::create_dir_all(folder).doing("folder")?;
        let note = BootNote::beside(&socket).doing("this boot")?;
        known.map_or(Ok(()), |known| note.write(known)).doing("boot note")?;
        std::fs::write(&file, settings::config(&socket, changes)?).doing("configuration")?;
        let log = folder.join("log");
        let mut child = Command::new(program()?)
            .args(["demo-part", "--parent", &std::process::id().to_string(), "daemon", "--config"])
            .arg(&file)
            .env_remove("PARKD_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).doing("log")?)
            .spawn()
            .doing("parkd")?;
        match reach(&mut child, &socket) {
            Ok(control) => {
                let daemon = Daemon { child, socket, control };
                daemon.settle(&note)?;
                Ok(daemon)
            }
            Err(why) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(format!("{why}\n{}", std::fs::read_to_string(&log).unwrap_or_default()))
            }
        }
    }

    /// Why a configuration with these changes cannot be had, where it cannot.
    pub fn refuses(folder: &Path, changes: &[Change]) -> Result<Option<String>> {
        let file = folder.join("try.toml");
        std::fs::write(&file, settings::config(&folder.join("socket"), changes)?)
            .doing("configuration")?;
        let mut program = Command::new(program()?);
        let tried = program.arg("check-config").arg(&file).output().doing("parkd")?;
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("refused");
        let file = file.to_string_lossy().into_owned();
        Ok((!tried.status.success()).then(|| line.replace(&file, "parkd.toml").trim().to_owned()))
    }

    /// Waits until it has tried what is tried once a boot.
    fn settle(&self, note: &BootNote) -> Result<()> {
        let status = self.status()?;
        let tries = status["executor"] == "io-uring" && status["bell"] == "futex";
        let end = Instant::now() + PATIENCE;
        while tries && note.read().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// What it knows of this boot's futexes.
    fn known(&self) -> Option<Known> {
        BootNote::beside(&self.socket).ok()?.read()
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its STATUS.
    pub fn status(&self) -> Result<Value> {
        serde_json::from_str(&self.control.status().doing("STATUS")?).doing("STATUS")
    }

    /// The CPU that its FILL is pinned to, where it is.
    pub fn cpu(&self) -> Result<Option<u32>> {
        Ok(self.count("/cpu")?.and_then(|cpu| u32::try_from(cpu).ok()))
    }

    /// A number of its STATUS, where it has it.
    pub fn count(&self, pointer: &str) -> Result<Option<u64>> {
        Ok(self.status()?.pointer(pointer).and_then(Value::as_u64))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Result<&'static str> {
    PARKD.ok_or_else(|| "parkd was not built with this program".into())
}

fn reach(child: &mut Child, socket: &Path) -> Result<Control> {
    let end = Instant::now() + PATIENCE;
    loop {
        match Control::connect_to(socket) {
            Err(error) if error.code == ErrorCode::SocketUnavailable => {}
            reached => return reached.doing("daemon"),
        }
        if let Some(status) = child.try_wait().doing("daemon")? {
            return Err(format!("the daemon ended: {status}"));
        }
        if Instant::now() > end {
            return Err(format!("the daemon does not listen within {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The daemons that run.
#[derive(Debug)]
pub struct Daemons {
    folder: PathBuf,
    running: Vec<(&'static [Change], Daemon)>,
    started: u32,
    known: Option<Known>,
}

impl Daemons {
    /// None yet; they live in folders of this one.
    pub fn new(folder: &Path) -> Daemons {
        Daemons { folder: folder.to_owned(), running: Vec::new(), started: 0, known: None }
    }

    /// The daemon with these changes.
    pub fn with(&mut self, changes: &'static [Change]) -> Result<&Daemon> {
        let at = self.running.iter().position(|(of, _)| *of == changes);
        let at = match at {
            Some(at) => at,
            None => {
                self.started += 1;
                let folder = self.folder.join(self.started.to_string());
                let daemon = Daemon::start(&folder, changes, self.known.as_ref())?;
                self.known = daemon.known();
                self.running.push((changes, daemon));
                self.running.len() - 1
            }
        };
        Ok(&self.running[at].1)
    }

    /// Ends the daemon with these changes.
    pub fn end(&mut self, changes: &'static [Change]) {
        self.running.retain(|(of, _)| *of != changes);
    }
}
