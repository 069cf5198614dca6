//! A client that always waits for what is there already: its results say that a daemon is at work.
//!
//! A ticket of it is outstanding at almost any time, on a number that is stored at once and
//! silently. So the first result that was published after a daemon's death is the next one's first.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parkd::client::{Lane, Session, Status};
use parkd::core::error::Result;
use parkd::core::time::{DurNs, MonoNs};
use parkd::host::clock;

use super::counts::Counts;
use crate::support::PATIENCE;

/// Between two tickets.
const PACE: Duration = Duration::from_millis(1);

/// A result.
#[derive(Clone, Copy, Debug)]
struct Sign {
    published: MonoNs,
    seen: MonoNs,
}

/// The probe's thread, from outside.
#[derive(Debug)]
pub struct Probe {
    signs: Receiver<Sign>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Counts>>,
}

impl Probe {
    /// Connects, and begins to wait.
    pub fn start(socket: &Path) -> Result<Probe> {
        let session =
            Session::builder().submit_entries(64).result_entries(64).connect_to(socket)?;
        let lane = session.lane()?;
        let (sender, signs) = channel();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut counts = Counts::default();
            if let Err(error) = wait(&lane, &sender, &stopped, &mut counts) {
                counts.error(format_args!("probe: {error}"));
            }
            counts
        });
        Ok(Probe { signs, stop: Some(stop), thread: Some(thread) })
    }

    /// How long after `since` the first result was seen that was published after `after`; none if
    /// there never is one.
    pub fn first_after(&self, since: MonoNs, after: MonoNs) -> Option<DurNs> {
        let end = clock::now() + DurNs(PATIENCE.as_nanos() as u64);
        loop {
            let left = Duration::from_nanos(end.since(clock::now()).0);
            let sign = self.signs.recv_timeout(left).ok()?;
            if sign.published > after {
                return Some(sign.seen.since(since));
            }
        }
    }

    /// Ends it, and answers what it counted.
    pub fn stop(mut self) -> Counts {
        drop(self.stop.take());
        let thread = self.thread.take().expect("a probe that was not stopped");
        thread.join().expect("the probe")
    }
}

fn wait(
    lane: &Lane,
    signs: &Sender<Sign>,
    stopped: &Receiver<()>,
    counts: &mut Counts,
) -> Result<()> {
    let session = lane.session();
    let mut number = lane.value();
    // A disconnected channel is the end; one that is silent is a pause.
    while stopped.recv_timeout(PACE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        number += 1;
        // All tagged tickets are the daemon's to answer.
        session.submit_all_tagged([(lane.ticket(number), number)])?;
        counts.tickets += 1;
        lane.store(number);
        match session.next_completion(Some(PATIENCE))? {
            Some((tag, completion)) if tag == number && completion.status == Status::Done => {
                counts.results += 1;
                let sign = Sign { published: completion.published, seen: clock::now() };
                let _ = signs.send(sign);
            }
            Some((tag, completion)) => counts.error(format_args!("probe {tag}: {completion:?}")),
            None => {
                counts.never(format_args!("probe {number}"));
                break;
            }
        }
    }
    (0..session.strays()).for_each(|_| counts.again("a result that names no ticket"));
    Ok(())
}
