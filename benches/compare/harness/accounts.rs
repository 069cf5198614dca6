//! What a process spends while it waits: CPU and context switches, from a little before the window
//! to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parkd::core::time::MonoNs;
use parkd::host::clock;

use super::orders::Done;
use super::workload::Times;
use super::{Doing, Result, proc};

/// A thread of this process that is no waiter: its account is taken off.
#[derive(Debug, Default)]
pub struct Aside {
    cpu_ns: AtomicU64,
    thread: AtomicU64,
}

impl Aside {
    /// The calling thread is it.
    pub fn is_me(&self) {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(id as u64, Ordering::Relaxed);
        self.note();
    }

    /// The calling thread says what it has used.
    pub fn note(&self) {
        self.cpu_ns.store(clock::thread_cpu().0, Ordering::Relaxed);
    }

    fn switches(&self) -> u64 {
        let thread = self.thread.load(Ordering::Relaxed).to_string();
        proc::switches_of("self", &thread).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: MonoNs,
    cpu_ns: u64,
    switches: u64,
}

/// This process's account, kept by one of its waiters.
#[derive(Debug)]
pub struct Meter {
    times: Times,
    aside: Option<Arc<Aside>>,
    begin: Option<Mark>,
    end: Option<Mark>,
}

impl Meter {
    /// An account of a run, without that of the thread `aside`.
    pub fn new(times: Times, aside: Option<Arc<Aside>>) -> Meter {
        Meter { times, aside, begin: None, end: None }
    }

    /// A waiter runs at `now`: takes down what has been spent, when the time has come.
    pub fn tick(&mut self, now: MonoNs) -> Result<()> {
        if self.begin.is_none() && now >= self.times.count {
            let switches = self.switches()?;
            self.begin = Some(self.mark(switches));
        } else if self.end.is_none() && now >= self.times.end {
            let mark = self.mark(0);
            self.end = Some(Mark { switches: self.switches()?, ..mark });
        }
        Ok(())
    }

    fn mark(&self, switches: u64) -> Mark {
        let aside = self.aside.as_ref().map_or(0, |aside| aside.cpu_ns.load(Ordering::Relaxed));
        Mark { cpu_ns: clock::process_cpu().0.saturating_sub(aside), at: clock::now(), switches }
    }

    fn switches(&self) -> Result<u64> {
        let aside = self.aside.as_ref().map_or(0, |aside| aside.switches());
        Ok(proc::switches("self").doing("/proc/self")?.saturating_sub(aside))
    }

    /// What was spent, as rates.
    pub fn rates(mut self) -> Result<Done> {
        // Where the last completion came before the end.
        self.tick(self.times.end)?;
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return Err("the run was too short to be counted".into());
        };
        Ok(rates(begin, end))
    }
}

fn rates(begin: Mark, end: Mark) -> Done {
    let wall = end.at.since(begin.at).0.max(1) as f64;
    Done {
        cpu_share: end.cpu_ns.saturating_sub(begin.cpu_ns) as f64 / wall,
        switches_per_s: end.switches.saturating_sub(begin.switches) as f64 * 1e9 / wall,
        ..Done::default()
    }
}

/// Another process's account: the daemon's, or a relay's.
#[derive(Clone, Copy, Debug)]
pub struct Other(Mark);

impl Other {
    /// What it has spent by now.
    pub fn of(pid: u32) -> Result<Other> {
        let pid = pid.to_string();
        let cpu_ns = proc::cpu_ns(&pid).doing("schedstat")?;
        let at = clock::now();
        let switches = proc::switches(&pid).doing("status")?;
        Ok(Other(Mark { at, cpu_ns, switches }))
    }

    /// What it has spent since, as rates.
    pub fn since(self, earlier: Other) -> Done {
        rates(earlier.0, self.0)
    }
}
