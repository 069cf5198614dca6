//! A client process: it waits for device work in one of several ways, and counts.
//!
//! It says `ready` once it has a session, works until its stdin ends, sees its last tickets out and
//! reports its counts as a line of JSON.

mod ends;
mod fds;
mod hold;
mod raw;
mod shared;
mod storm;
mod streams;
mod tagged;
mod tasks;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use parkd::client::Session;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::counts::Counts;
use crate::support::PATIENCE;

/// How a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Threads that block, on one session.
    Threads,
    /// Tasks of one runtime.
    Tasks,
    /// One thread that takes tagged results, with many tickets in flight.
    Tagged,
    /// Tickets on eventfds.
    Fds,
    /// Tickets that expire, and that are cancelled.
    Ends,
    /// SUBMIT messages over the socket, without the library.
    Raw,
    /// A thousand tickets that stay outstanding until the end.
    Hold,
    /// Tickets on lanes of another session.
    Shared,
    /// Full rings, session after session.
    Storm,
}

/// What a client process is told.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// How it waits.
    #[arg(long)]
    pub way: Way,
    /// The daemon's socket.
    #[arg(long)]
    pub socket: PathBuf,
    /// The device's socket.
    #[arg(long)]
    pub device: PathBuf,
    /// Chooses the lengths of the device's work.
    #[arg(long)]
    pub seed: u64,
    /// The process that started it, and that it ends with.
    #[arg(long)]
    pub parent: i32,
}

/// Whether the end has come.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Comes when stdin ends.
    fn with_stdin() -> Stop {
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let stopped = stop.0.clone();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            stopped.store(true, Ordering::Relaxed);
        });
        stop
    }

    /// Whether it has come.
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ClientArgs {
    /// Is that client.
    pub fn run(&self) {
        set_parent_process_death_signal(Some(Signal::KILL)).expect("PR_SET_PDEATHSIG");
        assert_eq!(getppid(), Pid::from_raw(self.parent), "the parent has gone");
        let mut counts = Counts::default();
        if let Err(error) = self.work(&mut counts) {
            counts.error(format_args!("{:?}: {error}", self.way));
            for _ in counts.results + counts.lost..counts.tickets {
                counts.never("a ticket of a client that gave up");
            }
        }
        println!("{}", serde_json::to_string(&counts).expect("JSON"));
    }

    fn work(&self, counts: &mut Counts) -> parkd::core::error::Result<()> {
        match self.way {
            Way::Threads => streams::work(self, counts),
            Way::Tasks => tasks::work(self, counts),
            Way::Tagged => tagged::work(self, counts),
            Way::Fds => fds::work(self, counts),
            Way::Ends => ends::work(self, counts),
            Way::Raw => raw::work(self, counts),
            Way::Hold => hold::work(self, counts),
            Way::Shared => shared::work(self, counts),
            Way::Storm => storm::work(self, counts),
        }
    }

    /// The client is up.
    fn ready(&self) -> Stop {
        println!("ready");
        Stop::with_stdin()
    }
}

/// The socket as [`Session::builder`] wants it, with rings of this many entries.
fn connect(socket: &Path, entries: u32, lanes: u32) -> parkd::core::error::Result<Session> {
    let builder = Session::builder().submit_entries(entries).result_entries(entries).lanes(lanes);
    builder.connect_to(socket)
}

/// How long to wait for a result. Where one was lost already, others are likely to be, and not
/// waited for as long.
fn patience(counts: &Counts) -> Duration {
    if counts.lost == 0 { PATIENCE } else { PATIENCE / 100 }
}

/// After the last ticket: what the session still owes, and what it got too much of.
fn settle(session: &Session, entries: u32, counts: &mut Counts) -> parkd::core::error::Result<()> {
    // The results of tickets that ended by a look at their own lane are still on their way.
    if !session.wait_for_room(entries, Some(patience(counts)))? {
        let missing = entries - session.room()?;
        for _ in 0..missing {
            counts.never("a result of a ticket that its client has seen reached");
        }
    }
    for _ in 0..session.strays() {
        counts.again("a result that names no ticket");
    }
    Ok(())
}
