//! The demo's parent: the phases in turn, and what they add up to.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::DemoArgs;
use super::error::DemoError;
use super::phase::{self, STEPS, Setting};
use super::report::{Phase, Record};
use super::table;
use super::waiting::Way;
use super::workload::Workload;
use crate::host::clock;
use crate::host::signals::Signals;

/// The ways of waiting, in turn; the daemon's first.
const WAYS: [Way; 3] = [Way::Parkd, Way::Spin, Way::Poll];

/// Runs the demo. False where anything was lost, duplicated or early, in any way of waiting.
pub(super) fn run(args: &DemoArgs) -> Result<bool, DemoError> {
    let mut signals = Signals::block(&[libc::SIGINT, libc::SIGTERM])
        .map_err(|error| DemoError::io("signals", error))?;
    let folder = Folder::new()?;
    let executable =
        std::env::current_exe().map_err(|error| DemoError::io("this executable", error))?;
    let bar = bar(args.seconds * STEPS * WAYS.len() as u64);
    let mut phases = Vec::new();
    let mut label = None;
    for way in WAYS {
        bar.set_message(way.name());
        let setting = Setting {
            executable: &executable,
            way,
            executor: args.executor.as_deref(),
            workload: Workload::Mixed,
            clients: args.clients,
            seconds: args.seconds,
            folder: folder.path(),
            bar: &bar,
        };
        let (phase, executor) = phase::run(&setting, &mut signals)?;
        label = label.or(executor);
        phases.push((way.name(), phase));
    }
    bar.finish_and_clear();
    let clean = phases.iter().all(|(name, phase)| is_clean(name, phase));
    let Some(((_, parkd), baselines)) = phases.split_first() else { return Ok(clean) };
    let record = Record::new(label.unwrap_or_default(), args.clients, parkd, baselines);
    let text = match args.json {
        true => serde_json::to_string(&record)
            .map_err(|error| DemoError::io("record", io::Error::from(error)))?,
        false => table::of(&record, args.seconds),
    };
    writeln!(io::stdout(), "{text}").map_err(|error| DemoError::io("stdout", error))?;
    Ok(clean)
}

/// Whether every ticket of a phase got its one result at its time; says so on stderr if not.
fn is_clean(name: &str, phase: &Phase) -> bool {
    let clean = phase.counts.is_clean();
    if !clean {
        eprintln!("parkd demo: {name}: {:?}", phase.counts);
    }
    clean
}

/// A bar on stderr; nothing where that is no terminal.
fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg:10} {wide_bar} {percent:>3} %") {
        bar.set_style(style);
    }
    bar
}

/// A folder for sockets and files, for this user alone; it goes with its value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one among the temporary files.
    ///
    /// # Errors
    /// Where that cannot be done.
    pub fn new() -> Result<Folder, DemoError> {
        // The process and the time make the name unlikely to be taken; a taken one is refused.
        let name = format!("parkd-demo-{}-{:x}", std::process::id(), clock::now().0);
        let path = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| DemoError::io(path.to_string_lossy(), error))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind in the temporary folder harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
