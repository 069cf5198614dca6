//! Lanes that other sessions have redeemed: what is known of a lane is known of its owner's.

use std::rc::Rc;

use parkd::core::error::ErrorCode;

use super::book::{Book, State};
use super::daemon::Daemon;
use super::lane_book::{Ending, Origin, ahead, is_there};
use super::request::{Answer, Request};
use super::seat::Seat;
use super::serve::{answer, expect};
use super::tally::Count;
use super::world::World;

impl World {
    /// The session of this serial.
    fn seat_of(&self, serial: u32) -> Option<Rc<Seat>> {
        self.seats.borrow().iter().flatten().find(|seat| seat.serial == serial).cloned()
    }

    /// Does something to each lane that was redeemed from a lane and not ended.
    fn redeemed(&self, serial: u32, lane: usize, does: impl Fn(&mut Book, usize)) {
        for seat in self.seats.borrow().iter().flatten().filter(|seat| seat.honest) {
            if seat.serial == serial {
                continue;
            }
            let mut book = seat.book.borrow_mut();
            for (at, origin) in book.linked() {
                if (origin.owner, origin.lane) == (serial, lane as u32) {
                    does(&mut book, at);
                }
            }
        }
    }

    /// A number is about to be in a lane of a session.
    pub fn stored(&self, seat: &Seat, lane: usize, word: u64) {
        seat.book.borrow_mut().store(self, lane, word);
        self.redeemed(seat.serial, lane, |book, at| book.store(self, at, word));
    }

    /// A session's client posts a failure of a lane.
    pub fn posted(&self, seat: &Seat, lane: usize, code: u32) {
        seat.book.borrow_mut().lanes[lane].codes.push(code);
        self.redeemed(seat.serial, lane, |book, at| book.lanes[at].codes.push(code));
    }

    /// How far away the farthest number is that anybody waits for on a lane.
    pub fn farthest(&self, seat: &Seat, lane: usize) -> u64 {
        let farthest = std::cell::Cell::new(seat.book.borrow().farthest(lane));
        self.redeemed(seat.serial, lane, |book, at| {
            farthest.set(farthest.get().max(book.farthest(at)));
        });
        farthest.get()
    }

    /// Whether a lane's owner has ended it like this, or is about to.
    pub fn may_have_ended(&self, origin: Origin, ending: Ending) -> bool {
        let Some(owner) = self.seat_of(origin.owner) else { return ending == Ending::Died };
        let book = owner.book.borrow();
        let lane = &book.lanes[origin.lane as usize];
        let shared = lane.open && lane.shared == Some(origin.capability);
        match ending {
            Ending::Died => owner.left.get() || lane.closing || !shared,
            Ending::Revoked => lane.revoking || !shared,
        }
    }

    /// Every redeemer has been told: the books of redeemed lanes say what their owners' say.
    pub fn relate(&self) {
        if !self.linked.get() {
            return;
        }
        let seats: Vec<Rc<Seat>> = self.seats.borrow().iter().flatten().cloned().collect();
        for seat in seats.iter().filter(|seat| seat.honest) {
            let linked = seat.book.borrow().linked();
            for (at, origin) in linked {
                let (ended, failed) = self.state_of(origin);
                let entry = &mut seat.book.borrow_mut().lanes[at];
                (entry.ended, entry.failed) = (ended, failed);
            }
        }
    }

    fn state_of(&self, origin: Origin) -> (Option<Ending>, Option<u32>) {
        let Some(owner) = self.seat_of(origin.owner) else { return (Some(Ending::Died), None) };
        let book = owner.book.borrow();
        let lane = &book.lanes[origin.lane as usize];
        if !lane.open {
            (Some(Ending::Died), None)
        } else if lane.shared != Some(origin.capability) {
            (Some(Ending::Revoked), None)
        } else {
            (None, lane.failed)
        }
    }
}

impl Book {
    /// The lanes that were redeemed and have not ended.
    fn linked(&self) -> Vec<(usize, Origin)> {
        let lanes = self.lanes.iter().enumerate();
        let lanes = lanes.filter(|(_, lane)| lane.open && lane.ended.is_none());
        lanes.filter_map(|(at, lane)| Some((at, lane.origin?))).collect()
    }

    /// How far away the farthest number is that this session waits for on a lane.
    pub fn farthest(&self, lane: usize) -> u64 {
        let (word, width) = (self.lanes[lane].word, self.lanes[lane].width);
        let away = |at: &usize| {
            let ticket = &self.tickets[*at];
            let target = ticket.entry.target;
            let waits = ticket.lane() == Some(lane) && !is_there(width, word, target);
            waits.then(|| ahead(width, word, target))
        };
        self.open.iter().filter_map(away).max().unwrap_or(0)
    }

    /// Whether nobody waits on a lane that has ended.
    pub fn check_ended(&self) {
        for &at in &self.open {
            let ticket = &self.tickets[at];
            let lane = ticket.lane().filter(|_| ticket.state == State::Waiting);
            if let Some(ended) = lane.and_then(|lane| self.lanes[lane].ended) {
                panic!("ticket {at} waits for a lane that has ended: {ended:?}");
            }
        }
    }
}

impl Daemon {
    pub fn share(&mut self, world: &World, seat: &Seat, lane: u32) -> Answer {
        let fresh = u128::from(world.rng.next()) << 64 | u128::from(world.rng.next());
        if !seat.honest {
            return answer(self.engine.share(seat.slot, lane, fresh, self.now), Answer::Done);
        }
        let mut book = seat.book.borrow_mut();
        let entry = &book.lanes[lane as usize];
        let expected = match (entry.open, entry.origin) {
            (false, _) => Err(ErrorCode::NoSuchLane),
            (true, Some(_)) => Err(ErrorCode::NotOwner),
            (true, None) => Ok(entry.shared.unwrap_or(fresh)),
        };
        book.under_way.sharing = Some((lane, fresh));
        drop(book);
        let result = self.engine.share(seat.slot, lane, fresh, self.now);
        expect(&result, expected.err(), "SHARE");
        let mut book = seat.book.borrow_mut();
        book.under_way.sharing = None;
        let Ok(capability) = result else { return Answer::Done };
        assert_eq!(Ok(capability), expected, "another capability shares the lane");
        book.lanes[lane as usize].shared = Some(capability);
        drop(book);
        world.tally.add(Count::Shared);
        let origin = Origin { owner: seat.serial, lane, capability };
        world.capabilities.borrow_mut().push(origin);
        Answer::Done
    }

    pub fn revoke(&mut self, world: &World, seat: &Seat, lane: u32) -> Answer {
        if !seat.honest {
            return answer(self.engine.revoke(seat.slot, lane, self.now), Answer::Done);
        }
        let mut book = seat.book.borrow_mut();
        let entry = &mut book.lanes[lane as usize];
        let expected = match (entry.open, entry.origin) {
            (false, _) => Some(ErrorCode::NoSuchLane),
            (true, Some(_)) => Some(ErrorCode::NotOwner),
            (true, None) => None,
        };
        let shared = entry.shared;
        entry.revoking = expected.is_none();
        drop(book);
        let result = self.engine.revoke(seat.slot, lane, self.now);
        expect(&result, expected, "REVOKE");
        let mut book = seat.book.borrow_mut();
        let entry = &mut book.lanes[lane as usize];
        if let Ok(capability) = result {
            assert_eq!(capability, shared, "another capability is revoked");
            world.tally.add_many(Count::Revoked, u64::from(shared.is_some()));
            (entry.shared, entry.revoking) = (None, false);
        }
        drop(book);
        world.relate();
        Answer::Done
    }

    pub fn redeem(
        &mut self,
        world: &World,
        seat: &Seat,
        request: &Request,
        origin: Origin,
    ) -> Answer {
        let (slot, now, cookie) = (seat.slot, self.now, request.cookie);
        let before = request.again.then(|| self.engine.redeemed_by(slot, cookie, now)).flatten();
        if let Some(redeemed) = before {
            world.tally.add(Count::AgainDone);
            self.hear(seat, redeemed.device);
            return Answer::Opened(redeemed.lane);
        }
        let owner = world.seat_of(origin.owner).filter(|owner| owner.served.get());
        let Some(owner) = owner else { return Answer::Refused(ErrorCode::NoSuchCapability) };
        let place = (owner.slot, origin.lane);
        if !seat.honest {
            let result = self.engine.redeem(slot, cookie, place, origin.capability, now);
            return answer(result, Answer::Done);
        }
        let theirs = owner.book.borrow().lanes[origin.lane as usize].clone();
        let shared = theirs.open && theirs.shared == Some(origin.capability);
        let expected = match shared {
            _ if owner.serial == seat.serial => Some(ErrorCode::NotSupported),
            false => Some(ErrorCode::NoSuchCapability),
            true => None,
        };
        let mut book = seat.book.borrow_mut();
        let lowest = book.lanes.iter().position(|lane| !lane.open);
        book.under_way.redeeming = Some((origin, theirs.clone()));
        drop(book);
        let result = self.engine.redeem(slot, cookie, place, origin.capability, now);
        expect(&result, expected, "REDEEM");
        let mut book = seat.book.borrow_mut();
        book.under_way.redeeming = None;
        let Ok(redeemed) = result else { return Answer::Refused(ErrorCode::NoSuchCapability) };
        let theirs = owner.book.borrow().lanes[origin.lane as usize].clone();
        assert_eq!(Some(redeemed.lane as usize), lowest, "another lane is redeemed");
        assert_eq!((redeemed.width, redeemed.device), (theirs.width, theirs.device));
        assert!(theirs.has_held(redeemed.value), "the lane's number is another");
        book.lanes[redeemed.lane as usize].redeem(origin, &theirs);
        drop(book);
        world.relate();
        world.tally.add(Count::Redeemed);
        self.hear(seat, redeemed.device);
        Answer::Opened(redeemed.lane)
    }
}
