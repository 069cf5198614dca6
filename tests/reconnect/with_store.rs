//! With an fd store: the supervisor kills the daemon, and its next life goes on.

use std::sync::Arc;
use std::time::Duration;

use parkd::client::{Session, Status};

use crate::load::{Load, end_of, event, eventually, write};
use crate::supervisor::{Supervisor, Unit};
use crate::support::{Executor, Folder};

crate::for_each_executor! {
    nobody_notices_under_load,
    fds_are_waited_for_by_the_next_life,
    who_looks_and_never_sleeps_notices_nothing,
}

fn start(executor: &Executor) -> (Arc<Folder>, Supervisor) {
    let folder = Folder::new();
    let config = folder.file("parkd.toml");
    let (socket, name) = (folder.socket(), executor.name);
    let text = format!("[daemon]\nsocket = {socket:?}\nexecutor = {name:?}\nstrict = true\n");
    std::fs::write(&config, text).expect("a configuration");
    let config = config.to_str().expect("a path in UTF-8");
    let program = env!("CARGO_BIN_EXE_parkd");
    let command = [program, "serve", "--config", config].map(str::to_owned).to_vec();
    let unit = Unit { command, store_max: 100, speaks: true, pause: Duration::from_millis(1) };
    let supervisor = Supervisor::start(&folder, unit);
    (folder, supervisor)
}

/// A session that would end with its connection.
fn connect(supervisor: &Supervisor) -> Session {
    let builder = Session::builder().submit_entries(64).result_entries(256);
    builder.reconnect(Duration::ZERO).connect_to(&supervisor.socket()).unwrap()
}

fn nobody_notices_under_load(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let load = Load::of(connect(&supervisor));
    let number = load.session.number();
    let plan = load.session.plan("flag:park_us=200,backstop_us=2000").unwrap();
    load.run(plan, || {
        for _ in 0..6 {
            load.over(|| {
                supervisor.kill();
            });
        }
        load.over(|| {
            supervisor.restart();
        });
    });
    assert_eq!((load.session.number(), load.session.generation()), (number, 8));
    assert_eq!(supervisor.seen().complaints, Vec::<String>::new());
}

fn fds_are_waited_for_by_the_next_life(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let session = connect(&supervisor);
    let events: Vec<_> = (0..20).map(|_| event()).collect();
    let submit = |event| session.fd_ticket(event).submit().unwrap();
    let mut tickets: Vec<_> = events.iter().map(submit).collect();
    for _ in 0..3 {
        let last = tickets.pop().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| end_of(last));
            supervisor.kill();
            write(&events[tickets.len()]);
            assert_eq!(waits.join().unwrap(), Status::Done);
        });
    }
    events.iter().for_each(write);
    assert!(tickets.into_iter().all(|ticket| end_of(ticket) == Status::Done));
    assert_eq!(session.strays(), 0);
}

fn who_looks_and_never_sleeps_notices_nothing(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let session = connect(&supervisor);
    let (lane, event) = (session.lane().unwrap(), event());
    let mut tickets = [
        lane.ticket(1).submit().unwrap(),
        session.fd_ticket(&event).submit().unwrap(),
        lane.ticket(2).deadline_in(Duration::from_millis(50)).submit().unwrap(),
    ];
    supervisor.kill();
    lane.store(1);
    write(&event);
    let ends = [Status::Done, Status::Done, Status::DeadlineExpired];
    for (ticket, end) in tickets.iter_mut().zip(ends) {
        eventually("its end", || ticket.try_wait().unwrap().is_some());
        assert_eq!(ticket.completion().unwrap().status, end);
    }
    assert_eq!(session.strays(), 0);
}
