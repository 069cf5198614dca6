//! What the daemon does for a request, and what it has to answer.

use std::ops::Range;
use std::rc::Rc;

use parkd::core::error::ErrorCode;
use parkd::core::line::Width;
use parkd::engine::Refusal;
use parkd::proto::entry::{SubmitEntry, TicketKind};

use super::book::State;
use super::daemon::{Daemon, TicketFd};
use super::plans;
use super::request::{Answer, Ask, Request};
use super::seat::Seat;
use super::tally::Count;
use super::words::Side;
use super::world::World;

/// Compares an answer with what has to be answered.
#[track_caller]
pub fn expect<T>(found: &Result<T, Refusal>, expected: Option<ErrorCode>, what: &str) {
    let found = found.as_ref().err().map(|refusal| refusal.error.code);
    assert_eq!(found, expected, "{what} is answered wrong");
}

/// The answer, where nothing of what comes with it is needed.
pub fn answer<T>(result: Result<T, Refusal>, done: Answer) -> Answer {
    result.map_or_else(|refusal| Answer::Refused(refusal.error.code), |_| done)
}

impl Daemon {
    /// Takes and answers one request of a session; `false` when there is none.
    pub fn request(&mut self, world: &Rc<World>, seat: &Rc<Seat>) -> bool {
        let Ok(mut client) = seat.client.try_borrow_mut() else { return false };
        let Some(request) = client.served() else { return false };
        drop(client);
        // What was submitted before the request was sent comes before it.
        while self.engine.drain(seat.slot, self.now) {}
        world.say(|| format!("  request {}: {request:?}", seat.slot));
        let answer = self.serve(world, seat, &request);
        // What was done may never be answered.
        world.touched(Side::Daemon(seat.slot));
        seat.client.borrow_mut().answered(world, seat, answer);
        true
    }

    fn serve(&mut self, world: &Rc<World>, seat: &Rc<Seat>, request: &Request) -> Answer {
        let (slot, now) = (seat.slot, self.now);
        match &request.ask {
            Ask::Open(lane, width, device) => {
                self.open(world, seat, request, *lane, *width, *device)
            }
            Ask::Close(lane) => self.close(seat, request.again, *lane),
            Ask::Plan(number) => self.plan(seat, *number),
            Ask::Submit(tickets) => self.submit(world, seat, request, tickets.clone()),
            Ask::Cancel(at) => {
                let name = seat.book.borrow().name(*at);
                let result = self.engine.cancel(slot, name, now);
                let state = seat.book.borrow().tickets[*at].state;
                assert_ne!(state, State::Waiting, "ticket {at} waits on after its CANCEL");
                answer(result, Answer::Done)
            }
            Ask::Fail(lane, code) => {
                let result = self.engine.fail(slot, *lane, *code, now);
                if seat.honest && result.is_ok() {
                    let lane = &mut seat.book.borrow_mut().lanes[*lane as usize];
                    assert!(lane.origin.is_none(), "another session's lane is failed");
                    lane.failed = Some(*code);
                }
                answer(result, Answer::Done)
            }
            Ask::Share(lane) => self.share(world, seat, *lane),
            Ask::Revoke(lane) => self.revoke(world, seat, *lane),
            Ask::Redeem(origin) => self.redeem(world, seat, request, *origin),
            Ask::Fds(tickets) => {
                for &at in tickets {
                    self.give_fd(world, seat, at);
                }
                Answer::Done
            }
            Ask::Raw(entries) => {
                seat.book.borrow_mut().hand_unsafely(entries);
                let cookie = self.engine.last_cookie(slot, now) + 1;
                answer(self.engine.submit(slot, cookie, entries, now), Answer::Done)
            }
            Ask::RawCancel(name) => answer(self.engine.cancel(slot, *name, now), Answer::Done),
        }
    }

    fn open(
        &mut self,
        world: &World,
        seat: &Seat,
        request: &Request,
        lane: Option<u32>,
        width: Width,
        device: u32,
    ) -> Answer {
        let (slot, now) = (seat.slot, self.now);
        if request.again
            && let Some((lane, device, _)) = self.engine.opened_by(slot, request.cookie, now)
        {
            world.tally.add(Count::AgainDone);
            assert!(seat.book.borrow().lanes[lane as usize].open);
            self.hear(seat, device);
            return Answer::Opened(lane);
        }
        if !seat.honest {
            let result = self.engine.open_lane(slot, lane, width, device, request.cookie, now);
            return answer(result, Answer::Done);
        }
        let mut book = seat.book.borrow_mut();
        let lowest = book.lanes.iter().position(|lane| !lane.open).map(|at| at as u32);
        let expected = lane.or(lowest).unwrap_or(0);
        let is_open = book.lanes[expected as usize].open;
        book.under_way.opening = true;
        drop(book);
        let result = self.engine.open_lane(slot, lane, width, device, request.cookie, now);
        expect(&result, is_open.then_some(ErrorCode::BadMessage), "OPEN_LANE");
        let mut book = seat.book.borrow_mut();
        book.under_way.opening = false;
        let Ok((lane, word)) = result else { return Answer::Refused(ErrorCode::BadMessage) };
        assert_eq!(lane, expected, "another lane was opened");
        let entry = &mut book.lanes[lane as usize];
        assert!(entry.has_held(word), "the lane's number is another");
        entry.open(width, device);
        drop(book);
        self.hear(seat, device);
        Answer::Opened(lane)
    }

    /// Reads a device's bell from now on.
    pub fn hear(&mut self, seat: &Seat, device: u32) {
        let slot = seat.slot;
        let count = self.engine.ports(slot).map(|view| view.bells.read(device + 1));
        if let Some(seated) = &mut self.seated[slot as usize] {
            let seen = &mut seated.seen[device as usize + 1];
            *seen = seen.or(count);
        }
    }

    fn close(&mut self, seat: &Seat, again: bool, lane: u32) -> Answer {
        if !seat.honest {
            return answer(self.engine.close_lane(seat.slot, lane, self.now), Answer::Done);
        }
        let mut book = seat.book.borrow_mut();
        let entry = &mut book.lanes[lane as usize];
        entry.closing = true;
        let is_open = entry.open;
        assert!(is_open || again, "an honest client closes what is open");
        drop(book);
        let result = self.engine.close_lane(seat.slot, lane, self.now);
        expect(&result, (!is_open).then_some(ErrorCode::NoSuchLane), "CLOSE_LANE");
        seat.book.borrow_mut().lanes[lane as usize].close();
        answer(result, Answer::Done)
    }

    fn plan(&mut self, seat: &Seat, number: u64) -> Answer {
        let bands = plans::bands(number);
        if !seat.honest {
            return answer(self.engine.add_plan(seat.slot, bands, self.now), Answer::Planned);
        }
        let mut book = seat.book.borrow_mut();
        let known = book.plans.iter().position(|known| *known == bands);
        let expected = known.unwrap_or(book.plans.len()) as u16 + 1;
        book.under_way.planning = Some(bands);
        drop(book);
        let result = self.engine.add_plan(seat.slot, bands, self.now);
        let mut book = seat.book.borrow_mut();
        book.under_way.planning = None;
        if known.is_none() {
            book.plans.push(bands);
        }
        let id = result.map_err(|refusal| refusal.error);
        assert_eq!(id, Ok(expected), "PLAN is answered wrong");
        Answer::Planned
    }

    fn submit(
        &mut self,
        world: &Rc<World>,
        seat: &Rc<Seat>,
        request: &Request,
        tickets: Range<usize>,
    ) -> Answer {
        let (slot, now, cookie) = (seat.slot, self.now, request.cookie);
        if request.again && cookie <= self.engine.last_cookie(slot, now) {
            world.tally.add(Count::AgainDone);
            // Its fds come again with those of all others that wait.
            return Answer::Submitted;
        }
        let mut entries = Vec::new();
        let mut handles = Vec::new();
        for at in tickets.clone() {
            let mut entry: SubmitEntry = seat.book.borrow().tickets[at].entry;
            if entry.kind == TicketKind::Fd as u8 {
                entry.source = self.keep_fd(slot, at);
                handles.push(entry.source);
            }
            entries.push(entry);
        }
        let before = seat.free(world);
        let mut book = seat.book.borrow_mut();
        let expected = book.submit_refusal(world, cookie, &tickets, before);
        book.under_way.sending = Some((cookie, tickets.clone()));
        drop(book);
        let result = self.engine.submit(slot, cookie, &entries, now);
        match result {
            Ok(left) => {
                // The client may have given results back in the meantime.
                let count = tickets.len() as u32;
                let late = expected == Some(ErrorCode::CreditExceeded) && before < count;
                assert!(expected.is_none() || late, "SUBMIT has to be refused: {expected:?}");
                seat.book.borrow_mut().sent(world);
                let free = before.saturating_sub(count)..=seat.free(world);
                assert!(free.contains(&left), "credit: {left}, not {free:?}");
                world.rates.spend(seat.params.uid, count, now.0);
                Answer::Submitted
            }
            Err(refusal) => {
                let code = refusal.error.code;
                let after = seat.free(world);
                let late = seat.book.borrow().submit_refusal(world, cookie, &tickets, after);
                let expected = [expected, late];
                assert!(expected.contains(&Some(code)), "SUBMIT: {}: {expected:?}", refusal.error);
                if code == ErrorCode::RateExceeded {
                    let wait = world.rates.wait(seat.params.uid, tickets.len() as u32, now.0);
                    assert_eq!(refusal.value, wait.div_ceil(1_000_000), "when to come again");
                }
                world
                    .tally
                    .add_many(Count::CreditRefused, u64::from(code == ErrorCode::CreditExceeded));
                self.give_back(slot, &handles);
                seat.book.borrow_mut().under_way.sending = None;
                Answer::Refused(code)
            }
        }
    }

    /// An fd comes again: for a ticket that still waits it is polled, else it is closed.
    fn give_fd(&mut self, world: &Rc<World>, seat: &Rc<Seat>, at: usize) {
        let book = seat.book.borrow();
        let ticket = &book.tickets[at];
        let has = |fd: &TicketFd| fd.ticket == at;
        let seated = self.seated[seat.slot as usize].as_ref();
        let given = seated.is_some_and(|seated| seated.fds.iter().any(has));
        let waits = ticket.state == State::Waiting && !given;
        let name = book.name(at);
        drop(book);
        let handle = self.keep_fd(seat.slot, at);
        let given = self.engine.give_fd(seat.slot, name, handle, self.now);
        assert_eq!(given, waits, "ticket {at} and its fd");
        if given {
            world.tally.add(Count::FdsGiven);
        } else {
            self.give_back(seat.slot, &[handle]);
        }
    }
}
