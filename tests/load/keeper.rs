//! Who keeps the daemon running: what a run kills it through.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::idle;
use crate::supervisor::{Kill, Supervisor, Unit};
use crate::support::{EXECUTORS, Executor, Folder, PATIENCE};

/// Something that starts the daemon anew, however it ends.
pub trait Keeper {
    /// Where clients connect.
    fn socket(&self) -> PathBuf;
    /// Whether it keeps the daemon's fds.
    fn has_store(&self) -> bool;
    /// Waits until the life of this number, or a later one, serves.
    fn ready(&self, life: u32);
    /// Kills the life that runs, or the next as soon as it has begun.
    fn kill(&self) -> Kill;
    /// Asks it to end in order.
    fn restart(&self) -> Kill;
    /// What was wrong at the daemon's side, or is left there now that its clients have gone.
    fn left_alone(&self) -> Vec<String>;
    /// What the daemon has logged.
    fn log(&self) -> String;
}

/// Waits until the store holds nothing but the status page; or answers what else.
pub fn store_is_empty(fds: impl Fn() -> usize) -> Option<String> {
    let end = Instant::now() + PATIENCE;
    while fds() > 1 {
        if Instant::now() > end {
            return Some(format!("{} fds are left in the store", fds()));
        }
        idle(Duration::from_millis(1));
    }
    None
}

/// Fds of the store at most: far more than a run needs.
const STORE_MAX: usize = 4096;

/// The executor of this name, as a command line has it.
pub fn executor(name: &str) -> Result<Executor, String> {
    let found = EXECUTORS.into_iter().find(|executor| executor.name == name);
    found.ok_or_else(|| EXECUTORS.map(|executor| executor.name).join(", "))
}

/// A supervisor of a real daemon: with an fd store, or without any word between the two.
pub fn supervised(folder: &Arc<Folder>, store: bool, executor: &Executor) -> Supervisor {
    let file = folder.file("parkd.toml");
    let (socket, name) = (folder.socket(), executor.name);
    // A storm of connections is part of the load, and not to be told of its rate.
    let config = format!(
        "[daemon]\nsocket = {socket:?}\nexecutor = {name:?}\nstrict = true\n\
         [limits]\nconnects_per_second = 1000000\n"
    );
    std::fs::write(&file, config).expect("a configuration");
    let file = file.to_str().expect("a path in UTF-8");
    let command = [env!("CARGO_BIN_EXE_parkd"), "serve", "--config", file];
    let command = command.map(str::to_owned).to_vec();
    let pause = Duration::from_millis(1);
    let unit = Unit { command, store_max: STORE_MAX, speaks: store, pause };
    Supervisor::start(folder, unit)
}

impl Keeper for Supervisor {
    fn socket(&self) -> PathBuf {
        Supervisor::socket(self)
    }

    fn has_store(&self) -> bool {
        self.unit().speaks
    }

    fn ready(&self, life: u32) {
        Supervisor::ready(self, life);
    }

    fn kill(&self) -> Kill {
        Supervisor::kill(self)
    }

    fn restart(&self) -> Kill {
        Supervisor::restart(self)
    }

    fn left_alone(&self) -> Vec<String> {
        let left = store_is_empty(|| self.stored().len());
        let seen = self.seen();
        let fell = seen.fell.iter().map(|(life, how)| format!("life {life} fell: {how}"));
        fell.chain(seen.complaints).chain(left).collect()
    }

    fn log(&self) -> String {
        Supervisor::log(self)
    }
}
