//! Two daemons and one path.
//!
//! A second daemon is this test binary again, told by its environment which path to bind: it says
//! on stdout what came of it and holds the socket until its stdin ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::*;

const ROLE: &str = "PARKD_TEST_BIND";

/// A folder of this test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("parkd-listen-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("parkd.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Another process that binds; killed at the end.
struct Daemon(Child);

impl Daemon {
    fn start(path: &Path) -> Daemon {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "daemon::listen::tests::a_second_process_binds"])
            .env(ROLE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Daemon(child)
    }

    /// What came of it: "bound", or the code's name.
    fn outcome(&mut self) -> String {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        let mut said = lines
            .map_while(io::Result::ok)
            .filter_map(|line| line.split_once("outcome=").map(|(_, outcome)| outcome.to_owned()));
        said.next().unwrap()
    }

    /// Lets it end by itself.
    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn play_role(path: &Path) {
    let listener = Listener::bind(path, None);
    let outcome = match &listener {
        Ok(_) => "bound",
        Err(error) => error.code.name(),
    };
    println!("\noutcome={outcome}");
    io::stdout().flush().unwrap();
    let _ = io::stdin().lines().count();
}

fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = seqpacket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[test]
fn a_second_process_binds() {
    if let Some(path) = std::env::var_os(ROLE) {
        return play_role(Path::new(&path));
    }
    let folder = Folder::new();
    let mut daemon = Daemon::start(&folder.path());
    assert_eq!(daemon.outcome(), "bound");
    connect(&folder.path()).unwrap();
    let refused = Listener::bind(&folder.path(), None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SocketInUse);
    connect(&folder.path()).unwrap();
    daemon.end();
    assert!(!folder.path().exists());
    Listener::bind(&folder.path(), None).unwrap();
}

#[test]
fn of_processes_that_race_one_binds() {
    let folder = Folder::new();
    let mut racing: Vec<Daemon> = (0..4).map(|_| Daemon::start(&folder.path())).collect();
    let mut outcomes: Vec<String> = racing.iter_mut().map(Daemon::outcome).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["SocketInUse", "SocketInUse", "SocketInUse", "bound"]);
    connect(&folder.path()).unwrap();
}

#[test]
fn of_threads_that_start_at_once_one_binds() {
    for _ in 0..50 {
        let folder = Folder::new();
        let start = Barrier::new(3);
        let bind = || {
            start.wait();
            Listener::bind(&folder.path(), None)
        };
        let outcomes = thread::scope(|scope| {
            let racing: Vec<_> = (0..3).map(|_| scope.spawn(bind)).collect();
            racing.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let refused: Vec<_> = outcomes.iter().filter_map(|one| one.as_ref().err()).collect();
        assert_eq!(refused.len(), 2, "{outcomes:?}");
        assert!(refused.iter().all(|e| e.code == ErrorCode::SocketInUse), "{refused:?}");
        connect(&folder.path()).unwrap();
    }
}

#[test]
fn a_daemon_that_has_not_bound_yet_has_the_path() {
    let folder = Folder::new();
    let _lock = lock(&folder.path()).unwrap();
    let refused = Listener::bind(&folder.path(), None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SocketInUse);
    assert!(!folder.path().exists());
}

#[test]
fn what_a_killed_daemon_left_is_taken_over() {
    let folder = Folder::new();
    let mut daemon = Daemon::start(&folder.path());
    assert_eq!(daemon.outcome(), "bound");
    drop(daemon);
    let left_over = identity(&folder.path()).unwrap();
    assert_eq!(connect(&folder.path()).unwrap_err(), Errno::CONNREFUSED);
    fs::write(beside(&folder.path(), TEMPORARY), "left over, too").unwrap();
    let (_listener, warning) = Listener::bind(&folder.path(), None).unwrap();
    assert_eq!(warning, None);
    assert_ne!(identity(&folder.path()).unwrap(), left_over);
    connect(&folder.path()).unwrap();
}

#[test]
fn a_live_socket_without_a_lock_is_left_alone() {
    for kind in [SocketType::SEQPACKET, SocketType::STREAM] {
        let folder = Folder::new();
        let socket = rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(folder.path()).unwrap()).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let living = identity(&folder.path()).unwrap();
        let refused = Listener::bind(&folder.path(), None).unwrap_err();
        assert_eq!(refused.code, ErrorCode::SocketInUse);
        assert_eq!(identity(&folder.path()).unwrap(), living);
    }
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = Folder::new();
    fs::write(folder.path(), "precious").unwrap();
    let refused = Listener::bind(&folder.path(), None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SocketUnavailable);
    assert_eq!(fs::read_to_string(folder.path()).unwrap(), "precious");
}

#[test]
fn the_socket_has_its_mode_and_group_and_accepts() {
    let folder = Folder::new();
    let root = rustix::process::geteuid().is_root();
    let gid = if root { 12_345 } else { rustix::process::getegid().as_raw() };
    let (listener, warning) = Listener::bind(&folder.path(), Some(gid)).unwrap();
    assert_eq!(warning, None);
    let found = fs::symlink_metadata(folder.path()).unwrap();
    assert_eq!((found.permissions().mode() & 0o7777, found.gid()), (0o660, gid));
    // Nobody waits: the socket must not block its owner.
    assert_eq!(rustix::net::accept(&listener).unwrap_err(), Errno::AGAIN);
    let client = connect(&folder.path()).unwrap();
    let server = rustix::net::accept(&listener).unwrap();
    rustix::net::send(&client, b"one", rustix::net::SendFlags::empty()).unwrap();
    rustix::net::send(&client, b"two", rustix::net::SendFlags::empty()).unwrap();
    let mut record = [0_u8; 16];
    let (bytes, _) =
        rustix::net::recv(&server, &mut record, rustix::net::RecvFlags::empty()).unwrap();
    assert_eq!(&record[..bytes], b"one");
}

#[test]
fn who_finds_the_socket_finds_it_listening() {
    for _ in 0..50 {
        let folder = Folder::new();
        let path = folder.path();
        let client = thread::spawn(move || {
            loop {
                match connect(&path) {
                    Ok(_) => return,
                    Err(e) => assert_eq!(e, Errno::NOENT),
                }
            }
        });
        let _listener = Listener::bind(&folder.path(), None).unwrap();
        client.join().unwrap();
    }
}

#[test]
fn the_end_unlinks_only_its_own_socket() {
    let folder = Folder::new();
    let (listener, _) = Listener::bind(&folder.path(), None).unwrap();
    drop(listener);
    assert!(!folder.path().exists());

    let (listener, _) = Listener::bind(&folder.path(), None).unwrap();
    fs::remove_file(folder.path()).unwrap();
    fs::write(folder.path(), "another's").unwrap();
    drop(listener);
    assert!(folder.path().exists());
}

#[test]
fn the_folder_is_made_but_not_the_one_above_it() {
    let folder = Folder::new();
    let path = folder.0.join("run/parkd.sock");
    let (listener, _) = Listener::bind(&path, None).unwrap();
    assert_eq!(listener.path(), path);
    let refused = Listener::bind(&folder.0.join("a/b/parkd.sock"), None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SocketUnavailable);
    assert!(!folder.0.join("a").exists());
}

#[test]
fn a_path_that_is_too_long_is_refused_and_the_longest_is_not() {
    let folder = Folder::new();
    let fill = SOCKET_PATH_BYTES_MAX - folder.0.as_os_str().len() - 1;
    Listener::bind(&folder.0.join("x".repeat(fill)), None).unwrap();
    let refused = Listener::bind(&folder.0.join("x".repeat(fill + 1)), None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SocketUnavailable);
}
