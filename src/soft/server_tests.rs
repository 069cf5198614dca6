use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicU32;

use super::*;
use crate::proto::layout::lanes;
use crate::shm::area::{Area, open_lanes};
use crate::shm::region::{ReadOnly, Region};
use crate::shm::words::ReadWords;
use crate::soft::SoftDevice;
use crate::soft::work::Work;

/// A socket path of this test alone; the file goes with it.
struct Path_(PathBuf);

impl Path_ {
    fn new() -> Path_ {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Path_(std::env::temp_dir().join(format!("parkd-soft-{}-{}", name.0, name.1)))
    }
}

impl Drop for Path_ {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn device() -> (Path_, SoftDevice) {
    let path = Path_::new();
    let server = Server::bind(&path.0).unwrap();
    thread::spawn(move || server.run());
    let device = SoftDevice::connect(&path.0).unwrap();
    (path, device)
}

fn stream(work_ns: u64, jobs: u64) -> Stream {
    Stream::silent(0, Work { seed: 1, work_ns, jitter_permille: 0 }, jobs, 1)
}

fn memory() -> (Area, Region<ReadOnly>) {
    let area = Area::lanes(64).unwrap();
    let (region, _) = open_lanes::<ReadOnly>(&area).unwrap();
    (area, region)
}

fn wait_for(region: &Region<ReadOnly>, number: u64) {
    until(|| region.load64(lanes::lane(0)) >= number);
}

fn until(done: impl Fn() -> bool) {
    let deadline = clock::now().0 + 30_000_000_000;
    while !done() {
        assert!(clock::now().0 < deadline, "nothing happened for 30 s");
        thread::yield_now();
    }
}

#[test]
fn a_stream_starts_when_it_is_told_to() {
    let (_path, device) = device();
    let (area, region) = memory();
    let before = clock::now();
    let t0 = device.start(&stream(1_000_000, 3), &[area.as_fd()]).unwrap();
    assert!(t0 >= before && t0 <= clock::now());
    wait_for(&region, 3);
    assert!(clock::now().0 >= t0.0 + 3_000_000);
    let start = MonoNs(clock::now().0 + 20_000_000);
    let again = Stream { start, first: 4, ..stream(0, 1) };
    assert_eq!(device.start(&again, &[area.as_fd()]), Ok(start));
    wait_for(&region, 4);
    assert!(clock::now() >= start);
}

#[test]
fn garbage_is_answered_and_costs_nobody_anything() {
    let (path, device) = device();
    let refused = |code: ErrorCode| {
        let Ok(Reply::Refused(number, _)) = device.reply() else { panic!("refused: {code}") };
        assert_eq!(number, u32::from(code.number()));
    };
    let (area, region) = memory();
    let fd = area.as_fd();
    device.send(&[0xff; 80], &[]).unwrap();
    refused(ErrorCode::UnknownOpcode);
    device.send(&[1], &[]).unwrap();
    refused(ErrorCode::BadMessage);
    device.send(&[1; MESSAGE_BYTES_MAX + 1], &[]).unwrap();
    refused(ErrorCode::BadMessage);
    device.send(&stream(1, 1).encode(), &[]).unwrap();
    refused(ErrorCode::BadMessage);
    device.send(&stream(1, 1).encode(), &[fd, fd, fd, fd]).unwrap();
    refused(ErrorCode::TooManyFds);
    let socket = SoftDevice::connect(&path.0).unwrap();
    device.send(&stream(1, 1).encode(), &[socket.as_fd()]).unwrap();
    refused(ErrorCode::SessionMemory);
    // The connection is as good as new.
    device.start(&stream(1_000, 5), &[fd]).unwrap();
    wait_for(&region, 5);
}

#[test]
fn streams_stop_with_their_connection() {
    let (path, device) = device();
    let (area, region) = memory();
    let endless = Stream { jobs: u64::MAX, ..stream(100_000, 1) };
    device.start(&endless, &[area.as_fd()]).unwrap();
    wait_for(&region, 3);
    // The device maps the memory while the stream lives.
    let inode = rustix::fs::fstat(&area).unwrap().st_ino.to_string();
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.split_whitespace().any(|part| part == inode)).count()
    };
    assert_eq!(mappings(), 2);
    drop(device);
    until(|| mappings() == 1);
    let last = region.load64(lanes::lane(0));
    // Others are served on, and this one is not any more.
    let other = SoftDevice::connect(&path.0).unwrap();
    let (others, seen) = memory();
    other.start(&stream(1_000_000, 5), &[others.as_fd()]).unwrap();
    wait_for(&seen, 5);
    assert_eq!(region.load64(lanes::lane(0)), last);
}

#[test]
fn streams_of_a_connection_have_a_limit_that_finished_ones_do_not_count_in() {
    let (_path, device) = device();
    let (area, region) = memory();
    device.start(&stream(0, 1), &[area.as_fd()]).unwrap();
    wait_for(&region, 1);
    let long = stream(WORK_NS_LONG, 1);
    let mut started = 0;
    let error = loop {
        match device.start(&long, &[area.as_fd()]) {
            Ok(_) => started += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, ErrorCode::LimitExceeded);
    // The finished stream's thread may still have been on its way out at the first START.
    assert!(started == STREAMS_MAX || started == STREAMS_MAX - 1, "{started}");
}

const WORK_NS_LONG: u64 = 60_000_000_000;

#[test]
fn a_socket_in_use_is_left_alone_and_a_dead_one_taken_over() {
    let path = Path_::new();
    let first = Server::bind(&path.0).unwrap();
    assert_eq!(Server::bind(&path.0).unwrap_err().code, ErrorCode::SocketInUse);
    let mode = std::fs::metadata(&path.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(first);
    Server::bind(&path.0).unwrap();
    let missing = SoftDevice::connect(&path.0.join("not-there")).unwrap_err();
    assert_eq!(missing.code, ErrorCode::SocketUnavailable);
}
