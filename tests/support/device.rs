//! A software device of its own process, ended with its handle.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parkd::soft::READY;

/// `parkd-soft`, listening.
pub struct Device(pub Child);

impl Device {
    /// Starts one, and waits for the line with which it says that it listens.
    pub fn start(socket: &Path) -> Device {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parkd-soft"))
            .arg("--socket")
            .arg(socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        let device = Device(child);
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), READY);
        device
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
