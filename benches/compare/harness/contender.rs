//! Who is compared: ways to wait, and what a producer does for them.
//!
//! A *silent* contender waits for a store that tells nobody, as a device's; for a *cooperating* one
//! the producer runs on a CPU and wakes somebody behind each store. A *spinner* keeps a CPU busy
//! all the time and is scored only where spinners are fewer than the CPUs.

use serde::{Deserialize, Serialize};

use super::settings::{Change, VARIANTS, Variant};
use super::wake::WakeKind;
use super::workload::Cell;

/// How a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// `Ticket::wait`: sleeps on the result ring's futex word.
    ParkdFutex,
    /// Sleeps in epoll on the session's eventfd.
    ParkdEventfd,
    /// Awaits tickets as tasks of a tokio runtime.
    ParkdTokio,
    /// Looks for results without a pause.
    ParkdRing,
    /// Loads the word without a pause.
    Spin,
    /// The same with the CPU's pause instruction.
    SpinPause,
    /// Loads the word every 100 us.
    Poll,
    /// Sleeps on a futex.
    Futex,
    /// Sleeps in epoll on eventfds.
    Eventfd,
    /// Sleeps on a condition variable: within one process, since the standard library's reaches
    /// no further.
    Condvar,
    /// Reads a socket that a relay process writes.
    Relay,
    /// What another program of this harness brings along.
    Peer,
    /// Looks at its result ring and nothing else: no contender, but how long a daemon takes to
    /// find a completion.
    Results,
}

/// One row of a cell.
#[derive(Clone, Debug)]
pub struct Contender {
    pub name: String,
    pub way: Way,
    /// What the producer does behind a store.
    pub wake: WakeKind,
    /// What its daemon's configuration differs in from the shipped one.
    pub changes: &'static [Change],
    /// Whether its daemon must not run beside other contenders.
    pub alone: bool,
    pub quick: bool,
}

/// The name of the contender that needs a crate of its own.
pub const PEER: &str = "iceoryx2-cooperating";

const WAYS: [(&str, Way, WakeKind); 12] = [
    ("parkd-futex", Way::ParkdFutex, WakeKind::Silent),
    ("parkd-eventfd", Way::ParkdEventfd, WakeKind::Silent),
    ("parkd-tokio", Way::ParkdTokio, WakeKind::Silent),
    ("parkd-ring", Way::ParkdRing, WakeKind::Silent),
    ("spin", Way::Spin, WakeKind::Silent),
    ("spin-pause", Way::SpinPause, WakeKind::Silent),
    ("poll-100us", Way::Poll, WakeKind::Silent),
    ("futex-cooperating", Way::Futex, WakeKind::Futex),
    ("eventfd-cooperating", Way::Eventfd, WakeKind::Eventfd),
    ("condvar-cooperating", Way::Condvar, WakeKind::Condvar),
    ("relay-cooperating", Way::Relay, WakeKind::Relay),
    (PEER, Way::Peer, WakeKind::Peer),
];

/// Who finds out how long the daemon takes to find a completion.
pub fn detection() -> Contender {
    let (way, wake) = (Way::Results, WakeKind::Silent);
    Contender { name: "detection".into(), way, wake, changes: &[], alone: false, quick: true }
}

/// All contenders, variants behind what they vary.
pub fn all() -> Vec<Contender> {
    let mut all = Vec::new();
    for (name, way, wake) in WAYS {
        let contender =
            Contender { name: name.into(), way, wake, changes: &[], alone: false, quick: true };
        all.push(contender.clone());
        let own = VARIANTS.iter().filter(|variant| variant.of == name);
        all.extend(own.map(|variant| contender.varied(variant)));
    }
    all
}

impl Contender {
    fn varied(&self, variant: &Variant) -> Contender {
        Contender {
            name: format!("{}/{}", self.name, variant.suffix),
            wake: if variant.rings { WakeKind::Bell } else { self.wake },
            changes: variant.changes,
            alone: variant.alone,
            quick: variant.quick,
            ..self.clone()
        }
    }

    /// Whether it waits through the daemon.
    pub fn is_parkd(&self) -> bool {
        use Way::{ParkdEventfd, ParkdFutex, ParkdRing, ParkdTokio, Results};
        matches!(self.way, ParkdFutex | ParkdEventfd | ParkdTokio | ParkdRing | Results)
    }

    /// Whether each waiter keeps a CPU busy.
    pub fn spins(&self) -> bool {
        matches!(self.way, Way::ParkdRing | Way::Spin | Way::SpinPause)
    }

    /// Whether it is scored in a cell.
    pub fn can_run(&self, cell: &Cell, cpus: usize) -> bool {
        !self.spins() || (cell.shape.waiters as usize) < cpus
    }
}
