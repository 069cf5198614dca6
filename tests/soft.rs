//! `parkd-soft` as a process of its own: it shares nothing but lane pages, and dies like a device.

pub mod support;

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use parkd::core::error::ErrorCode;
use parkd::proto::layout::lanes;
use parkd::shm::area::{Area, open_lanes};
use parkd::shm::region::{ReadOnly, Region};
use parkd::shm::words::ReadWords;
use parkd::soft::SoftDevice;
use parkd::soft::protocol::Stream;
use parkd::soft::work::Work;
use support::device::Device;
use support::{Folder, until};

fn memory() -> (Area, Region<ReadOnly>) {
    let area = Area::lanes(64).unwrap();
    let region = open_lanes::<ReadOnly>(&area).unwrap().0;
    (area, region)
}

fn stream(jobs: u64, first: u64) -> Stream {
    Stream::silent(7, Work { seed: 1, work_ns: 200_000, jitter_permille: 500 }, jobs, first)
}

fn reached(region: &Region<ReadOnly>, number: u64) {
    until("the lane's number", || (region.load64(lanes::lane(7)) >= number).then_some(()));
}

#[test]
fn numbers_come_from_another_process_and_outlive_it() {
    let folder = Folder::new();
    let device = Device::start(&folder.socket());
    let (area, region) = memory();
    let connection = SoftDevice::connect(&folder.socket()).unwrap();
    connection.start(&stream(20, 1), &[area.as_fd()]).unwrap();
    reached(&region, 20);
    connection.start(&stream(u64::MAX, 21), &[area.as_fd()]).unwrap();
    reached(&region, 30);
    drop(device);
    let last = region.load64(lanes::lane(7));
    assert!(last >= 30);
    let gone = connection.start(&stream(1, 1), &[area.as_fd()]).unwrap_err();
    assert_eq!(gone.code, ErrorCode::Backend);
    // The next one takes the dead one's socket over, and goes on where a client says.
    let _next = Device::start(&folder.socket());
    let connection = SoftDevice::connect(&folder.socket()).unwrap();
    connection.start(&stream(5, last + 1), &[area.as_fd()]).unwrap();
    reached(&region, last + 5);
    assert_eq!(region.load64(lanes::lane(7)), last + 5);
}

#[test]
fn it_never_takes_over_from_the_living() {
    let folder = Folder::new();
    let _device = Device::start(&folder.socket());
    let second = second(&folder.socket());
    assert!(second.contains("SocketInUse"), "{second}");
    SoftDevice::connect(&folder.socket()).unwrap();
}

/// What a second device at the same place says as it ends.
fn second(socket: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_parkd-soft"))
        .arg("--socket")
        .arg(socket)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    String::from_utf8(output.stderr).unwrap()
}
