//! The load from its parent's side: the device and the client processes, from start to report.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use clap::ValueEnum;

use super::client::Way;
use super::counts::Counts;
use crate::support::{Folder, PATIENCE, until};

/// The device's process.
#[derive(Debug)]
pub struct Device {
    child: Child,
    folder: Arc<Folder>,
}

impl Device {
    /// Starts one.
    pub fn start() -> Device {
        let folder = Folder::new();
        let socket = folder.socket();
        let mut command = Command::new(env!("CARGO_BIN_EXE_parkd-soft"));
        command.arg("--socket").arg(&socket).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the device's program");
        let stdout = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the device's word");
        assert_eq!(line, "ready\n");
        Device { child, folder }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.socket()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A client process.
#[derive(Debug)]
pub struct Client {
    way: Way,
    child: Child,
    /// The lines that it says.
    lines: Receiver<String>,
    /// What it said in place of its readiness: its report.
    said: Option<String>,
}

impl Client {
    /// Starts one.
    pub fn start(way: Way, socket: &Path, device: &Device, seed: u64) -> Client {
        let name = way.to_possible_value().expect("a name");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["client", "--way", name.get_name(), "--socket"]).arg(socket);
        command.arg("--device").arg(device.socket()).args(["--seed", &seed.to_string()]);
        command.args(["--parent", &std::process::id().to_string()]);
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let mut child = command.stdin(input).stdout(output).spawn().expect("a client process");
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Client { way, child, lines, said: None }
    }

    /// Waits until it works; false if it has failed before.
    pub fn ready(&mut self) -> bool {
        self.said = self.lines.recv_timeout(PATIENCE).ok().filter(|line| line != "ready");
        self.said.is_none()
    }

    /// Has it see its last tickets out.
    pub fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Kills it.
    pub fn kill(mut self) {
        end(&mut self.child);
    }

    /// What it counted, once it was told to stop.
    pub fn report(mut self) -> Counts {
        // It waits for its last tickets, and then for what the session still owes.
        let report = self.said.take().or_else(|| self.lines.recv_timeout(3 * PATIENCE).ok());
        let report = report.and_then(|line| serde_json::from_str(&line).ok());
        let ended = if report.is_some() { self.ended() } else { None };
        end(&mut self.child);
        report.filter(|_| ended.is_some_and(|status| status.success())).unwrap_or_else(|| {
            let mut counts = Counts::default();
            counts.error(format_args!("a client ({:?}) ended without a report", self.way));
            counts
        })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        Some(until("the client's end", || self.child.try_wait().expect("the client's state")))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Whatever has become of it so far.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
