//! One phase: the same work waited for in one way, in processes of its own.
//!
//! The parent starts the device, for the daemon's phase the daemon, and the clients; once all are
//! ready it names the time at which the streams start, reads the CPU clocks of daemon and device
//! then and when the streams should be over, and collects the clients' reports.

use std::fs;
use std::path::Path;

use indicatif::ProgressBar;

use super::client::{DEVICE, GRACE};
use super::cpu;
use super::error::DemoError;
use super::family::{Family, MemberId};
use super::report::{ClientReport, ClientSays, Phase, percent};
use super::waiting::Way;
use super::workload::Workload;
use crate::client::Control;
use crate::core::error::ErrorCode;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::signals::Signals;

/// How long a child may take to get ready.
const READY: DurNs = DurNs(20_000_000_000);
/// From the word to start to the start: enough for every client to have read it.
const LEAD: DurNs = DurNs(200_000_000);
/// From a client's failure to the death that it failed of, at most.
const BLAME: DurNs = DurNs(1_000_000_000);
/// Between two tries to reach a daemon that starts.
const RETRY: DurNs = DurNs(5_000_000);
/// Steps of the progress bar in a second.
pub const STEPS: u64 = 10;
const SECOND: DurNs = DurNs(1_000_000_000);

/// What a phase needs to know.
#[derive(Debug)]
pub struct Setting<'a> {
    /// `parkd`, the executable.
    pub executable: &'a Path,
    /// How the clients wait.
    pub way: Way,
    /// The daemon's executor, and no other; none: the best that works here.
    pub executor: Option<&'a str>,
    /// For what.
    pub workload: Workload,
    /// How many there are, at least 1.
    pub clients: u32,
    /// How long the streams last, at least 1.
    pub seconds: u64,
    /// A folder of these phases alone, with a name in UTF-8.
    pub folder: &'a Path,
    /// Moves on by [`STEPS`] a second.
    pub bar: &'a ProgressBar,
}

/// A phase under way.
struct Run<'a> {
    setting: &'a Setting<'a>,
    family: Family<'a>,
    device: MemberId,
    daemon: Option<MemberId>,
    clients: Vec<MemberId>,
    reports: Vec<ClientReport>,
}

/// Runs a phase; answers also the label of the daemon's executor, where a daemon took part.
///
/// # Errors
/// What ended it before its end: a child's death, a signal, silence.
pub fn run(
    setting: &Setting<'_>,
    signals: &mut Signals,
) -> Result<(Phase, Option<String>), DemoError> {
    let mut family = Family::new(setting.executable, signals);
    let device_socket = setting.folder.join("device.sock");
    // Left by the phase before.
    let _ = fs::remove_file(&device_socket);
    let device = ["device", "--listen", text(&device_socket)?];
    let device = family.start("the software device".into(), &device, None)?;
    let mut run =
        Run { setting, family, device, daemon: None, clients: Vec::new(), reports: Vec::new() };
    run.await_device()?;
    let executor = match setting.way {
        Way::Parkd => Some(run.start_daemon()?),
        _ => None,
    };
    run.start_clients(&device_socket)?;
    let phase = run.measure()?;
    Ok((phase, executor))
}

fn text(path: &Path) -> Result<&str, DemoError> {
    let odd = || std::io::Error::other("the temporary folder's name is not UTF-8");
    path.to_str().ok_or_else(|| DemoError::io(path.to_string_lossy(), odd()))
}

impl Run<'_> {
    fn await_device(&mut self) -> Result<(), DemoError> {
        match self.family.hear(clock::now() + READY)? {
            Some((_, line)) if line == crate::soft::READY => Ok(()),
            Some((id, line)) => Err(self.senseless(id, &line)),
            None => Err(self.silent(self.device)),
        }
    }

    fn start_daemon(&mut self) -> Result<String, DemoError> {
        let folder = self.setting.folder;
        let (config, socket) = (folder.join("parkd.toml"), folder.join("parkd.sock"));
        let socket = text(&socket)?;
        let strict = |name| format!("executor = {name:?}\nstrict = true\n");
        let chosen = self.setting.executor.map(strict).unwrap_or_default();
        let lines = format!(
            "[daemon]\nsocket = {socket:?}\n{chosen}\n[allow]\ngroups = []\n\n\
             [[device]]\nname = \"{DEVICE}\"\nkind = \"soft\"\n"
        );
        fs::write(&config, lines).map_err(|error| DemoError::io("parkd.toml", error))?;
        let log = Some(folder.join("parkd.log"));
        let part = ["daemon", "--config", text(&config)?];
        let daemon = self.family.start("the daemon".into(), &part, log)?;
        self.daemon = Some(daemon);
        let deadline = clock::now() + READY;
        loop {
            match Control::connect_to(Path::new(socket)).and_then(|control| control.status()) {
                Ok(status) => {
                    return executor(&status).ok_or_else(|| self.senseless(daemon, &status));
                }
                Err(error) if error.code == ErrorCode::SocketUnavailable => {}
                Err(error) => return Err(error.into()),
            }
            if clock::now() >= deadline {
                return Err(self.silent(daemon));
            }
            if let Some((id, line)) = self.family.hear(clock::now() + RETRY)? {
                return Err(self.senseless(id, &line));
            }
        }
    }

    fn start_clients(&mut self, device: &Path) -> Result<(), DemoError> {
        let Setting { way, workload, clients, seconds, folder, .. } = *self.setting;
        let socket = folder.join("parkd.sock");
        let [count, seconds] = [clients.to_string(), seconds.to_string()];
        for client in 0..clients {
            let place = client.to_string();
            let mut part = vec!["client", "--way", way.name(), "--workload", workload.name()];
            part.extend(["--client", &place]);
            part.extend(["--clients", &count, "--seconds", &seconds, "--device", text(device)?]);
            if way == Way::Parkd {
                part.extend(["--daemon", text(&socket)?]);
            }
            self.clients.push(self.family.start(format!("client {client}"), &part, None)?);
        }
        let deadline = clock::now() + READY;
        let mut waiting = self.clients.clone();
        while let Some(&next) = waiting.first() {
            match self.hear_client(deadline)? {
                Some((id, ClientSays::Ready)) => waiting.retain(|other| *other != id),
                Some((id, _)) => return Err(self.senseless(id, "a report before the start")),
                None => return Err(self.silent(next)),
            }
        }
        Ok(())
    }

    fn measure(&mut self) -> Result<Phase, DemoError> {
        let start = clock::now() + LEAD;
        for client in self.clients.clone() {
            self.family.tell(client, &start.0.to_string())?;
        }
        let length = DurNs(self.setting.seconds * SECOND.0);
        let base = self.setting.bar.position();
        self.wait_until(start, None)?;
        let (from, cpu_from) = (clock::now(), self.cpu()?);
        self.wait_until(start + length, Some((start, base)))?;
        let (to, cpu_to) = (clock::now(), self.cpu()?);
        self.setting.bar.set_position(base + self.setting.seconds * STEPS);
        let deadline = to + GRACE + READY;
        while self.reports.len() < self.clients.len() {
            if !self.collect(deadline)? {
                return Err(self.silent(self.clients[self.reports.len()]));
            }
        }
        let wall = to.since(from).0;
        let share = |at: usize| percent(cpu_to[at].saturating_sub(cpu_from[at]).0, wall);
        Ok(Phase::new(&self.reports, share(0), share(1))?)
    }

    /// CPU time of daemon and device so far.
    fn cpu(&self) -> Result<[DurNs; 2], DemoError> {
        let of = |id: MemberId| {
            cpu::of_process(self.family.pid(id))
                .map_err(|error| DemoError::io(format!("CPU of {}", self.family.name(id)), error))
        };
        Ok([self.daemon.map_or(Ok(DurNs::ZERO), of)?, of(self.device)?])
    }

    /// Waits, and moves the bar on from a position that stands for a time.
    fn wait_until(&mut self, until: MonoNs, bar: Option<(MonoNs, u64)>) -> Result<(), DemoError> {
        while clock::now() < until {
            self.collect(until.min(clock::now() + DurNs(SECOND.0 / STEPS)))?;
            if let Some((start, base)) = bar {
                let passed = clock::now().since(start).0;
                self.setting.bar.set_position(base + passed * STEPS / SECOND.0);
            }
        }
        Ok(())
    }

    /// Takes in at most one report; false when `until` has passed without one.
    fn collect(&mut self, until: MonoNs) -> Result<bool, DemoError> {
        match self.hear_client(until)? {
            Some((id, ClientSays::Done(report))) => {
                self.family.excuse(id);
                self.reports.push(report);
                Ok(true)
            }
            Some((id, says)) => Err(self.senseless(id, &format!("{says:?}"))),
            None => Ok(false),
        }
    }

    fn hear_client(&mut self, until: MonoNs) -> Result<Option<(MemberId, ClientSays)>, DemoError> {
        let Some((id, line)) = self.family.hear(until)? else { return Ok(None) };
        match serde_json::from_str(&line) {
            Ok(ClientSays::Failed(what)) => {
                let failed = DemoError::Child { child: self.family.name(id).to_owned(), what };
                Err(self.family.death(clock::now() + BLAME)?.unwrap_or(failed))
            }
            Ok(says) => Ok(Some((id, says))),
            Err(_) => Err(self.senseless(id, &line)),
        }
    }

    fn senseless(&self, id: MemberId, said: &str) -> DemoError {
        let what = format!("it said what makes no sense: {said}");
        DemoError::Child { child: self.family.name(id).to_owned(), what }
    }

    fn silent(&self, id: MemberId) -> DemoError {
        let what = "no answer in time".to_owned();
        DemoError::Child { child: self.family.name(id).to_owned(), what }
    }
}

/// The executor's label in the daemon's STATUS.
fn executor(status: &str) -> Option<String> {
    let status: serde_json::Value = serde_json::from_str(status).ok()?;
    Some(status.get("executor")?.as_str()?.to_owned())
}
