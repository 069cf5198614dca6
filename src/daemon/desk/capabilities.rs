//! Capabilities: which lane each shares, and who may try how many.
//!
//! A capability is 128 random bits. It is found by a keyed hash, so that the time a wrong one takes
//! says nothing of the right ones, and wrong ones are counted: a user that has tried too many
//! is not looked up again for a while. FILL has the last word on whether a capability still shares
//! its lane; what is kept here may be a moment older.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use super::Desk;
use super::peer::Phase;
use super::rate::Rates;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::rate::{Rate, wait_ms};
use crate::core::time::MonoNs;
use crate::daemon::command::{Ask, Seat};
use crate::engine::{Refusal, no_such_capability};
use crate::host::{clock, random};
use crate::proto::limits::{GUESSES_MAX, GUESSES_PER_SECOND_MAX};

/// What a secret is hashed behind, so that the hash is good for nothing else.
const CAPABILITY: &[u8] = b"parkd capability";

/// All of them.
pub struct Capabilities {
    lanes: HashMap<u128, (Seat, u32)>,
    /// By the owner's number and its lane.
    of: BTreeMap<(u32, u32), u128>,
    wrong: Rates,
}

impl Capabilities {
    pub fn new() -> Capabilities {
        let wrong = Rates::new(Rate::new(GUESSES_PER_SECOND_MAX, GUESSES_MAX));
        Capabilities { lanes: HashMap::new(), of: BTreeMap::new(), wrong }
    }

    /// A capability shares a lane, and no other does.
    pub fn note(&mut self, seat: Seat, lane: u32, capability: u128) {
        self.forget_lane(seat, lane);
        self.lanes.insert(capability, (seat, lane));
        self.of.insert((seat.serial, lane), capability);
    }

    /// A lane is not shared any more.
    pub fn forget_lane(&mut self, seat: Seat, lane: u32) {
        if let Some(capability) = self.of.remove(&(seat.serial, lane))
            // An owner that shares two lanes by one secret at once has the later one found.
            && self.lanes.get(&capability) == Some(&(seat, lane))
        {
            self.lanes.remove(&capability);
        }
    }

    /// A session is gone.
    pub fn forget(&mut self, seat: Seat) {
        let lanes = self.of.range((seat.serial, 0)..=(seat.serial, u32::MAX));
        for lane in lanes.map(|((_, lane), _)| *lane).collect::<Vec<_>>() {
            self.forget_lane(seat, lane);
        }
    }

    /// The lane that a user's capability shares; none for a wrong one, which is counted.
    ///
    /// # Errors
    /// `RateExceeded`, with the milliseconds to wait, where the user has tried too many.
    fn find(
        &mut self,
        uid: u32,
        capability: u128,
        now: MonoNs,
    ) -> core::result::Result<Option<(Seat, u32)>, Refusal> {
        self.wrong.check(uid, now).map_err(|wait| {
            let wait_ms = wait_ms(wait);
            let text = format!(
                "uid {uid}: wrong capabilities, at most {GUESSES_PER_SECOND_MAX} a second: \
                 again in {wait_ms} ms"
            );
            Refusal { error: Error::new(ErrorCode::RateExceeded, text), value: wait_ms }
        })?;
        let found = self.lanes.get(&capability).copied();
        if found.is_none() {
            self.wrong.spend(uid, now);
        }
        Ok(found)
    }
}

impl Desk {
    /// SHARE, with a capability for a lane that has none: that of the owner's secret, or any.
    pub(super) fn share(&self, serial: u32, lane: u32, secret: Option<u128>) -> Result<Ask> {
        let Some(secret) = secret else {
            let bits = random::bits().map_err(|error| {
                Error::new(ErrorCode::SystemFailed, format!("getrandom: {error}"))
            })?;
            return Ok(Ask::Share(lane, bits));
        };
        let capability = capability_of(secret);
        let others = |(seat, of): &&(Seat, u32)| (seat.serial, *of) != (serial, lane);
        if self.capabilities.lanes.get(&capability).filter(others).is_some() {
            let text = "SHARE: lanes of this secret: 2, at most 1";
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        }
        Ok(Ask::Share(lane, capability))
    }

    /// REDEEM, for FILL where the capability is known. One that is not may have been when an
    /// earlier life of the daemon got the request.
    pub(super) fn redeem(
        &mut self,
        serial: u32,
        capability: u128,
        again: bool,
    ) -> core::result::Result<Ask, Refusal> {
        let uid = self.peers.get(&serial).map_or(u32::MAX, |peer| peer.who.uid);
        match self.capabilities.find(uid, capability, clock::now())? {
            None if !again => Err(no_such_capability().into()),
            owner => Ok(Ask::Redeem(owner, capability)),
        }
    }

    /// FILL has shared a lane, for a session that may be gone by now.
    pub(super) fn shared(&mut self, seat: Seat, lane: u32, capability: u128) {
        let phase = self.peers.get(&seat.serial).map(|peer| &peer.phase);
        if matches!(phase, Some(Phase::Session(_))) {
            self.capabilities.note(seat, lane, capability);
        }
    }
}

/// The capability that an owner's secret gives: whoever has it does not have the secret.
fn capability_of(secret: u128) -> u128 {
    let hash = Sha256::new().chain_update(CAPABILITY).chain_update(secret.to_le_bytes());
    let first = hash.finalize().first_chunk().copied();
    u128::from_le_bytes(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_gives_the_capability_that_the_protocol_says() {
        // printf 'parkd capability\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' | sha256sum
        let text = format!("{:032x}", u128::from_be_bytes(capability_of(1).to_le_bytes()));
        assert_eq!(text, "cecfa0d58d08cdd503b3b5e8c23ba1ec");
    }

    const OWNER: Seat = Seat { slot: 3, serial: 9 };

    #[test]
    fn a_capability_is_found_until_its_lane_or_its_session_is_forgotten() {
        let mut all = Capabilities::new();
        for lane in 0..4 {
            all.note(OWNER, lane, 100 + u128::from(lane));
        }
        all.note(Seat { slot: 4, serial: 10 }, 0, 200);
        // Shared anew: the old one is dead.
        all.note(OWNER, 1, 300);
        all.forget_lane(OWNER, 2);
        let mut find = |capability| all.find(0, capability, MonoNs(1)).unwrap();
        assert_eq!(find(100), Some((OWNER, 0)));
        assert_eq!(find(300), Some((OWNER, 1)));
        assert_eq!((find(101), find(102)), (None, None));
        all.forget(OWNER);
        assert_eq!((all.lanes.len(), all.of.len()), (1, 1));
    }

    #[test]
    fn who_guesses_is_not_answered_any_more_and_others_are() {
        let mut all = Capabilities::new();
        all.note(OWNER, 0, 100);
        let now = MonoNs(1_000_000_000);
        for guess in 0..u128::from(GUESSES_MAX) {
            assert_eq!(all.find(7, guess, now), Ok(None));
        }
        // Not even a right one is told from wrong ones.
        let refused = all.find(7, 100, now).unwrap_err();
        assert_eq!((refused.error.code, refused.value), (ErrorCode::RateExceeded, 250));
        assert!(refused.error.detail.ends_with("again in 250 ms"), "{}", refused.error.detail);
        assert_eq!(all.find(8, 100, now), Ok(Some((OWNER, 0))));
        let later = MonoNs(now.0 + 250_000_000);
        for _ in 0..100 {
            assert_eq!(all.find(7, 100, later), Ok(Some((OWNER, 0))), "right ones are free");
        }
    }
}
