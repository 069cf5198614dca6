//! `wake=early`: the client is woken ahead of a foreseen completion and looks itself.

pub mod support;

use std::os::fd::AsFd;

use parkd::client::Session;
use parkd::soft::SoftDevice;
use parkd::soft::protocol::Stream;
use parkd::soft::work::Work;

use support::device::Device;
use support::{Daemon, Executor, Folder, PATIENCE, raw, until};

for_each_executor! {
    a_client_is_woken_early_and_every_ticket_ends_once,
}

/// Enough to outlast the test.
const JOBS: u64 = 1_000_000;

const PLAN: &str = "flag:park_us=100,backstop_us=1000+predict:\
    margin_us=50,min_sleep_us=20,max_sleep_us=10000,window=4,wake=early";

fn a_client_is_woken_early_and_every_ticket_ends_once(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let folder = Folder::new();
    let _process = Device::start(&folder.socket());
    let device = SoftDevice::connect(&folder.socket()).unwrap();
    let session = Session::connect_to(&daemon.socket()).unwrap();
    let lane = session.lane().unwrap();
    let plan = session.plan(PLAN).unwrap();
    let work = Work { seed: 1, work_ns: 2_000_000, jitter_permille: 0 };
    let stream = Stream::silent(lane.index(), work, JOBS, 1);
    let lanes = session.lanes_fd().unwrap();
    device.start(&stream, &[lanes.as_fd()]).unwrap();
    let status = || raw::control(&daemon.socket()).status();
    let mut submitted = 0;
    until("ten early wakes", || {
        let target = lane.value() + 1;
        let mut ticket = lane.ticket(target).plan(plan).submit().unwrap();
        submitted += u64::from(ticket.completion().is_none());
        let end = ticket.wait_for(PATIENCE).unwrap().expect("an end");
        assert!(end.is_done() && end.seen >= target && lane.reached(target), "{end:?}");
        (status()["counters"]["early_wakes"].as_u64() >= Some(10)).then_some(())
    });
    // What the client saw before its result came is published all the same, and once.
    until("each has its result", || {
        (status()["counters"]["results"]["done"] == submitted).then_some(())
    });
}
