//! A session whose recovery kills the daemon twice goes, so that the others live.
//!
//! Nothing in the daemon helps: the supervisor holds the session's table, which is mapped here; at
//! the moment at which the table says that its recovery has begun, the daemon is killed.

use std::mem::offset_of;
use std::time::{Duration, Instant};

use parkd::core::error::ErrorCode;
use parkd::engine::table::TableHeader;
use parkd::proto::entry::Status;
use parkd::proto::layout::SessionState;
use parkd::proto::message::Hello;
use parkd::shm::area::Area;
use parkd::shm::region::{ReadOnly, Region};
use parkd::shm::words::ReadWords;

use super::load::keeper::supervised;
use super::supervisor::Supervisor;
use super::support::raw::{self, Session, word};
use super::support::{Executor, Folder, PATIENCE, until};

/// Tickets of the session that goes: so many that their recovery takes a while.
const TICKETS: u64 = 60_000;
/// Tickets of a message.
const BATCH: u64 = 250;
/// For how long kills may come too late, when the session is recovered already: this thread has to
/// run in the few milliseconds of a recovery, and others run too.
const ATTEMPTS: Duration = PATIENCE.saturating_mul(2);

/// The largest of the tables in the store.
fn table(supervisor: &Supervisor) -> Region<ReadOnly> {
    let stored = supervisor.stored().into_iter();
    let tables = stored.filter(|(name, _)| name.ends_with('t'));
    let tables = tables.filter_map(|(_, fd)| Area::from_fd(fd).ok());
    let largest = tables.max_by_key(Area::bytes).expect("a table in the store");
    largest.map().expect("its mapping")
}

/// How many deaths the session may be the cause of, while it is being recovered.
fn recovering(table: &Region<ReadOnly>) -> Option<u32> {
    let deaths = table.load32(offset_of!(TableHeader, recoveries));
    (table.load32(offset_of!(TableHeader, recovering)) != 0).then_some(deaths)
}

/// Kills the next life while it recovers the session of this table; false where it has recovered it
/// before that was seen, or before the kill. `deaths` lives in a row were ended like this before.
fn kill_in_recovery(supervisor: &Supervisor, table: &Region<ReadOnly>, deaths: u32) -> bool {
    let life = supervisor.life();
    supervisor.begun(life);
    let end = Instant::now() + PATIENCE;
    while recovering(table) != Some(deaths) {
        if supervisor.is_ready(life) {
            return false;
        }
        assert!(Instant::now() < end, "life {life} does not come to serve");
        std::hint::spin_loop();
    }
    supervisor.kill();
    // The life after it may have come as far already, and have counted this one.
    recovering(table).is_some_and(|counted| counted >= deaths)
}

/// Ends a life that serves, and the next while it recovers the session.
fn one_death(supervisor: &Supervisor, table: &Region<ReadOnly>) -> bool {
    supervisor.ready(supervisor.life());
    supervisor.kill();
    kill_in_recovery(supervisor, table, 0)
}

/// See the file's head.
pub fn quarantine(executor: &Executor) {
    let folder = Folder::new();
    let supervisor = supervised(&folder, true, executor);
    supervisor.ready(1);
    let socket = supervisor.socket();
    let mut neighbour = Session::open(&socket);
    let lane = neighbour.lane(64).lane;
    neighbour.submit(&[word(lane, 1, 1), word(lane, 2, 2)], &[]);
    let hello = Hello { submit_entries: 64, result_entries: 65_536, ..raw::hello() };
    let mut victim = Session::open_with(&socket, &hello);
    let theirs = victim.lane(64).lane;
    for first in (1..=TICKETS).step_by(BATCH as usize) {
        let tickets: Vec<_> = (first..first + BATCH).map(|n| word(theirs, n, n)).collect();
        victim.submit(&tickets, &[]);
    }
    let table = table(&supervisor);

    // One death is nobody's fault: the session lives on.
    let end = Instant::now() + ATTEMPTS;
    while !one_death(&supervisor, &table) {
        assert!(Instant::now() < end, "no kill came in time");
    }
    supervisor.ready(supervisor.life());
    victim.store(theirs, BATCH);
    for name in 1..=BATCH {
        assert_eq!(victim.outcome(), (name, Status::Done));
    }

    // Two in a row are: it goes.
    while !(one_death(&supervisor, &table) && kill_in_recovery(&supervisor, &table, 1)) {
        assert!(Instant::now() < end, "no two kills in a row came in time");
    }
    supervisor.ready(supervisor.life());
    assert_eq!(closing(&victim), ErrorCode::Quarantined);
    assert_eq!(victim.close_code(), ErrorCode::Quarantined);

    // Its neighbour has noticed nothing, and newcomers are served.
    neighbour.store(lane, 2);
    assert_eq!([neighbour.outcome(), neighbour.outcome()], [1, 2].map(|n| (n, Status::Done)));
    assert_ne!(neighbour.state(), Some(SessionState::Closed));
    let mut newcomer = Session::open(&socket);
    let lane = newcomer.lane(64).lane;
    newcomer.submit(&[word(lane, 0, 1)], &[]);
    assert_eq!(newcomer.outcome(), (1, Status::Done));
    assert_eq!(raw::control(&socket).status()["sessions"], 2);
    // Nothing of it is left in the store.
    until("the store lets go", || {
        let tables = supervisor.stored().into_iter().filter(|(name, _)| name.ends_with('t'));
        (tables.count() == 2).then_some(())
    });
    let seen = supervisor.seen();
    assert_eq!((seen.fell, seen.complaints), (vec![], vec![]));
}

/// The code of the ERROR with which the connection ends, whatever was said before.
fn closing(session: &Session) -> ErrorCode {
    loop {
        let reply = session.wire.receive().expect("an ERROR before the end");
        if reply.body.is_err() {
            session.wire.closed();
            return reply.code();
        }
    }
}
