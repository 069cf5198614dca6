//! What the end-to-end tests stand on: private daemons, and patience.
//!
//! A *private daemon* is a real `parkd serve` with a folder, a socket and a log of its own; it is
//! killed when its [`Daemon`] goes, and a test that fails prints its log. A test is a function of
//! the [`Executor`] and is run once for each by [`for_each_executor!`](crate::for_each_executor).
//! Nothing here sleeps for a time and hopes: what is waited for is looked at, within [`PATIENCE`].

pub mod device;
pub mod raw;
pub mod user;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parkd::daemon::boot::{BootNote, Known};
use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before it counts as never.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What drives FILL in a test.
#[derive(Clone, Copy, Debug)]
pub struct Executor {
    /// Its name in the configuration.
    pub name: &'static str,
}

/// One io_uring.
pub const IO_URING: Executor = Executor { name: "io-uring" };

/// epoll, with eventfds as bells.
pub const GPU_REACTOR: Executor = Executor { name: "gpu-reactor" };

/// Polling, bounded.
pub const NAIVE: Executor = Executor { name: "naive" };

/// All of them.
pub const EXECUTORS: [Executor; 3] = [IO_URING, GPU_REACTOR, NAIVE];

/// Makes a test of each function for every executor.
#[macro_export]
macro_rules! for_each_executor {
    ($($test:ident),+ $(,)?) => {
        mod io_uring {
            $(#[test]
            fn $test() {
                $crate::support::run(&$crate::support::IO_URING, super::$test);
            })+
        }
        mod gpu_reactor {
            $(#[test]
            fn $test() {
                $crate::support::run(&$crate::support::GPU_REACTOR, super::$test);
            })+
        }
        mod naive {
            $(#[test]
            fn $test() {
                $crate::support::run(&$crate::support::NAIVE, super::$test);
            })+
        }
    };
}

/// Runs a test for an executor, or says why that cannot be had here.
pub fn run(executor: &Executor, test: fn(&Executor)) {
    match parkd::host::kinds::resolve(executor.name, true) {
        Ok(_) => test(executor),
        Err(why) => skipped(&why.to_string()),
    }
}

/// Says why something was not tested. Past the harness, which swallows what passing tests print.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Looks until there is something to see.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Compiles a C program that is one file, and answers where it is; or says why it cannot be.
pub fn compiled(source: &Path) -> Result<PathBuf, String> {
    compiled_with(source, &[])
}

/// As [`compiled`], with more arguments for the compiler.
pub fn compiled_with(source: &Path, more: &[&str]) -> Result<PathBuf, String> {
    let name = source.file_stem().expect("a file's name");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
        .args(more)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .output()
        .map_err(|error| format!("no C compiler: cc: {error}"))?;
    // A compiler that is there and refuses the program is no reason to skip.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}

/// A folder of a test's own, for sockets and logs; removed in the end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub fn new() -> Arc<Folder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("parkd-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a temporary folder");
        let folder = Folder(path);
        folder.futexes(&Known::Sound);
        Arc::new(folder)
    }

    /// Where daemons of this folder listen.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// Has its daemons know this of futex wakes, so that they need not try.
    pub fn futexes(&self, known: &Known) {
        let note = BootNote::beside(&self.socket()).expect("this boot's name");
        note.write(known).expect("a file beside the socket");
    }

    /// A file of this folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A private daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    folder: Arc<Folder>,
    log: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits until it listens. `config` goes on in `[daemon]`, where socket,
    /// executor and strict are set, and may add tables.
    pub fn start(executor: &Executor, config: &str) -> Daemon {
        let daemon = Daemon::start_in(&Folder::new(), executor, config);
        // Connections are closed a little later than they end: what it has open then is its own.
        until("only the listener is left", || (daemon.sockets() == 1).then_some(()));
        daemon
    }

    /// As [`Daemon::start`], in a folder where another daemon may have been.
    pub fn start_in(folder: &Arc<Folder>, executor: &Executor, config: &str) -> Daemon {
        let mut daemon = Daemon::launch(folder, executor, config);
        daemon.listening();
        daemon
    }

    /// Starts a daemon, whatever becomes of it.
    pub fn launch(folder: &Arc<Folder>, executor: &Executor, config: &str) -> Daemon {
        let program = Command::new(env!("CARGO_BIN_EXE_parkd"));
        let head = format!("executor = {:?}\nstrict = true\n", executor.name);
        Daemon::launch_as(program, folder, &(head + config))
    }

    /// As [`Daemon::launch`], by this program, which takes the daemon's arguments. `config` goes on
    /// in `[daemon]`, where only the socket is set.
    pub fn launch_as(mut program: Command, folder: &Arc<Folder>, config: &str) -> Daemon {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (file, log) = (folder.file(&format!("{number}.toml")), folder.file("log"));
        let log = log.with_extension(number.to_string());
        let head = format!("[daemon]\nsocket = {:?}\n", folder.socket());
        fs::write(&file, head + config).expect("a configuration");
        let child = program
            .args(["serve", "--config"])
            .arg(&file)
            .env_remove("PARKD_LOG")
            .env_remove("JOURNAL_STREAM")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the daemon's program");
        Daemon { child, folder: folder.clone(), log }
    }

    /// Waits until it serves, and leaves no trace of having asked.
    pub fn listening(&mut self) {
        until("the daemon listens", || {
            let ended = self.child.try_wait().expect("the daemon's state");
            assert!(ended.is_none(), "the daemon ended with {ended:?}");
            raw::Wire::try_connect(&self.folder.socket()).ok()
        });
        raw::control(&self.folder.socket()).bye();
    }

    /// Sockets that it has open.
    fn sockets(&self) -> usize {
        let fds = fs::read_dir(self.proc("fd")).expect("the daemon's fds");
        let links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A file of its folder in /proc.
    pub fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid().to_string()).join(name)
    }

    /// How many fds it has open.
    pub fn fds(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("the daemon's fds").count()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child), signal).expect("a signal to the daemon");
    }

    /// How it ended.
    pub fn ended(&mut self) -> ExitStatus {
        until("the daemon ends", || self.child.try_wait().expect("the daemon's state"))
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("the daemon's state").is_none()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of daemon {}\n{}---", self.pid(), self.log());
        }
    }
}

/// A child's number, for signals.
pub fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
