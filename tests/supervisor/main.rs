//! The supervisor keeps systemd's promises, to a service that shares no code with it.

#[path = "mod.rs"]
pub mod supervisor;
#[path = "../support/mod.rs"]
pub mod support;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use supervisor::{Supervisor, Unit};
use support::raw::Wire;
use support::{Folder, PATIENCE, skipped, until};

/// Fds that the store takes.
const STORE: usize = 4;

/// A supervisor of the service in Python; none, where that cannot be run.
fn start() -> Option<Supervisor> {
    // What is called python3 may be a script that looks for it.
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let Some(found) = found.ok().filter(|found| found.status.success()) else {
        skipped("python3 cannot be run");
        return None;
    };
    let python = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let service = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/supervisor/service.py");
    let command = vec![python, service.to_str().expect("a path in UTF-8").to_owned()];
    let unit = Unit { command, store_max: STORE, speaks: true, pause: Duration::from_millis(1) };
    Some(Supervisor::start(&Folder::new(), unit))
}

/// A client of the service.
struct Client(OwnedFd);

impl Client {
    fn connect(supervisor: &Supervisor) -> Client {
        Client(Wire::connect(&supervisor.socket()).socket)
    }

    fn send(&self, line: &str) {
        send(&self.0, line.as_bytes(), SendFlags::NOSIGNAL).expect("send");
    }

    /// What comes; empty, where the connection has ended.
    fn receive(&self) -> String {
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&patience));
        assert_eq!(ready, Ok(1), "no answer within {PATIENCE:?}");
        let mut bytes = [0; 1000];
        let (length, _) = recv(&self.0, &mut bytes, RecvFlags::empty()).expect("recv");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn ask(&self, line: &str) -> String {
        self.send(line);
        self.receive()
    }
}

fn names(supervisor: &Supervisor) -> Vec<String> {
    supervisor.stored().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_connection_outlives_who_serves_it() {
    let Some(supervisor) = start() else { return };
    let client = Client::connect(&supervisor);
    supervisor.ready(1);
    let first = supervisor.pid();
    assert_eq!(client.ask("who"), format!("{first} listen"));
    assert_eq!(client.ask("keep other"), "done");
    for life in 1..=4 {
        let kill = supervisor.kill();
        assert_eq!(kill.life, life);
        assert!(kill.dead > kill.sent);
        // Sent while nobody lives: it is the next life's to read.
        client.send("who");
        let answer = client.receive();
        assert_eq!(answer, format!("{} listen:other:c1", supervisor.pid()), "the last comes first");
        supervisor.ready(life + 1);
    }
    let ended = supervisor.restart();
    assert_eq!(ended.life, 5);
    assert_eq!(client.ask("who"), format!("{} listen:other:c1", supervisor.pid()));
    let seen = supervisor.seen();
    assert_eq!((seen.lives, seen.fell, seen.complaints), (6, vec![], vec![]));
    assert_eq!(seen.status, "serving");
}

#[test]
fn who_connects_while_nobody_lives_is_served_by_the_next() {
    let Some(supervisor) = start() else { return };
    supervisor.ready(1);
    supervisor.kill();
    let client = Client::connect(&supervisor);
    assert!(client.ask("who").ends_with(" listen"));
}

#[test]
fn a_life_that_falls_is_followed_and_noted() {
    let Some(supervisor) = start() else { return };
    let client = Client::connect(&supervisor);
    supervisor.ready(1);
    client.send("fail");
    supervisor.ready(2);
    let fell: Vec<_> =
        supervisor.seen().fell.iter().map(|(life, how)| (*life, how.code())).collect();
    assert_eq!(fell, [(1, Some(7))]);
}

#[test]
fn what_was_sent_before_a_death_counts() {
    let Some(supervisor) = start() else { return };
    let client = Client::connect(&supervisor);
    client.send("die");
    supervisor.ready(2);
    assert_eq!(names(&supervisor), ["last", "c1"]);
}

#[test]
fn the_store_lets_go_of_what_is_taken_back_or_hangs_up() {
    let Some(supervisor) = start() else { return };
    let clients = [(); 2].map(|()| Client::connect(&supervisor));
    assert_eq!(clients[0].ask("keep other"), "done");
    assert_eq!(clients[1].ask("say WATCHDOG=1"), "done");
    assert_eq!(names(&supervisor), ["other", "c2", "c1"]);
    let [client, goes] = clients;
    drop(goes);
    until("the store lets go", || (names(&supervisor) == ["other", "c1"]).then_some(()));
    // Behind the barrier of the answer.
    assert_eq!(client.ask("drop other"), "done");
    assert_eq!(names(&supervisor), ["c1"]);
    assert_eq!(supervisor.seen().watchdogs, 1);
    supervisor.kill();
    drop(client);
    until("the store lets go", || names(&supervisor).is_empty().then_some(()));
}

#[test]
fn what_systemd_would_not_take_is_complained_of() {
    let Some(supervisor) = start() else { return };
    let client = Client::connect(&supervisor);
    for line in ["again", "keep a:b", "keep other", "keep third", "keep fourth", "child"] {
        assert_eq!(client.ask(line), "done");
    }
    assert_eq!(client.ask("say FDSTOREREMOVE=1"), "done");
    assert_eq!(client.ask("say BARRIER=1\nSTATUS=x"), "done");
    let seen = supervisor.seen();
    let wanted = [
        "again: is there already, as c1",
        "FDNAME=a:b: not a name",
        "fourth: the store is full, 4 fds",
        "[\"STATUS=a child\"]: from",
        "FDSTOREREMOVE=1 without FDNAME=",
        "[\"BARRIER=1\", \"STATUS=x\"]: more than a barrier",
    ];
    assert_eq!(seen.complaints.len(), wanted.len(), "{:?}", seen.complaints);
    for (complaint, wanted) in seen.complaints.iter().zip(wanted) {
        assert!(complaint.starts_with(wanted), "{complaint}");
    }
    assert_eq!(seen.status, "serving");
    assert_eq!(names(&supervisor), ["third", "other", "stored", "c1"]);
}
