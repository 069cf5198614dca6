use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::event::EventfdFlags;
use rustix::time::clock_gettime;

use super::*;
use crate::core::error::ErrorCode;
use crate::host::futex::{self, FutexAddr, WaitOutcome};
use crate::proto::layout::lanes;
use crate::shm::area::{Area, open_lanes};
use crate::shm::bells::BellsView;
use crate::shm::lanes::LanesView;
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::status::StatusPage;
use crate::shm::words::ReadWords;
use crate::soft::protocol::Stamps;
use crate::soft::stamps::StampReader;
use crate::soft::work::Work;

const STAMPS: Stamps = Stamps { lane: 64, count: 64 };

fn stream(work_ns: u64, jobs: u64) -> Stream {
    Stream {
        lane: 0,
        work: Work { seed: 5, work_ns, jitter_permille: 200 },
        jobs,
        first: 1,
        stamps: Some(STAMPS),
        bell: None,
        cpu: false,
        fault_after: None,
        start: MonoNs(0),
    }
}

fn memory() -> (OwnedFd, Region<ReadOnly>) {
    let fd = Area::lanes(128).unwrap().into_fd();
    let (region, _) = open_lanes::<ReadOnly>(&fd).unwrap();
    (fd, region)
}

fn reader(region: &Region<ReadOnly>) -> StampReader<Region<ReadOnly>> {
    StampReader::new(LanesView::new(region.clone(), 128).unwrap(), 0, STAMPS).unwrap()
}

#[test]
fn every_number_is_seen_at_its_time_behind_its_stamp_and_in_order() {
    let (fd, region) = memory();
    let stream = stream(100_000, 1_000);
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    let reader = reader(&region);
    let t0 = now();
    let device = thread::spawn(move || run(&stream, t0, &pages, &AtomicBool::new(false)));
    let ideal: Vec<MonoNs> = stream.work.schedule(t0).take(1_000).collect();
    let (mut last, mut before) = (0, t0);
    while last < stream.jobs {
        let word = reader.word();
        assert!(word >= last && word <= stream.jobs, "{word} after {last}");
        for number in last + 1..=word {
            // Sixty-three jobs late at most, or the stamp is gone.
            let Some(stamp) = reader.stamp(number) else { continue };
            assert!(stamp >= ideal[number as usize - 1], "number {number} is early");
            assert!(stamp >= before && stamp <= now(), "stamps rise and are in the past");
            before = stamp;
        }
        last = word;
        thread::yield_now();
    }
    assert!(before > t0, "no stamp was read in time");
    device.join().unwrap();
}

#[test]
fn a_number_is_never_seen_before_its_stamp() {
    let fd = Area::lanes(4096).unwrap().into_fd();
    let (region, count) = open_lanes::<ReadOnly>(&fd).unwrap();
    let stamps = Stamps { lane: 2048, count: 2048 };
    // Without a pause, so that looks fall between two stores.
    let stream = Stream { stamps: Some(stamps), ..stream(0, 1_000_000) };
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    let reader = StampReader::new(LanesView::new(region, count).unwrap(), 0, stamps).unwrap();
    let device = thread::spawn(move || run(&stream, now(), &pages, &AtomicBool::new(false)));
    let (mut last, mut before) = (0, MonoNs(0));
    while last < stream.jobs {
        let word = reader.word();
        if word == last {
            std::hint::spin_loop();
        } else if let Some(stamp) = reader.stamp(word) {
            // The stamp of a lap ago would be older than one seen since.
            assert!(stamp >= before && stamp > MonoNs(0), "number {word}: {stamp:?}");
            before = stamp;
        }
        last = word;
    }
    device.join().unwrap();
}

#[test]
fn a_late_host_does_not_move_the_schedule() {
    let (fd, region) = memory();
    let stream = Stream { stamps: None, ..stream(10_000_000, 100) };
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    // As if the host had slept through the first half second.
    let t0 = MonoNs(now().0 - 500_000_000);
    let due = stream.work.schedule(t0).take_while(|at| *at <= now()).count() as u64;
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let device = thread::spawn(move || run(&stream, t0, &pages, &seen));
    let next = stream.work.schedule(t0).nth(due as usize + 9).unwrap();
    while region.load64(lanes::lane(0)) < due + 10 {
        thread::yield_now();
    }
    let late = now().since(next);
    assert!(now() >= next, "the tenth job from now is early");
    // Drift would make it late by the half second that the host was late.
    assert!(late.0 < 250_000_000, "{late} late");
    stop.store(true, Ordering::Relaxed);
    device.join().unwrap();
}

#[test]
fn a_fault_is_silence() {
    let (fd, region) = memory();
    let stream = Stream { fault_after: Some(7), ..stream(1_000, 100) };
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    run(&stream, now(), &pages, &AtomicBool::new(false));
    assert_eq!(region.load64(lanes::lane(0)), 7);
    // Neither number nor stamp of the job that faulted.
    assert_eq!(region.load64(lanes::lane(64 + 8)), 0);
}

#[test]
fn computing_keeps_the_same_times() {
    let (fd, region) = memory();
    let stream = Stream { cpu: true, ..stream(1_000_000, 20) };
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    let t0 = now();
    let before = clock_gettime(ClockId::ThreadCPUTime);
    run(&stream, t0, &pages, &AtomicBool::new(false));
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let used = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    assert!(now() >= stream.work.schedule(t0).nth(19).unwrap());
    assert_eq!(region.load64(lanes::lane(0)), 20);
    // 20 ms of work, some of it taken away by other processes.
    assert!(used > 1_000_000, "{used} ns of CPU");
}

#[test]
fn numbers_wrap() {
    let (fd, region) = memory();
    let stream = Stream { first: u64::MAX - 1, jobs: 4, ..stream(1_000, 4) };
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    run(&stream, now(), &pages, &AtomicBool::new(false));
    assert_eq!(region.load64(lanes::lane(0)), 1);
    assert!(reader(&region).stamp(u64::MAX).is_some());
}

#[test]
fn a_stamp_that_may_be_overwritten_is_not_handed_out() {
    let (fd, region) = memory();
    let stream = stream(0, 100);
    let pages = Pages::map(&stream, vec![fd]).unwrap();
    run(&stream, now(), &pages, &AtomicBool::new(false));
    let reader = reader(&region);
    // Number 100 is stored; stamp 101, in the place of 37's, may be written at any time.
    assert_eq!(reader.stamp(37), None);
    assert!(reader.stamp(38).is_some() && reader.stamp(100).is_some());
    assert_eq!(reader.stamp(101), None);
}

#[test]
fn lanes_and_files_that_do_not_fit_are_refused() {
    let refuse = |stream: Stream, fds: Vec<OwnedFd>, code: ErrorCode| {
        let error = Pages::map(&stream, fds).unwrap_err();
        assert_eq!(error.code, code, "{error}");
    };
    let fd = || memory().0;
    let (read, _write) = rustix::pipe::pipe().unwrap();
    let good = stream(1, 1);
    let stamps = |lane, count| Some(Stamps { lane, count });
    refuse(Stream { lane: 128, ..good }, vec![fd()], ErrorCode::NoSuchLane);
    refuse(Stream { lane: u32::MAX, ..good }, vec![fd()], ErrorCode::NoSuchLane);
    refuse(Stream { stamps: stamps(127, 2), ..good }, vec![fd()], ErrorCode::NoSuchLane);
    refuse(Stream { stamps: stamps(u32::MAX, 64), ..good }, vec![fd()], ErrorCode::NoSuchLane);
    refuse(Stream { stamps: stamps(0, 256), ..good }, vec![fd()], ErrorCode::NoSuchLane);
    refuse(Stream { lane: 65, ..good }, vec![fd()], ErrorCode::BadMessage);
    refuse(good, Vec::new(), ErrorCode::BadMessage);
    refuse(good, vec![fd(), fd()], ErrorCode::BadMessage);
    refuse(good, vec![read], ErrorCode::SessionMemory);
    let ringing = Stream { bell: Some(1), ..good };
    let status = || Area::status().unwrap().into_fd();
    refuse(ringing, vec![fd()], ErrorCode::BadMessage);
    refuse(ringing, vec![fd(), fd()], ErrorCode::SessionMemory);
    refuse(Stream { bell: Some(65), ..good }, vec![fd(), status()], ErrorCode::NoSuchDevice);
    refuse(ringing, vec![fd(), status(), fd(), fd()], ErrorCode::BadMessage);
    Pages::map(&ringing, vec![fd(), status()]).unwrap();
}

#[test]
fn a_parked_waiter_is_woken_through_its_bell() {
    let status = Area::status().unwrap();
    let page = StatusPage::new(status.map::<ReadWrite>().unwrap()).unwrap();
    let (fd, region) = memory();
    let bells = BellsView::new(region.clone()).unwrap();
    let stream = Stream { bell: Some(1), ..stream(5_000_000, 1) };
    let pages = Pages::map(&stream, vec![fd, status.into_fd()]).unwrap();
    page.park();
    let seen = bells.read(1);
    let device = thread::spawn(move || run(&stream, now(), &pages, &AtomicBool::new(false)));
    let deadline = now() + DurNs(30_000_000_000);
    while bells.read(1) == seen {
        let addr = FutexAddr::new(bells.address(1));
        let outcome = futex::wait(addr, seen, Some(deadline)).unwrap();
        assert_ne!(outcome, WaitOutcome::TimedOut);
    }
    assert_eq!((bells.read(1), region.load64(lanes::lane(0))), (seen + 1, 1));
    device.join().unwrap();
}

#[test]
fn an_eventfd_is_written_only_for_a_parked_waiter() {
    let status = Area::status().unwrap();
    let page = StatusPage::new(status.map::<ReadWrite>().unwrap()).unwrap();
    let (fd, region) = memory();
    let eventfd = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let count = || {
        let mut count = [0; 8];
        rustix::io::read(&eventfd, &mut count).map(|_| u64::from_ne_bytes(count))
    };
    let stream = Stream { bell: Some(1), ..stream(0, 3) };
    let theirs = eventfd.try_clone().unwrap();
    let pages = Pages::map(&stream, vec![fd, status.into_fd(), theirs]).unwrap();
    run(&stream, now(), &pages, &AtomicBool::new(false));
    assert_eq!(count(), Err(rustix::io::Errno::AGAIN));
    page.park();
    run(&stream, now(), &pages, &AtomicBool::new(false));
    assert_eq!(count(), Ok(3));
    assert_eq!(BellsView::new(region).unwrap().read(1), 6);
}
