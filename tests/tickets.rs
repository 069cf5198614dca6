//! Tickets from end to end: how they come in, what they wait for, how they end, and how their
//! client is told. Every test runs a real daemon and speaks the protocol by hand.

pub mod support;

use parkd::proto::entry::Status;

use support::raw::{Session, word};
use support::{Daemon, Executor};

for_each_executor! {
    a_silent_store_is_found,
}

fn a_silent_store_is_found(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 1, 7)], &[]);
    session.store(lane, 1);
    assert_eq!(session.outcome(), (7, Status::Done));
}
