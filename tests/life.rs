//! Beginnings and ends: what a daemon is while it runs, and what is left of a client that dies,
//! of a daemon that is stopped, and of one that is killed.

pub mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use parkd::core::error::ErrorCode;
use parkd::core::time::MonoNs;
use parkd::host::clock;
use parkd::proto::entry::Status;
use parkd::shm::status::StatusReader;
use rustix::event::EventfdFlags;
use rustix::io::FdFlags;
use rustix::process::Signal;
use serde_json::Value;

use support::raw::{self, Session, Wire, fd, word};
use support::{Daemon, Executor, Folder, until};

for_each_executor! {
    a_killed_client_leaves_nothing,
    a_socket_that_a_child_inherited_keeps_nothing,
    who_says_bye_leaves_nothing,
    who_was_dead_before_it_was_met_gets_nothing,
    a_stopped_daemon_ends_every_ticket,
    only_fill_is_pinned,
    an_idle_daemon_sleeps,
    the_executor_is_said_everywhere,
    a_second_daemon_is_refused,
    a_dead_daemons_socket_is_taken_over,
}

/// Where the process below finds the daemon, and whether it is to have a child of its own.
const CLIENT: &str = "PARKD_TEST_CLIENT";
const HEIR: &str = "PARKD_TEST_HEIR";

/// Tickets of the process below.
const TICKETS: u64 = 8;

/// Not a test by itself: this program is started again to be a client that can be killed.
#[test]
fn a_client_process() {
    let Some(socket) = std::env::var_os(CLIENT) else { return };
    let mut session = Session::open(Path::new(&socket));
    let lane = session.lane(64).lane;
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    session.submit(&[fd(0, 1), fd(1, 2)], &[event.as_fd(), event.as_fd()]);
    let words: Vec<_> = (3..=TICKETS).map(|name| word(lane, 1, name)).collect();
    session.submit(&words, &[]);
    let heir = std::env::var_os(HEIR).map(|_| {
        let socket = &session.wire.socket;
        rustix::io::fcntl_setfd(socket, FdFlags::empty()).expect("an inheritable socket");
        Command::new("cat").stdout(Stdio::null()).spawn().expect("cat")
    });
    println!("\nready");
    // Until who started it closes the pipe.
    let _ = std::io::stdin().read(&mut [0]);
    drop(heir);
}

/// Such a process, and the pipe that ends it and its heir.
fn client(daemon: &Daemon, heir: bool) -> (Child, ChildStdin) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "a_client_process", "--nocapture"]).env(CLIENT, daemon.socket());
    if heir {
        command.env(HEIR, "1");
    }
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut child = command.stdin(input).stdout(output).spawn().expect("a client process");
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let lines = BufReader::new(output.expect("a pipe")).lines();
    let ready = lines.map_while(Result::ok).any(|line| line == "ready");
    assert!(ready, "the client process ended: {:?}", child.wait());
    (child, input.expect("a pipe"))
}

/// What a daemon holds for its sessions: fds, and mappings of session memory.
fn held(daemon: &Daemon) -> (usize, usize) {
    let maps = fs::read_to_string(daemon.proc("maps")).expect("the daemon's maps");
    let session = |line: &&str| {
        ["parkd-rings", "parkd-lanes", "parkd-table"].iter().any(|name| line.contains(name))
    };
    (daemon.fds(), maps.lines().filter(session).count())
}

/// Waits until a daemon holds what it held before, and serves no session.
fn nothing_left(daemon: &Daemon, observer: &Wire, before: (usize, usize)) {
    until("the session is gone", || {
        let status = observer.status();
        let gone = status["sessions"] == 0 && status["tickets"] == 0;
        (gone && held(daemon) == before).then_some(())
    });
}

/// One session at a time, and that only if the last one's share is free again.
const ONE: &str = "[limits]\nsessions = 1\nsessions_per_uid = 1\nlanes_per_uid = 64\n\
                   tickets_per_uid = 64\nfds_per_uid = 2\n";

/// Runs a client process, has `end` end it, and checks that nothing is left and all is free.
fn ends(executor: &Executor, heir: bool, end: impl Fn(&mut Child)) {
    let daemon = Daemon::start(executor, ONE);
    let observer = raw::control(&daemon.socket());
    let before = held(&daemon);
    assert_eq!(before.1, 0);
    for _ in 0..2 {
        let (mut process, pipe) = client(&daemon, heir);
        let status = observer.status();
        assert_eq!((&status["sessions"], &status["tickets"]), (&1.into(), &TICKETS.into()));
        assert_eq!(status["session_list"][0]["pid"], process.id());
        assert!(held(&daemon).0 > before.0 && held(&daemon).1 >= 3, "{:?}", held(&daemon));
        end(&mut process);
        nothing_left(&daemon, &observer, before);
        process.wait().expect("the client process has ended");
        drop(pipe);
    }
}

fn a_killed_client_leaves_nothing(executor: &Executor) {
    ends(executor, false, |process| process.kill().expect("SIGKILL"));
}

fn a_socket_that_a_child_inherited_keeps_nothing(executor: &Executor) {
    // Killed, but not waited for: a zombie has ended as well.
    ends(executor, true, |process| process.kill().expect("SIGKILL"));
}

fn who_says_bye_leaves_nothing(executor: &Executor) {
    let daemon = Daemon::start(executor, ONE);
    let observer = raw::control(&daemon.socket());
    let before = held(&daemon);
    for _ in 0..2 {
        let mut session = Session::open(&daemon.socket());
        let lane = session.lane(64).lane;
        session.submit(&[word(lane, 1, 1)], &[]);
        session.wire.bye();
        nothing_left(&daemon, &observer, before);
    }
}

/// A process may be gone before the daemon takes its connection: what it left to a child is no
/// client.
fn who_was_dead_before_it_was_met_gets_nothing(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let observer = raw::control(&daemon.socket());
    let before = held(&daemon);
    daemon.signal(Signal::STOP);
    // The shell connects by its child's hands: there is no process left of the one that did.
    let script = format!(
        "import os, socket, sys\n\
         peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
         peer.connect({:?})\n\
         if os.fork(): os._exit(0)\n\
         sys.stdin.read()\n",
        daemon.socket()
    );
    let spawned = Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut process) = spawned else { return support::skipped("python3 cannot be run") };
    let pipe = process.stdin.take();
    assert!(process.wait().expect("python3").success());
    daemon.signal(Signal::CONT);
    until("the connection is dropped", || {
        observer.status();
        (held(&daemon) == before).then_some(())
    });
    drop(pipe);
}

fn a_stopped_daemon_ends_every_ticket(executor: &Executor) {
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = Daemon::start(executor, "");
        let mut session = Session::open(&daemon.socket());
        let idle = Session::open(&daemon.socket());
        let lane = session.lane(64).lane;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        session.submit(&[word(lane, 1, 1), word(lane, 2, 2), fd(0, 3)], &[event.as_fd()]);
        let tail = session.arm(parkd::proto::layout::armed::TAIL);
        daemon.signal(signal);
        session.park(tail);
        let mut ended = [(); 3].map(|()| session.outcome());
        ended.sort_unstable_by_key(|(user_data, _)| *user_data);
        assert_eq!(ended, [1, 2, 3].map(|name| (name, Status::ShuttingDown)));
        session.wire.closed();
        idle.wire.closed();
        assert_eq!(session.close_code(), ErrorCode::Disconnected);
        assert_eq!(idle.close_code(), ErrorCode::Disconnected);
        assert_eq!(daemon.ended().code(), Some(0), "{signal:?}");
        assert!(!daemon.socket().exists());
    }
}

/// A thread of a daemon: its name, the CPUs that it may use, and its context switches.
#[derive(Debug, PartialEq)]
struct Thread {
    name: String,
    cpus: String,
    switches: u64,
}

fn threads(daemon: &Daemon) -> Vec<Thread> {
    let read = |task: fs::DirEntry| {
        // A thread that has just ended is none.
        let text = fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        let count = |name| field(name).parse::<u64>().expect("a count");
        Some(Thread {
            name: field("Name"),
            cpus: field("Cpus_allowed_list"),
            switches: count("voluntary_ctxt_switches") + count("nonvoluntary_ctxt_switches"),
        })
    };
    let tasks = fs::read_dir(daemon.proc("task")).expect("the daemon's threads");
    tasks.map_while(Result::ok).filter_map(read).collect()
}

fn only_fill_is_pinned(executor: &Executor) {
    let ours = fs::read_to_string("/proc/thread-self/status").expect("this thread's status");
    let ours = ours.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ours = ours.expect("its CPUs").trim();
    for cpu in ["\"auto\"", "0"] {
        let daemon = Daemon::start(executor, &format!("cpu = {cpu}\n"));
        let _session = Session::open(&daemon.socket());
        let status = raw::control(&daemon.socket()).status();
        let (fill, rest): (Vec<Thread>, Vec<Thread>) =
            threads(&daemon).into_iter().partition(|thread| thread.name == "parkd-fill");
        assert_eq!(fill.len(), 1, "{rest:?}");
        assert_eq!(fill[0].cpus, status["cpu"].to_string());
        assert!(cpu == "\"auto\"" || status["cpu"] == 0);
        assert!(!rest.is_empty() && rest.iter().all(|thread| thread.cpus == ours), "{rest:?}");
    }
}

/// Waits until this much time has passed.
fn pass(ns: u64) {
    let MonoNs(start) = clock::now();
    until("time passes", || (clock::now().0 >= start + ns).then_some(()));
}

/// Threads that find something out after the start, and end.
const STARTERS: [&str; 3] = ["parkd-trial", "parkd-lead", "parkd-wakes"];

fn an_idle_daemon_sleeps(executor: &Executor) {
    if executor.name == support::NAIVE.name {
        return support::skipped("the naive executor polls");
    }
    let daemon = Daemon::start(executor, "");
    let mut sessions = Vec::new();
    for count in [0, 4] {
        while sessions.len() < count {
            let mut session = Session::open(&daemon.socket());
            let lane = session.lane(64).lane;
            session.submit(&[word(lane, 1, 1)], &[]);
            session.store(lane, 1);
            assert_eq!(session.outcome(), (1, Status::Done));
            sessions.push(session);
        }
        // What was asked of it before may not be over, nor what it measures after its start.
        until("the daemon comes to rest", || {
            let before = threads(&daemon);
            pass(50_000_000);
            let measures = before.iter().any(|thread| STARTERS.contains(&thread.name.as_str()));
            (!measures && threads(&daemon) == before).then_some(())
        });
        let before = threads(&daemon);
        pass(1_000_000_000);
        assert_eq!(threads(&daemon), before, "{count} sessions");
    }
}

fn the_executor_is_said_everywhere(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = Session::open(&daemon.socket());
    assert_eq!(session.wire.status()["executor"], executor.name);
    let page = StatusReader::new(session.status.clone()).expect("the status page");
    assert_eq!(page.executor(), executor.name);
    let said = format!("executor={:?}", executor.name);
    assert!(daemon.log().contains(&said), "no {said} in the log");
}

fn a_second_daemon_is_refused(executor: &Executor) {
    let folder = Folder::new();
    let mut first = Daemon::start_in(&folder, executor, "");
    let mut session = Session::open(&first.socket());
    let mut second = Daemon::launch(&folder, executor, "");
    assert_eq!(second.ended().code(), Some(1));
    assert!(second.log().contains("SocketInUse (52)"), "{}", second.log());
    assert!(first.runs());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 0, 1)], &[]);
    assert_eq!(session.outcome(), (1, Status::Done));
    Session::open(&first.socket());
}

fn a_dead_daemons_socket_is_taken_over(executor: &Executor) {
    let folder = Folder::new();
    let mut first = Daemon::start_in(&folder, executor, "");
    let session = Session::open(&first.socket());
    first.signal(Signal::KILL);
    first.ended();
    session.wire.closed();
    assert!(folder.socket().exists(), "nothing is left over");
    let second = Daemon::start_in(&folder, executor, "");
    let status: Value = raw::control(&second.socket()).status();
    assert_eq!((&status["pid"], &status["sessions"]), (&second.pid().into(), &0.into()));
    // The first one's end takes nothing away from the second.
    drop(first);
    Session::open(&second.socket());
}
