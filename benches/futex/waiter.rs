//! The two waiters: one sleeps in the daemon's own io_uring host, the other in futex(2).
//!
//! Each acts on a word only when a wait on it has ended: so a wake that is lost shows, in place of
//! being made up for by the next look. A wait is *lost* that still stands a second after its word
//! was seen to have changed.

use parkd::core::time::{DurNs, MonoNs};
use parkd::host::fill::{EventBatch, FillHost, HostEvent, Token, Watch};
use parkd::host::futex::{self, WaitOutcome};
use parkd::host::held::Held;
use parkd::host::uring::UringHost;
use parkd::host::{clock, kinds};
use serde::{Deserialize, Serialize};

use crate::pit::{Seen, WaiterSide};

/// How long a wait on a changed word may stand before it counts as lost, and how often all words
/// are looked at for that.
const BOUND: DurNs = DurNs(1_000_000_000);

/// What a waiter counted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Waited {
    /// Waits that ended, woken or at once, over a moved count.
    pub events: u64,
    /// Waits that ended while the count stood: a late wake of what was seen already.
    pub stale: u64,
    /// Waits on a changed word that did not end.
    pub lost: u64,
    /// Waits that ended with an error.
    pub failed: u64,
}

/// One word of the ring's waiter.
struct Watched {
    seen: u32,
    /// The wait's own number while one is armed.
    armed: Option<u64>,
    /// The wait that stood over a changed word when all were last looked at.
    suspect: Option<u64>,
}

/// The waiter in the ring.
pub struct RingWaiter {
    side: WaiterSide,
    host: UringHost,
    words: Vec<Watched>,
    /// Words without a wait.
    unarmed: Vec<u32>,
    waits: u64,
    held: Held,
    waited: Waited,
}

/// A token bears the word and, above it, the number of the wait.
const WORD_BITS: u32 = 16;

impl RingWaiter {
    pub fn new(side: WaiterSide, count: u32) -> std::io::Result<RingWaiter> {
        let watched = |_| Watched { seen: 0, armed: None, suspect: None };
        Ok(RingWaiter {
            side,
            host: kinds::io_uring().map_err(std::io::Error::other)?,
            words: (0..count).map(watched).collect(),
            unarmed: (0..count).collect(),
            waits: 0,
            held: Held::of_current(),
            waited: Waited::default(),
        })
    }

    /// Waits until told to end. The first waits are armed while this process has one thread, which
    /// would lose them were they private.
    pub fn run(mut self) -> std::io::Result<Waited> {
        self.arm()?;
        self.host.flush()?;
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
        self.side.say_ready();
        let mut events = EventBatch::new();
        let mut check = clock::now() + BOUND;
        while !self.side.is_to_stop() {
            self.host.idle(Some(check))?;
            self.host.reap(&mut events)?;
            let now = clock::now();
            if !events.is_empty() {
                let seen = Seen { at: now, held_ns: self.held.so_far().0 };
                for event in events.as_slice() {
                    self.event(*event, seen);
                }
            }
            if now >= check {
                self.find_lost(now)?;
                check = now + BOUND;
            }
            self.arm()?;
        }
        Ok(self.waited)
    }

    fn event(&mut self, event: HostEvent, seen: Seen) {
        let token = match event {
            HostEvent::Bell(token) => token,
            HostEvent::BellLost(token, _errno) => {
                self.waited.failed += 1;
                token
            }
            _ => return,
        };
        let word = token.0 as u32 & ((1 << WORD_BITS) - 1);
        let watched = &mut self.words[word as usize];
        if watched.armed != Some(token.0) {
            return;
        }
        watched.armed = None;
        self.unarmed.push(word);
        let count = self.side.count(word);
        if count == watched.seen {
            self.waited.stale += 1;
            return;
        }
        watched.seen = count;
        self.waited.events += 1;
        self.side.acted_on(word, count, seen);
    }

    /// Arms a wait on every word that has none, for the count that was acted on last, as FILL
    /// does: what was raised since ends it at once.
    fn arm(&mut self) -> std::io::Result<()> {
        while let Some(word) = self.unarmed.pop() {
            let watched = &mut self.words[word as usize];
            self.waits += 1;
            let token = self.waits << WORD_BITS | u64::from(word);
            self.host.watch_word(Token(token), self.side.address(word), watched.seen)?;
            watched.armed = Some(token);
        }
        Ok(())
    }

    /// Looks at all words: what was suspected a second ago and still stands is lost.
    fn find_lost(&mut self, now: MonoNs) -> std::io::Result<()> {
        for word in 0..self.words.len() as u32 {
            let count = self.side.count(word);
            let watched = &mut self.words[word as usize];
            let standing = watched.armed.filter(|_| count != watched.seen);
            if let Some(token) = standing.filter(|_| standing == watched.suspect) {
                self.waited.lost += 1;
                self.host.cancel(Watch::Word, Token(token))?;
                watched.armed = None;
                watched.seen = count;
                self.unarmed.push(word);
                self.side.acted_on(word, count, Seen { at: now, held_ns: self.held.so_far().0 });
            } else {
                watched.suspect = standing;
            }
        }
        Ok(())
    }
}

/// The waiter beside it: one word, futex(2).
pub fn plain(side: &WaiterSide) -> std::io::Result<Waited> {
    let mut waited = Waited::default();
    let held = Held::of_current();
    let mut seen = 0;
    std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    side.say_ready();
    while !side.is_to_stop() {
        let outcome = futex::wait(side.address(0), seen, Some(clock::now() + BOUND))?;
        let at = clock::now();
        let count = side.count(0);
        match outcome {
            WaitOutcome::Woken if count == seen => waited.stale += 1,
            WaitOutcome::TimedOut if count != seen => waited.lost += 1,
            WaitOutcome::Woken | WaitOutcome::Changed => waited.events += 1,
            _ => {}
        }
        if count != seen {
            seen = count;
            side.acted_on(0, count, Seen { at, held_ns: held.so_far().0 });
        }
    }
    Ok(waited)
}
