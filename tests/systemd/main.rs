//! The units, and the daemon under systemd as process 1: kills are a pause there too.
//!
//! A *box* is systemd in namespaces of its own (`tests/systemd/box`). The load runs inside: this
//! program is started again there.

#[path = "../load/mod.rs"]
pub mod load;
#[path = "../supervisor/mod.rs"]
pub mod supervisor;
#[path = "../support/mod.rs"]
pub mod support;

mod keeper;
mod units;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use clap::Args;
use keeper::Systemd;
use load::kills::Orders;
use support::{Folder, skipped, until};

/// Kills that every change has to pass.
const SHORT: u32 = 20;

/// The exit status of a box that cannot be made here.
const NOT_HERE: i32 = 77;

/// What a run is told.
#[derive(Args, Clone, Debug)]
struct Run {
    #[command(flatten)]
    orders: Orders,
    /// The box is around this process already.
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    load::program(
        run,
        vec![
            ("the_units_are_right_and_exposed_to_little", units::right_and_exposed_to_little),
            ("kills_under_systemd_are_a_pause", || {
                assert_ne!(
                    run(&Run { orders: Orders::new(SHORT), inside: false }),
                    ExitCode::FAILURE
                );
            }),
        ],
    )
}

/// The status of a run that this machine does not let be made, so that nobody takes it for one that
/// has passed.
const SKIPPED: u8 = 77;

fn run(run: &Run) -> ExitCode {
    if run.inside {
        return run.orders.run(&Systemd::default());
    }
    match Made::new() {
        Ok(made) if made.run(&run.orders).success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            skipped(&why);
            ExitCode::from(SKIPPED)
        }
    }
}

/// A box.
struct Made {
    child: Child,
    /// Its process 1, seen from here.
    systemd: u32,
}

impl Made {
    /// Makes one; or says why none can be had here.
    fn new() -> Result<Made, String> {
        let folder = Folder::new();
        let (script, log) = (project("tests/systemd/box"), folder.file("box.log"));
        let out = fs::File::create(&log).expect("a log");
        let mut command = Command::new(script);
        command.arg(env!("CARGO_BIN_EXE_parkd")).stdin(Stdio::null());
        command.stdout(out.try_clone().expect("a copy of an fd")).stderr(out);
        let mut child = command.spawn().expect("bash");
        let log = || fs::read_to_string(&log).unwrap_or_default();
        let systemd = until("a box", || {
            if let Some(status) = child.try_wait().expect("the box's state") {
                let log = log();
                assert_eq!(status.code(), Some(NOT_HERE), "{log}");
                let why = log.lines().last().unwrap_or_default().to_owned();
                return Some(Err(why));
            }
            process_one(child.id()).map(Ok)
        });
        let made = Made { child, systemd: systemd? };
        until("the unit runs", || {
            let mut asked = made.enter();
            asked
                .args(["systemctl", "is-active", "--quiet", "parkd.service"])
                .stderr(Stdio::null());
            asked.status().expect("nsenter").success().then_some(())
        });
        Ok(made)
    }

    /// What is to run inside.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.systemd.to_string()]);
        command.args(["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--"]);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, orders: &Orders) -> ExitStatus {
        let mut command = self.enter();
        command.arg(std::env::current_exe().expect("this program"));
        command.args(["run", "--inside", "--kills", &orders.kills.to_string()]);
        command.args(orders.json.then_some("--json"));
        command.args(orders.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
        command.status().expect("nsenter")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What it started dies with it, all that is inside included.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process 1 of the box that `maker` makes, once it is systemd.
fn process_one(maker: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{maker}/task/{maker}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    (name.trim() == "systemd").then_some(child)
}

/// A file of this project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
