//! Several threads, one session: who watches the ring for all of them.
//!
//! The daemon wakes one waiter on the result tail, so exactly one thread at a time, the *leader*,
//! sleeps there. It files whatever it finds and calls the owners; the other waiting threads, the
//! *followers*, park until they are called.
//!
//! The invariant, whenever the ledger's lock is free: if a follower is listed, then there is a
//! leader, or a listed follower (the *heir*) was called after the last leader left and has not
//! looked yet. So nobody parks without somebody who watches for it:
//! - a thread parks only as a listed follower, listed in the same hold of the lock in which it saw
//!   its result missing and a leader or an heir there; its result, when filed, calls it;
//! - whoever leaves (done, expired or refused; leader, follower or heir) takes itself off first,
//!   and if there is no leader then, calls the first follower;
//! - a called follower looks under the lock, and leads if nobody does.
//!
//! Where a plan says `wake=early` the daemon wakes the leader shortly before a result is expected
//! and says until when it is (*imminent*): the leader then looks, at the tail and at its own lane,
//! instead of sleeping. Once for each such word of the daemon; then it sleeps again.
//!
//! A leader sleeps only after it armed, with nothing in the ring after that, on the tail read
//! then. A result filed by another thread in the meantime has moved the tail (or is about to, and
//! the daemon's look at `armed` comes after that), so the leader looks again.

use std::thread::{self, Thread};
use std::time::Duration;

use crate::core::error::Result;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::futex::{self, FutexAddr, WaitOutcome};
use crate::proto::layout::{armed, rings};
use crate::shm::words::ReadWords;

use super::ledger::Ledger;
use super::shared::{Access, Shared};
use super::watching::Tail;
use super::wire;

/// What a thread blocks for.
pub(super) trait Goal {
    /// What it gets.
    type Out;

    /// Takes it, if it is there.
    fn ready(&mut self, ledger: &mut Ledger) -> Option<Self::Out>;

    /// Has `me` called when it may be there. `key` is the wait's. (Where nothing calls, see
    /// [`Goal::look_again`].)
    fn watch(&self, _ledger: &mut Ledger, _key: u64, _me: &Thread) {}

    /// Takes that back.
    fn unwatch(&self, _ledger: &mut Ledger, _key: u64) {}

    /// Whether it is a tagged result.
    fn is_tagged(&self) -> bool {
        false
    }

    /// Whether a look at its own lane shows it, which needs no daemon and no lock.
    fn landed(&self) -> bool {
        false
    }

    /// The longest sleep between two looks, where not every change calls the thread.
    fn look_again(&self) -> DurNs {
        DurNs::MAX
    }
}

/// Who leads and who follows.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    leader: Option<Leader>,
    followers: Vec<(u64, Thread)>,
}

#[derive(Clone, Copy, Debug)]
struct Leader {
    key: u64,
    for_tags: bool,
}

impl Leadership {
    /// Whether the leader sleeps for tagged results.
    pub(super) fn leads_for_tags(&self) -> bool {
        self.leader.is_some_and(|leader| leader.for_tags)
    }

    /// The threads that follow.
    pub(super) fn followers(&self) -> impl Iterator<Item = &Thread> {
        self.followers.iter().map(|(_, thread)| thread)
    }

    #[cfg(test)]
    pub(super) fn is_led(&self) -> bool {
        self.leader.is_some()
    }

    fn leads(&self, key: u64) -> bool {
        self.leader.is_some_and(|leader| leader.key == key)
    }

    fn follow(&mut self, key: u64, me: &Thread) {
        if self.followers.iter().all(|(k, _)| *k != key) {
            self.followers.push((key, me.clone()));
        }
    }

    fn unfollow(&mut self, key: u64) {
        self.followers.retain(|(k, _)| *k != key);
    }
}

impl Shared {
    /// Blocks until the goal is there, or until `until` (then none).
    ///
    /// # Errors
    /// `Forked`, the session's end, `SystemFailed` where the kernel refuses to sleep.
    pub(super) fn block<G: Goal>(
        &self,
        goal: &mut G,
        until: Option<MonoNs>,
    ) -> Result<Option<G::Out>> {
        let mut at = self.open()?;
        at.collect();
        if let Some(out) = goal.ready(&mut at) {
            return Ok(Some(out));
        }
        let key = at.key();
        loop {
            let ended = at.live().err();
            let expired = || until.is_some_and(|until| clock::now() >= until);
            if ended.is_some() || expired() {
                self.leave(&mut at, goal, key);
                return ended.map_or(Ok(None), Err);
            }
            let (next, slept) = self.rest(at, goal, key, until);
            at = next;
            at.collect();
            if let Some(out) = goal.ready(&mut at) {
                self.leave(&mut at, goal, key);
                return Ok(Some(out));
            }
            if let Err(error) = slept {
                self.leave(&mut at, goal, key);
                return Err(error);
            }
        }
    }

    /// One sleep, as leader or as follower, with the lock let go.
    fn rest<'a, G: Goal>(
        &'a self,
        mut at: Access<'a>,
        goal: &G,
        key: u64,
        until: Option<MonoNs>,
    ) -> (Access<'a>, Result<()>) {
        if at.leadership.leader.is_none() {
            at.leadership.unfollow(key);
            goal.unwatch(&mut at, key);
            at.leadership.leader = Some(Leader { key, for_tags: goal.is_tagged() });
        }
        if !at.leadership.leads(key) {
            let me = thread::current();
            at.leadership.follow(key, &me);
            goal.watch(&mut at, key, &me);
            drop(at);
            park(goal.look_again(), until);
            return (self.reopen(), Ok(()));
        }
        let Some(tail) = at.arm(armed::TAIL) else { return (at, Ok(())) };
        if let Some(window) = at.imminent(clock::now()) {
            // Whoever looks need not be woken.
            at.disarm(armed::TAIL);
            drop(at);
            look(&tail, goal, until.map_or(window, |until| until.min(window)));
            return (self.reopen(), Ok(()));
        }
        drop(at);
        let slept = self.sleep_on(&tail, goal.look_again(), until);
        (self.reopen(), slept)
    }

    fn sleep_on(&self, tail: &Tail, look_again: DurNs, until: Option<MonoNs>) -> Result<()> {
        let now = clock::now();
        let look = now + look_again.min(self.look_at_socket());
        let until = until.map_or(look, |until| until.min(look));
        // `tail` keeps the word mapped, whichever rings the session has meanwhile.
        let word = FutexAddr::new(tail.rings.address(rings::RESULT_TAIL));
        let outcome = futex::wait(word, tail.seen, Some(until));
        if outcome.map_err(|error| wire::system("futex wait", error))? == WaitOutcome::TimedOut {
            self.look_at_socket_now();
        }
        Ok(())
    }

    fn leave<G: Goal>(&self, at: &mut Access<'_>, goal: &G, key: u64) {
        if at.leadership.leads(key) {
            at.leadership.leader = None;
            at.disarm(armed::TAIL);
        } else {
            at.leadership.unfollow(key);
            goal.unwatch(at, key);
        }
        if at.leadership.leader.is_none() {
            at.call_heir();
        }
    }
}

/// Looks without sleeping, until a result was published, the goal's own lane shows it, or `until`.
fn look<G: Goal>(tail: &Tail, goal: &G, until: MonoNs) {
    while tail.rings.load32(rings::RESULT_TAIL) == tail.seen
        && !goal.landed()
        && clock::now() < until
    {
        std::hint::spin_loop();
    }
}

fn park(look_again: DurNs, until: Option<MonoNs>) {
    let left = until.map_or(DurNs::MAX, |until| until.since(clock::now()));
    match left.min(look_again) {
        DurNs::MAX => thread::park(),
        left => thread::park_timeout(Duration::from_nanos(left.0)),
    }
}

#[cfg(test)]
#[path = "leader_tests.rs"]
mod tests;
