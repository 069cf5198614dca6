//! Clients that come and go: each has its time, and then leaves in order, or is killed.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::load::Dice;
use super::load::client::Way;
use super::load::clients::{Client, Device};
use super::load::counts::Counts;

/// Clients at work at any time.
const HANDS: usize = 5;
/// The longest that one works.
const WORKS_MS: u64 = 4000;
/// One of so many is killed, and nobody counts what it had.
const KILLED: u64 = 5;

/// How they wait. (Who speaks the protocol by hand does not connect again when the daemon dies in
/// the midst of its HELLO, as the library does.)
const WAYS: &[Way] = &[
    Way::Threads,
    Way::Tasks,
    Way::Tagged,
    Way::Fds,
    Way::Ends,
    Way::Hold,
    Way::Shared,
    Way::Storm,
];

/// One at work.
struct Hand {
    client: Client,
    until: Instant,
}

/// See the file's head.
pub struct Crew {
    socket: PathBuf,
    device: Device,
    dice: Dice,
    hands: Vec<Hand>,
    leaving: Vec<JoinHandle<Counts>>,
}

impl Crew {
    /// Nobody, so far.
    pub fn new(socket: &Path, seed: u64) -> Crew {
        let (device, dice) = (Device::start(), Dice::new(seed));
        Crew { socket: socket.to_owned(), device, dice, hands: Vec::new(), leaving: Vec::new() }
    }

    /// Lets go of those whose time is over, and takes on others.
    pub fn turn(&mut self) {
        let now = Instant::now();
        while let Some(over) = self.hands.iter().position(|hand| hand.until <= now) {
            let hand = self.hands.swap_remove(over);
            if self.dice.below(KILLED) == 0 {
                hand.client.kill();
            } else {
                self.leave(hand);
            }
        }
        while self.hands.len() < HANDS {
            let way = WAYS[self.dice.below(WAYS.len() as u64) as usize];
            let seed = self.dice.below(u64::MAX);
            let client = Client::start(way, &self.socket, &self.device, seed);
            let until = now + Duration::from_millis(self.dice.below(WORKS_MS));
            self.hands.push(Hand { client, until });
        }
    }

    fn leave(&mut self, hand: Hand) {
        let Hand { mut client, .. } = hand;
        client.stop();
        self.leaving.push(std::thread::spawn(move || {
            // Its readiness, or what kept it from that, comes before its report.
            client.ready();
            client.report()
        }));
    }

    /// Has everybody leave; what they counted, and those before them.
    pub fn disband(&mut self) -> Counts {
        let hands = std::mem::take(&mut self.hands);
        hands.into_iter().for_each(|hand| self.leave(hand));
        let mut counts = Counts::default();
        for left in self.leaving.drain(..) {
            counts.add(left.join().expect("a client's report"));
        }
        counts
    }
}
