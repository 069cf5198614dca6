//! The configuration: what the operator says in one TOML file, checked whole before it is used.
//!
//! A *key* stands in a table and has a default, so that an empty file is a valid one. A *bound* is
//! what a key may be. Once a [`Config`] exists, every value in it is within its bound, every plan
//! was parsed and every name that one part uses of another exists; only what depends on the
//! machine (a CPU, a group) is left for `serve` to find out. Times are microseconds, as written.
//!
//! Where a key's default would contradict what the file says, the default gives way: `park_us =
//! 5000` alone is valid and takes `backstop_us` with it.

pub mod defaults;
mod mistake;
mod plans;
mod read;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::estimator::EstimatorKind;
use crate::proto::layout::BellKind;
use crate::proto::limits::CONFIG_BYTES_MAX;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `[daemon]`.
    pub daemon: Daemon,
    /// `[park]`.
    pub park: Park,
    /// `[predict]`.
    pub predict: Predict,
    /// `[plans]`, by name; always holds [`defaults::PLAN`].
    pub plans: BTreeMap<String, Bands>,
    /// `[limits]`.
    pub limits: Limits,
    /// `[allow]`.
    pub allow: Allow,
    /// `[[device]]`, in the order of the file: at least one, each of another name.
    pub devices: Vec<Device>,
}

/// `[daemon]`: where and how it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// The socket's absolute path.
    pub socket: PathBuf,
    /// The CPU of the FILL thread.
    pub cpu: Cpu,
    /// The executor asked for.
    pub executor: Executor,
    /// Refuse to start where that executor cannot run.
    pub strict: bool,
    /// Keep sessions over a restart with the service manager, where that has an fd store.
    pub fd_store: bool,
    /// How producers wake a parked daemon; `None` leaves it to the executor that runs.
    pub bell: Option<BellKind>,
}

/// The CPU of the FILL thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// The daemon chooses one that it may use.
    Auto,
    /// This one, 0..=1023.
    Number(u32),
}

/// What drives the FILL thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// One io_uring: bells, polls and the bounded park in one call.
    IoUring,
    /// epoll and the CPU's word park.
    GpuReactor,
    /// One thread that polls, bounded.
    Naive,
}

/// `[park]`: how FILL waits for what is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    /// Length of one park, in microseconds, 1..=10_000.
    pub park_us: u32,
    /// From one status query to the next, in microseconds, `park_us`..=1_000_000.
    pub backstop_us: u32,
    /// Looking without a pause, at most, in microseconds, 0..=10_000.
    pub spin_us: u32,
    /// Share of FILL's time for looking without a pause, 0..=100.
    pub spin_budget_percent: u32,
    /// When the client's CPU is asked to stay awake.
    pub pm_qos: PmQos,
}

/// When the daemon asks a CPU to stay out of its idle states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmQos {
    /// Around each foreseen completion.
    Hot,
    /// For as long as the daemon runs.
    Always,
    /// Never.
    Never,
}

impl PmQos {
    /// Every setting with its name in the file.
    pub const ALL: &'static [(&'static str, PmQos)] =
        &[("hot", PmQos::Hot), ("always", PmQos::Always), ("never", PmQos::Never)];
}

/// `[predict]`: how the end of a wait is foreseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predict {
    /// The rule.
    pub estimator: EstimatorKind,
    /// How much earlier than predicted a sleep ends, in microseconds.
    pub margin_us: u32,
    /// The shortest sleep, in microseconds.
    pub min_sleep_us: u32,
    /// The longest sleep, in microseconds, at least the shortest.
    pub max_sleep_us: u32,
    /// Samples that a prediction looks back on, 1..=16.
    pub window: u32,
    /// Percent of waits that may be found late, 1..=50.
    pub late_percent: u32,
}

/// `[limits]`: ceilings that the operator lowered, each at most that of [`crate::proto::limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connected sessions.
    pub sessions: u32,
    /// Outstanding tickets.
    pub tickets: u32,
    /// Tickets outstanding, with their unread results, of one session; entries of its rings.
    pub session_tickets: u32,
    /// Lanes of one session.
    pub session_lanes: u32,
    /// File descriptors that outstanding fd tickets of one session hold.
    pub session_fds: u32,
    /// Sessions of one uid.
    pub sessions_per_uid: u32,
    /// Outstanding tickets of one uid.
    pub tickets_per_uid: u32,
    /// Lanes of one uid.
    pub lanes_per_uid: u32,
    /// File descriptors that outstanding fd tickets of one uid hold.
    pub fds_per_uid: u32,
    /// Connections of one uid in a second.
    pub connects_per_second: u32,
    /// Tickets that one uid hands in in a second.
    pub submits_per_second: u32,
}

/// `[allow]`: who may connect, besides root and the daemon's own uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Users by number.
    pub uids: Vec<u32>,
    /// Groups by number.
    pub gids: Vec<u32>,
    /// Groups by name; the first that exists owns the socket.
    pub groups: Vec<String>,
}

/// `[[device]]`: what lanes are opened for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name in OPEN_LANE, at most 32 bytes.
    pub name: String,
    /// What it is: a label, for status and for people.
    pub kind: DeviceKind,
    /// How tickets on its lanes wait that name no plan.
    pub plan: Bands,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU driven through CUDA.
    Cuda,
    /// A GPU driven through HIP.
    Hip,
    /// A device driven through OpenCL.
    OpenCl,
    /// An FPGA.
    Fpga,
    /// A network card.
    Nic,
    /// A process on a CPU.
    Cpu,
    /// The software device that comes with parkd.
    Soft,
    /// None of these.
    Other,
}

impl Executor {
    /// Every executor with its name in the file.
    pub const ALL: &'static [(&'static str, Executor)] = &[
        ("io-uring", Executor::IoUring),
        ("gpu-reactor", Executor::GpuReactor),
        ("naive", Executor::Naive),
    ];
}

impl DeviceKind {
    /// Every kind with its name in the file.
    pub const ALL: &'static [(&'static str, DeviceKind)] = &[
        ("cuda", DeviceKind::Cuda),
        ("hip", DeviceKind::Hip),
        ("opencl", DeviceKind::OpenCl),
        ("fpga", DeviceKind::Fpga),
        ("nic", DeviceKind::Nic),
        ("cpu", DeviceKind::Cpu),
        ("soft", DeviceKind::Soft),
        ("other", DeviceKind::Other),
    ];
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: &T) -> &'static str {
    all.iter().find(|(_, each)| each == value).map_or("", |(name, _)| name)
}

impl Executor {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        name_of(Executor::ALL, &self)
    }
}

impl DeviceKind {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        name_of(DeviceKind::ALL, &self)
    }
}

impl Default for Config {
    /// What an empty file says.
    fn default() -> Config {
        read::config("", &DeTable::new()).config
    }
}

impl Config {
    /// The configuration of the file at `path`.
    ///
    /// # Errors
    /// `ConfigUnreadable`: the file cannot be read. `ConfigInvalid`: it is not what it should be:
    /// one line of text for each mistake, `FILE:LINE:COLUMN: KEY: FOUND: ALLOWED`.
    pub fn load(path: &Path) -> Result<Config> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|e| {
            let text = format!("{}: cannot be read: {e}", path.display());
            Error::new(ErrorCode::ConfigUnreadable, text)
        })?;
        let mistake = |text: &str, at, found: &str, allowed: &str| {
            let key = String::from("file");
            let (found, allowed) = (found.to_owned(), allowed.to_owned());
            mistake::refusal(path, text, vec![mistake::Mistake { at, key, found, allowed }])
        };
        if bytes.len() as u64 > CONFIG_BYTES_MAX {
            let allowed = format!("at most {CONFIG_BYTES_MAX} bytes");
            return Err(mistake("", 0, "a longer file", &allowed));
        }
        let text = str::from_utf8(&bytes).map_err(|e| {
            let valid = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
            mistake(&valid, valid.len(), "bytes that are not UTF-8", "UTF-8 text")
        })?;
        Config::parse(path, text)
    }

    /// The configuration of this text; `path` is what the mistakes call it.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Config> {
        let (root, refused) = DeTable::parse_recoverable(text);
        let read::Outcome { config, mistakes, .. } = read::config(text, root.get_ref());
        let mistakes = match refused.is_empty() {
            true => mistakes,
            false => read::syntax(text, root.get_ref(), &refused, mistakes),
        };
        if mistakes.is_empty() { Ok(config) } else { Err(mistake::refusal(path, text, mistakes)) }
    }

    /// The full name of every key, `table.key`, in the order of reading.
    pub fn keys() -> Vec<String> {
        read::config("", &DeTable::new()).known
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
