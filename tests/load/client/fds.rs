//! Tickets on eventfds, which the daemon has to hold: after a restart it is sent them again.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parkd::client::{Session, Status, Ticket};
use parkd::core::error::Result;
use parkd::core::time::MonoNs;
use parkd::host::clock;
use rustix::event::{EventfdFlags, eventfd};

use super::super::counts::Counts;
use super::super::{Dice, idle};
use super::{ClientArgs, connect, patience, settle};

/// Tickets in flight.
const DEPTH: usize = 8;
/// The longest time that an eventfd is written after its predecessor.
const WRITE_US: u64 = 4000;
/// Entries of the rings.
const ENTRIES: u32 = 64;

/// A file that becomes readable, and when.
struct Event {
    fd: OwnedFd,
    /// Nanoseconds; 0 until just before the write.
    written: AtomicU64,
}

/// Waits for one eventfd after another.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let session = connect(&args.socket, ENTRIES, 64)?;
    let stop = args.ready();
    let (sender, events) = channel();
    let dice = Dice::new(args.seed);
    let writer = std::thread::spawn(move || write(&events, dice));
    let mut flying: VecDeque<(Arc<Event>, Ticket)> = VecDeque::new();
    while !(stop.is() && flying.is_empty()) {
        if flying.len() < DEPTH && !stop.is() {
            flying.push_back(submit(&session, &sender, counts)?);
            continue;
        }
        let Some((event, mut ticket)) = flying.pop_front() else { continue };
        match ticket.wait_for(patience(counts))? {
            Some(completion) => {
                counts.results += 1;
                let written = event.written.load(Ordering::Acquire);
                if completion.status != Status::Done {
                    counts.error(format_args!("an eventfd: {:?}", completion.status));
                } else if written == 0 || completion.detected < MonoNs(written) {
                    counts.too_early("an eventfd that nobody has written");
                }
            }
            None => counts.never("an eventfd's ticket"),
        }
    }
    drop(sender);
    writer.join().expect("the writer");
    settle(&session, ENTRIES, counts)
}

fn submit(
    session: &Session,
    events: &Sender<Arc<Event>>,
    counts: &mut Counts,
) -> Result<(Arc<Event>, Ticket)> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
    let event = Arc::new(Event { fd, written: AtomicU64::new(0) });
    let ticket = session.fd_ticket(&event.fd).submit()?;
    counts.tickets += 1;
    events.send(event.clone()).expect("a writer");
    Ok((event, ticket))
}

/// Writes eventfds in the order in which they were waited for, each in its time.
fn write(events: &Receiver<Arc<Event>>, mut dice: Dice) {
    for event in events {
        idle(Duration::from_micros(dice.below(WRITE_US)));
        event.written.store(clock::now().0, Ordering::Release);
        rustix::io::write(&event.fd, &1u64.to_ne_bytes()).expect("a write to an eventfd");
    }
}
