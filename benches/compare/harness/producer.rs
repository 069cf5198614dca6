//! The producer: stores every stream's numbers at their times, as a device does, and leaves when.
//!
//! One thread serves all streams in the order of their times. What always holds: a number's stamp
//! is written right before it, none is stored before its time, and what is late is stored at once.
//! The same code serves every contender; it differs in what it does behind the store.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use parkd::core::time::MonoNs;
use parkd::host::clock;
use parkd::shm::area::open_lanes;
use parkd::shm::lanes::LanesWriter;
use parkd::shm::region::{ReadWrite, Region};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

use super::accounts::Aside;
use super::member::Post;
use super::orders::{Answer, Done, Order, Run};
use super::waiter::watch::{STAMPS, stamp_lane};
use super::wake::{Means, Peer, Waker};
use super::workload::{Schedule, Times};
use super::{Doing, Result};

/// The waiters of one process, as their producer has them.
pub struct Hand {
    words: LanesWriter<Region<ReadWrite>>,
    stamps: LanesWriter<Region<ReadWrite>>,
    waker: Waker,
    /// The first of its streams among all.
    first: u32,
}

impl Hand {
    /// From what process `process` handed over: its words, its stamps, and what wakes it.
    fn take(run: &Run, process: u32, fds: Vec<OwnedFd>, means: &Means<'_>) -> Result<Hand> {
        let mut fds = fds.into_iter();
        let [words, stamps] = [fds.next().ok_or("no words")?, fds.next().ok_or("no stamps")?];
        let region = open_lanes::<ReadWrite>(&words).doing("words")?.0;
        let waker = Waker::new(run, process, &region, fds, means)?;
        Hand::over(run, process, &words, &stamps, waker)
    }

    /// Of these areas.
    pub fn over(
        run: &Run,
        process: u32,
        words: &OwnedFd,
        stamps: &OwnedFd,
        waker: Waker,
    ) -> Result<Hand> {
        let writer = |fd: &OwnedFd| {
            let (region, count) = open_lanes::<ReadWrite>(fd)?;
            LanesWriter::new(region, count)
        };
        let (words, stamps) = (writer(words).doing("words")?, writer(stamps).doing("stamps")?);
        Ok(Hand { words, stamps, waker, first: process * run.each() })
    }

    fn complete(&mut self, place: u32, number: u64) -> Result<()> {
        // With Release behind the number before: who finds this stamp in the place of an older one
        // sees a number that says so.
        self.stamps.store(stamp_lane(place, number), clock::now().0);
        self.words.store(place, number);
        self.waker.wake(place, number)
    }
}

const _: () = assert!(STAMPS.is_power_of_two());

/// Is the producer of a run.
pub fn be(post: &Post, run: Run, peer: Option<&dyn Peer>) -> Result<()> {
    let (mut hands, means) = (Vec::new(), Means::new(&run, peer)?);
    for process in 0..run.processes {
        let (Order::Hand, fds) = post.order()? else { return Err("no hand".into()) };
        hands.push(Hand::take(&run, process, fds, &means)?);
    }
    post.ready(&[])?;
    let (Order::Start(times), _) = post.order()? else { return Err("no start".into()) };
    produce(&run, &times, &mut hands, None)?;
    post.answer(&Answer::Done(Done::default()))
}

struct Stream {
    schedule: Schedule,
    number: u64,
    hand: usize,
    place: u32,
}

/// Runs the streams of these waiters. `aside` takes down what the thread spends.
pub fn produce(run: &Run, times: &Times, hands: &mut [Hand], aside: Option<&Aside>) -> Result<()> {
    // Refused only for an argument that this is not; at worst sleeps end 50 us later.
    let _ = clock::set_timer_slack(NonZeroU64::MIN);
    let mut streams = Vec::new();
    for (hand, of) in hands.iter().enumerate() {
        for place in 0..run.each() {
            let schedule = run.workload.schedule(run.seed, of.first + place, times);
            streams.push(Stream { schedule, number: 1, hand, place });
        }
    }
    let mut due = BinaryHeap::new();
    for (at, stream) in streams.iter_mut().enumerate() {
        due.extend(stream.schedule.next().map(|next| Reverse((next, at))));
    }
    while let Some(Reverse((next, at))) = due.pop() {
        sleep_until(next);
        let stream = &mut streams[at];
        hands[stream.hand].complete(stream.place, stream.number)?;
        stream.number += 1;
        due.extend(stream.schedule.next().map(|next| Reverse((next, at))));
        if let Some(aside) = aside {
            aside.note();
        }
    }
    Ok(())
}

/// Sleeps until a time of CLOCK_MONOTONIC.
pub fn sleep_until(at: MonoNs) {
    const NS_PER_S: u64 = 1_000_000_000;
    let until = Timespec { tv_sec: (at.0 / NS_PER_S) as i64, tv_nsec: (at.0 % NS_PER_S) as _ };
    while clock::now() < at {
        // Ended early by a signal, it is tried again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}
