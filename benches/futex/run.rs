//! The processes of a scenario: a waiter in the ring, for each waker a plain waiter, the wakers.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pit::{Pit, WaiterSide, WakerSide};
use crate::scenario::{SCENARIOS, Scenario};
use crate::tally::Figures;
use crate::waiter::{self, RingWaiter, Waited};
use crate::waker::{Share, Waker, Woken};

/// What this program is started as again.
pub const ROLES: &[&str] = &["ring", "plain", "waker"];

/// How long one of many lives of the waiter's process is woken.
const LIFE: Duration = Duration::from_millis(20);

/// What came of a scenario.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub name: &'static str,
    pub ring: Figures,
    pub ring_waited: Waited,
    pub plain: Figures,
    pub plain_waited: Waited,
}

impl Outcome {
    /// Nothing was lost, and no more unexplained than what the machine does to any waiter.
    pub fn is_good(&self) -> bool {
        self.ring_waited.lost == 0
            && self.ring_waited.failed == 0
            && self.ring.unexplained.over_10ms <= self.plain.unexplained.over_10ms
    }
}

/// Sums over all lives and wakers of a scenario.
#[derive(Default)]
struct Sums {
    woken: Woken,
    ring: Waited,
    plain: Waited,
}

/// Runs a scenario for so long.
pub fn scenario(scenario: &'static Scenario, length: Duration) -> Result<Outcome, String> {
    let (start, mut sums) = (Instant::now(), Sums::default());
    if scenario.lives {
        while start.elapsed() < length {
            life(scenario, LIFE, &mut sums)?;
        }
    } else {
        life(scenario, length, &mut sums)?;
    }
    Ok(Outcome {
        name: scenario.name,
        ring: sums.woken.ring.figures(),
        ring_waited: sums.ring,
        plain: sums.woken.plain.figures(),
        plain_waited: sums.plain,
    })
}

/// One life of the processes of a scenario.
fn life(scenario: &'static Scenario, length: Duration, sums: &mut Sums) -> Result<(), String> {
    let text = |error: parkd::core::error::Error| error.to_string();
    let pit = Pit::new(scenario.words).map_err(text)?;
    let mut ring = Process::start("ring", &pit.paths())?;
    let mut plains = Vec::new();
    for _ in 0..scenario.wakers {
        let pit = Pit::new(1).map_err(text)?;
        plains.push((Process::start("plain", &pit.paths())?, pit));
    }
    let mut wakers = Vec::new();
    for (at, (_, plain)) in plains.iter().enumerate() {
        let mut args = pit.paths().to_vec();
        args.extend(plain.paths());
        let name = SCENARIOS.iter().position(|other| other.name == scenario.name);
        args.extend([name.unwrap_or(0).to_string(), at.to_string()]);
        args.push(length.as_millis().to_string());
        wakers.push(Process::start("waker", &args)?);
    }
    for waker in &mut wakers {
        let woken: Woken = waker.said()?;
        sums.woken.ring.merge(&woken.ring);
        sums.woken.plain.merge(&woken.plain);
    }
    let stop = |pit: &Pit| {
        let side = pit.waker().map_err(text)?;
        side.stop().map_err(|error| error.to_string())
    };
    stop(&pit)?;
    add(&mut sums.ring, ring.said()?);
    for (process, pit) in &mut plains {
        stop(pit)?;
        add(&mut sums.plain, process.said()?);
    }
    Ok(())
}

fn add(sum: &mut Waited, more: Waited) {
    sum.events += more.events;
    sum.stale += more.stale;
    sum.lost += more.lost;
    sum.failed += more.failed;
}

/// A process of this program; it ends with its value.
struct Process(Child);

impl Process {
    fn start(role: &str, args: &[String]) -> Result<Process, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new(program).arg(role).args(args).stdout(Stdio::piped()).spawn();
        child.map(Process).map_err(|error| format!("{role}: {error}"))
    }

    /// What it says in the end.
    fn said<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            output.read_to_string(&mut text).map_err(|error| error.to_string())?;
        }
        serde_json::from_str(&text).map_err(|error| format!("a process said {text:?}: {error}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of those processes.
pub fn child(args: &[String]) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let arg = |at: usize| args.get(at).map(String::as_str).ok_or("an argument is missing");
    let number = |at| arg(at)?.parse::<u64>().map_err(|error| error.to_string());
    let said = match arg(0)? {
        "ring" => {
            let side = WaiterSide::open(arg(1)?, arg(2)?).map_err(text)?;
            let waiter = RingWaiter::new(side, number(3)? as u32).map_err(text)?;
            serde_json::to_string(&waiter.run().map_err(text)?)
        }
        "plain" => {
            let side = WaiterSide::open(arg(1)?, arg(2)?).map_err(text)?;
            serde_json::to_string(&waiter::plain(&side).map_err(text)?)
        }
        _ => {
            let scenario = SCENARIOS.get(number(7)? as usize).ok_or("no such scenario")?;
            let ring = WakerSide::open(arg(1)?, arg(2)?).map_err(text)?;
            let plain = WakerSide::open(arg(4)?, arg(5)?).map_err(text)?;
            if !ring.ready() || !plain.ready() {
                return Err("a waiter does not get ready".to_owned());
            }
            let waker = Waker::new(ring, plain, share(scenario, number(8)? as u32), scenario);
            serde_json::to_string(&waker.run(Duration::from_millis(number(9)?))?)
        }
    };
    println!("{}", said.map_err(|error| error.to_string())?);
    Ok(())
}

/// The words of one waker.
fn share(scenario: &Scenario, waker: u32) -> Share {
    if scenario.shared {
        return Share { first: 0, count: scenario.words };
    }
    let count = scenario.words / scenario.wakers;
    Share { first: waker * count, count }
}
