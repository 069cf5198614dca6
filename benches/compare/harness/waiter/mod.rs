//! A process of waiters.
//!
//! Where a thread can wait for one thing at a time each waiter has its own; an event loop and a
//! runtime serve all waiters of the process on one. What always holds: everything that a way of
//! waiting needs is there before the run starts.

mod looking;
mod parkd_events;
#[cfg(feature = "tokio")]
mod parkd_tasks;
mod parkd_threads;
mod place;
mod results;
mod signals;
pub mod watch;

use std::sync::{Arc, Barrier, OnceLock};

use parkd::core::time::{DurNs, MonoNs};
use parkd::host::clock;

use self::place::Place;
use self::watch::{Found, Sums, Watch};
use super::accounts::{Aside, Meter};
use super::contender::Way;
use super::member::Post;
use super::orders::{Answer, Done, Order, Run};
use super::producer::{self, Hand};
use super::wake::{Peer, Told, Waker};
use super::workload::Times;
use super::{Doing, Result};

/// How long after the last store something may still come.
const GRACE: DurNs = DurNs(5_000_000_000);

/// Latencies in one record.
const CHUNK: usize = 8000;

/// Serves waiters until all their numbers have come, or `until` has.
pub trait Serve {
    fn serve(&mut self, watches: Vec<Watch>, until: MonoNs) -> Result<Vec<Watch>>;
}

/// Waits for one number after the other.
trait Wait {
    /// Comes back once the watch's next number has landed, or `until` has.
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found>;
}

impl<W: Wait> Serve for W {
    fn serve(&mut self, mut watches: Vec<Watch>, until: MonoNs) -> Result<Vec<Watch>> {
        for watch in &mut watches {
            while let Some(number) = watch.next() {
                let found = self.wait(watch, number, until)?;
                if !watch.reached(number) && clock::now() >= until {
                    return Err(lost(number));
                }
                watch.done(found)?;
            }
        }
        Ok(watches)
    }
}

fn lost(number: u64) -> String {
    format!("number {number} was not heard of within {} s", GRACE.0 / 1_000_000_000)
}

/// The start of a run: threads come to it ready, and go on with its times.
struct Gate {
    ready: Barrier,
    times: OnceLock<Option<Times>>,
    go: Barrier,
}

impl Gate {
    fn new(threads: usize) -> Gate {
        let barrier = || Barrier::new(threads + 1);
        Gate { ready: barrier(), times: OnceLock::new(), go: barrier() }
    }

    /// A thread is ready: the times of the run; none where it was called off.
    fn pass(&self) -> Option<Times> {
        self.ready.wait();
        self.go.wait();
        self.times.get().copied().flatten()
    }

    /// Opens once all threads are ready and the harness has said when.
    fn open(&self, post: &Post, place: &Place) -> Result<Times> {
        self.ready.wait();
        let started = post.ready(place.fds()).and_then(|()| post.order());
        let times = match started {
            Ok((Order::Start(times), _)) => Ok(times),
            Ok(odd) => Err(format!("an order out of turn: {odd:?}")),
            Err(why) => Err(why),
        };
        let _ = self.times.set(times.as_ref().ok().copied());
        self.go.wait();
        times
    }
}

/// Is process `process` of a run's waiters.
pub fn be(post: &Post, run: Run, process: u32, peer: Option<&dyn Peer>) -> Result<()> {
    // Refused only for an argument that this is not; at worst pauses are 50 us longer.
    let _ = clock::set_timer_slack(std::num::NonZeroU64::MIN);
    let place = Place::open(&run)?;
    let told: Arc<Vec<Told>> = Arc::new((0..run.each()).map(|_| Told::default()).collect());
    let aside = (run.way == Way::Condvar).then(Arc::<Aside>::default);
    let groups: Vec<Vec<u32>> = match run.way {
        Way::ParkdEventfd | Way::ParkdTokio | Way::Eventfd => vec![(0..run.each()).collect()],
        _ => (0..run.each()).map(|waiter| vec![waiter]).collect(),
    };
    let threads = groups.len() + usize::from(aside.is_some());
    let gate = Gate::new(threads);
    let here = Here { run: &run, process, place: &place, told: &told, peer, aside: &aside };
    let ends = std::thread::scope(|scope| {
        let waiters: Vec<_> =
            groups.iter().map(|group| scope.spawn(|| here.wait(group, &gate))).collect();
        let producer = aside.as_ref().map(|aside| {
            let gate = &gate;
            let here = &here;
            scope.spawn(move || here.produce(aside, gate))
        });
        gate.open(post, &place)?;
        let mut ends = Vec::new();
        for thread in waiters {
            ends.extend(thread.join().map_err(|_| "a waiter panicked")??);
        }
        if let Some(producer) = producer {
            producer.join().map_err(|_| "the producer panicked")??;
        }
        Ok::<_, String>(ends)
    })?;
    report(post, ends)
}

/// What the threads of a process share.
struct Here<'a> {
    run: &'a Run,
    process: u32,
    place: &'a Place,
    told: &'a Arc<Vec<Told>>,
    peer: Option<&'a dyn Peer>,
    aside: &'a Option<Arc<Aside>>,
}

impl Here<'_> {
    /// Is a thread that serves these waiters.
    fn wait(&self, group: &[u32], gate: &Gate) -> Result<Vec<(Sums, Option<Meter>)>> {
        // Each thread has its own, and a new thread inherits none.
        let _ = clock::set_timer_slack(std::num::NonZeroU64::MIN);
        let serve = self.serve(group);
        let Some(times) = gate.pass() else { return Ok(Vec::new()) };
        let watches = group.iter().map(|waiter| self.watch(*waiter, times));
        let watches = watches.collect::<Result<Vec<_>>>()?;
        let served = serve?.serve(watches, times.stop + GRACE)?;
        Ok(served.into_iter().map(Watch::end).collect())
    }

    fn watch(&self, waiter: u32, times: Times) -> Result<Watch> {
        let stream = self.process * self.run.each() + waiter;
        let schedule = self.run.workload.schedule(self.run.seed, stream, &times);
        let meter = (waiter == 0).then(|| Meter::new(times, self.aside.clone()));
        let (words, stamps) = self.place.views()?;
        Ok(Watch::new(words, stamps, waiter, schedule, times, meter))
    }

    /// The way in which these waiters wait.
    fn serve(&self, group: &[u32]) -> Result<Box<dyn Serve>> {
        let waiter = group.first().copied().unwrap_or(0);
        let stream = self.process * self.run.each() + waiter;
        Ok(match self.run.way {
            Way::ParkdFutex => Box::new(parkd_threads::Sleeping::new(self.place, waiter)?),
            Way::ParkdRing => Box::new(parkd_threads::Looking::new(self.place, waiter)?),
            Way::ParkdEventfd => Box::new(parkd_events::Events::new(self.place)?),
            #[cfg(feature = "tokio")]
            Way::ParkdTokio => Box::new(parkd_tasks::Tasks::new(self.place)?),
            #[cfg(not(feature = "tokio"))]
            Way::ParkdTokio => return Err("built without tokio".into()),
            Way::Results => {
                Box::new(results::OnResults::new(self.place.raw()?, self.run.daemon_cpu)?)
            }
            Way::Spin => Box::new(looking::Spin),
            Way::SpinPause => Box::new(looking::SpinPause),
            Way::Poll => Box::new(looking::Poll),
            Way::Futex => Box::new(signals::OnFutex::new(self.place, waiter)?),
            Way::Eventfd => Box::new(signals::OnEventfds::new(self.place)?),
            Way::Condvar => Box::new(signals::OnCondvar::new(self.told, waiter)),
            Way::Relay => Box::new(signals::OnRelay::connect(self.run, stream)?),
            Way::Peer => Box::new(signals::OnPeer::new(self.run, stream, self.peer)?),
        })
    }

    /// Is the producer of this process's waiters, on one of its threads.
    fn produce(&self, aside: &Aside, gate: &Gate) -> Result<()> {
        aside.is_me();
        let [words, stamps] = self.place.fds() else { return Err("no areas".into()) };
        let waker = Waker::Condvar(self.told.clone());
        let hand = Hand::over(self.run, self.process, words, stamps, waker);
        let Some(times) = gate.pass() else { return Ok(()) };
        producer::produce(self.run, &times, &mut [hand?], Some(aside))
    }
}

/// Tells the harness what came of the run.
fn report(post: &Post, ends: Vec<(Sums, Option<Meter>)>) -> Result<()> {
    let (mut done, mut rates) = (Done::default(), None);
    for (sums, meter) in ends {
        for part in sums.wakes.chunks(CHUNK) {
            post.answer(&Answer::Wakes(part.to_vec()))?;
        }
        for part in sums.detected.chunks(CHUNK) {
            post.answer(&Answer::Detected(part.to_vec()))?;
        }
        done.completions += sums.wakes.len() as u64;
        done.late += sums.late;
        if let Some(meter) = meter {
            rates = Some(meter.rates()?);
        }
    }
    let rates = rates.ok_or("nobody kept the account").doing("waiters")?;
    let Done { cpu_share, switches_per_s, .. } = rates;
    post.answer(&Answer::Done(Done { cpu_share, switches_per_s, ..done }))
}
