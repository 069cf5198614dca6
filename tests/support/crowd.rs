//! A crowd: tens of thousands of waits of several processes on the result tail of one session.
//!
//! This program is started again for each process, which waits through an io_uring of its own until
//! its standard input ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use parkd::host::fill::{EventBatch, FillHost, Token};
use parkd::host::{futex, kinds};
use parkd::proto::layout::rings;
use parkd::shm::area;
use parkd::shm::words::ReadWords;

use super::support::raw::Session;

/// Waits of all of them, and processes.
const WAITS: u64 = 50_000;
const PROCESSES: u64 = 4;

const RINGS: &str = "PARKD_TEST_CROWD_RINGS";
const SEEN: &str = "PARKD_TEST_CROWD_SEEN";

/// The processes; they end with it.
pub struct Crowd(Vec<Child>);

impl Crowd {
    /// Gathers on a session's tail, which is as it was last read; or says why that cannot be.
    pub fn gather(session: &Session) -> Result<Crowd, String> {
        kinds::io_uring().map_err(|why| format!("50,000 waits need io_uring: {why}"))?;
        let rings = format!("/proc/{}/fd/{}", std::process::id(), session.rings_fd.as_raw_fd());
        let start = |_| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "crowd::a_process_of_its_own", "--nocapture"])
                .env(RINGS, &rings)
                .env(SEEN, session.result_head.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a process")
        };
        let mut crowd = Crowd((0..PROCESSES).map(start).collect());
        assert_eq!(crowd.said("waits"), WAITS);
        Ok(crowd)
    }

    /// How many have been woken.
    pub fn woken(mut self) -> u64 {
        self.0.iter_mut().for_each(|process| drop(process.stdin.take()));
        self.said("woken")
    }

    /// The sum of the numbers that they say behind this word.
    fn said(&mut self, word: &str) -> u64 {
        let number = |process: &mut Child| {
            let mut lines = BufReader::with_capacity(1, process.stdout.as_mut().expect("a pipe"));
            let mut line = String::new();
            loop {
                line.clear();
                let bytes = lines.read_line(&mut line).expect("a line");
                assert_ne!(bytes, 0, "a process of the crowd ended");
                if let Some(number) = line.strip_prefix(word) {
                    return number.trim().parse::<u64>().expect("a number");
                }
            }
        };
        self.0.iter_mut().map(number).sum()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Not a test by itself: a process of the crowd.
#[test]
fn a_process_of_its_own() {
    let Ok(path) = std::env::var(RINGS) else { return };
    let seen = std::env::var(SEEN).ok().and_then(|seen| seen.parse().ok()).expect("a number");
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the rings");
    let (memory, _) = area::open_rings(&file).expect("rings");
    let tail = futex::FutexAddr::new(memory.address(rings::RESULT_TAIL));
    let mut host = kinds::io_uring().expect("an io_uring");
    for wait in 0..WAITS / PROCESSES {
        host.watch_word(Token(wait), tail, seen).expect("a wait on the tail");
    }
    host.flush().expect("the waits begin");
    say("waits", WAITS / PROCESSES);
    let _ = std::io::stdin().read(&mut [0]);
    let (mut woken, mut events) = (0, EventBatch::new());
    while host.reap(&mut events).is_ok_and(|count| count > 0) {
        woken += events.len() as u64;
    }
    say("woken", woken);
}

fn say(word: &str, number: u64) {
    let mut output = std::io::stdout();
    writeln!(output, "\n{word} {number}").and_then(|()| output.flush()).expect("an ear");
}
