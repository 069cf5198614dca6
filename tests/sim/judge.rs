//! Whether a result is a right one, and whether one is missing.

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{ResultEntry, Status};

use super::book::{Book, State, Ticket};
use super::lane_book::{Ending, LaneBook, is_there};
use super::seat::{ENTRIES, LANES};
use super::tally::Count;
use super::world::World;

/// What FILL's own lateness may add, in nanoseconds of fair time.
pub const SLACK_NS: u64 = 400_000;

impl Book {
    /// Judges the result of a ticket that waits.
    pub fn judge(&self, world: &World, at: usize, position: u32, entry: &ResultEntry) {
        let ticket = &self.tickets[at];
        let status = Status::from_number(entry.status);
        let wrong = |why: &str| -> ! { panic!("{why}: {entry:?} for ticket {at}: {ticket:?}") };
        if entry.phase != position / ENTRIES + 1 {
            wrong("a wrong phase");
        }
        let now = world.now.get().wrapping_sub(self.offset as u64);
        let times = [entry.submitted_ns, entry.detected_ns, entry.published_ns, now];
        if !times.is_sorted() {
            wrong("times out of order");
        }
        if let Some(code) = ticket.refusal
            && (status, entry.code) != (Some(Status::Refused), u32::from(code.number()))
        {
            wrong("it has to be refused");
        }
        let detected = entry.detected_ns.wrapping_add(self.offset as u64);
        // A store at the very moment at which FILL looked at its clock may have come after the
        // look.
        let was_there =
            ticket.lane().is_some() && ticket.reached.is_some_and(|reached| reached.now < detected);
        let count = match status {
            Some(Status::Done) => match self.not_done(ticket, entry) {
                Some(why) => wrong(why),
                None if ticket.lane().is_none() => Count::FdsDone,
                None => Count::Done,
            },
            Some(Status::DeadlineExpired) if detected < ticket.deadline => wrong("too early"),
            Some(Status::DeadlineExpired) if was_there => wrong("its number was there"),
            Some(Status::DeadlineExpired) => Count::Expired,
            Some(Status::Cancelled) if !self.may_cancel(ticket) => wrong("cancelled by nobody"),
            Some(Status::Cancelled) => Count::Cancelled,
            Some(Status::DeviceFailed) if !self.may_fail(ticket, entry.code) => {
                wrong("failed by nobody")
            }
            Some(Status::DeviceFailed) if was_there => wrong("its number was there"),
            Some(Status::DeviceFailed) => Count::Failed,
            Some(Status::Refused) if ticket.refusal.is_none() => {
                let revoked = entry.code == u32::from(ErrorCode::LaneRevoked.number());
                if !revoked || !self.may_end(world, ticket, Ending::Revoked) {
                    wrong("refused without reason");
                }
                if was_there {
                    wrong("its number was there");
                }
                Count::LaneRevoked
            }
            Some(Status::Refused) => Count::Refused,
            Some(Status::ShuttingDown) if !self.shut => wrong("nothing shuts down"),
            Some(Status::ShuttingDown) => Count::ShutDown,
            Some(Status::ProducerDied) if !self.may_end(world, ticket, Ending::Died) => {
                wrong("its producer lives")
            }
            Some(Status::ProducerDied) if was_there && !self.out_of_reach(world, ticket) => {
                wrong("its number was there")
            }
            Some(Status::ProducerDied) => Count::ProducerDied,
            None => wrong("a status that cannot be"),
        };
        world.tally.add(count);
        let done = status == Some(Status::Done);
        let raced = done && detected >= ticket.deadline;
        world.tally.add_many(Count::RacedDeadline, u64::from(raced));
        let raced = match status {
            Some(Status::Cancelled) => ticket.reached.is_some(),
            _ => done && ticket.cancels,
        };
        world.tally.add_many(Count::RacedCancel, u64::from(raced));
        let waited = [Count::Immediate, Count::Late, Count::Parked, Count::Blocked];
        if let Some(&waited) = waited.get(usize::from(entry.waited).wrapping_sub(1)) {
            world.tally.add(waited);
        }
    }

    /// Why a ticket is not done, if it is not.
    fn not_done(&self, ticket: &Ticket, entry: &ResultEntry) -> Option<&'static str> {
        let Some(lane) = ticket.lane() else {
            let done = ticket.reached.is_some() && ticket.fd_code == 0;
            return (!done).then_some("its fd is not ready");
        };
        let lane = &self.lanes[lane % LANES as usize];
        if !is_there(lane.width, entry.seen, ticket.entry.target) {
            Some("the number seen has not reached the target")
        } else if !lane.has_held(entry.seen) {
            Some("the number seen was never there")
        } else if !(1..=4).contains(&entry.waited) {
            Some("found in no way")
        } else {
            None
        }
    }

    fn may_cancel(&self, ticket: &Ticket) -> bool {
        ticket.cancels || ticket.lane().is_some_and(|lane| self.lanes[lane].closing)
    }

    fn may_end(&self, world: &World, ticket: &Ticket, ending: Ending) -> bool {
        let lane = ticket.lane().map(|lane| &self.lanes[lane]);
        let may = |lane: &LaneBook| {
            let origin = lane.origin.filter(|_| lane.open);
            lane.ended == Some(ending)
                || origin.is_some_and(|origin| world.may_have_ended(origin, ending))
        };
        lane.is_some_and(may)
    }

    /// Whether nobody could look at the ticket's lane any more.
    fn out_of_reach(&self, world: &World, ticket: &Ticket) -> bool {
        let origin = ticket.lane().and_then(|lane| self.lanes[lane].origin);
        origin.is_some_and(|origin| world.given_up.borrow().contains(&origin.owner))
    }

    fn may_fail(&self, ticket: &Ticket, code: u32) -> bool {
        match ticket.lane() {
            Some(lane) => self.lanes[lane].codes.contains(&code),
            None => ticket.reached.is_some() && ticket.fd_code == code && code != 0,
        }
    }

    /// Looks for what is missing, after the daemon has done a whole turn at `turned`.
    pub fn check(&mut self, world: &World, turned: u64) {
        self.check_ended();
        let fair = world.fair();
        let mut bounds = [0; LANES as usize];
        for &at in &self.open {
            let ticket = &self.tickets[at];
            if let Some(lane) = ticket.lane().filter(|_| ticket.state == State::Waiting) {
                let lane = lane % LANES as usize;
                bounds[lane] = ticket.bound.max(bounds[lane]);
            }
        }
        for at in 0..self.open.len() {
            let at = self.open[at];
            if self.tickets[at].state == State::Waiting {
                self.check_ticket(world, at, turned, fair, &bounds);
            }
        }
        if let Some((tail, by)) = self.rung {
            if (self.head.wrapping_sub(tail) as i32) >= 0 {
                self.rung = None;
            } else {
                let by = by.max(world.resumed.get() + SLACK_NS);
                assert!(fair <= by, "submissions up to {tail} are not taken: {}", self.head);
            }
        }
    }

    fn check_ticket(
        &mut self,
        world: &World,
        at: usize,
        turned: u64,
        fair: u64,
        bounds: &[u64; LANES as usize],
    ) {
        let ticket = &mut self.tickets[at];
        let mut bound = ticket.bound;
        if let Some(code) = ticket.refusal {
            panic!("ticket {at} is to be refused ({code:?}) and waits: {ticket:?}");
        }
        if self.shut {
            panic!("ticket {at} waits on though all is shut down");
        }
        if let Some(lane) = ticket.lane() {
            bound = bounds[lane];
            let lane = &self.lanes[lane];
            assert!(lane.open, "ticket {at} waits for a closed lane");
            assert!(lane.failed.is_none(), "ticket {at} waits for a failed lane");
            if lane.fell {
                bound = u64::MAX / 2;
            }
        }
        let resumed = world.resumed.get();
        if let Some(reached) = ticket.reached.filter(|_| ticket.lane().is_some() || ticket.polled) {
            let since = reached.fair.max(ticket.accepted).max(resumed);
            if fair > since + bound + SLACK_NS {
                panic!("ticket {at} is done for {} ns and not told: {ticket:?}", fair - since);
            }
        }
        if ticket.deadline <= turned {
            panic!("ticket {at} has outlived its deadline by {}", turned - ticket.deadline);
        }
        if ticket.deadline <= world.now.get() {
            let overdue = *ticket.overdue.get_or_insert(fair);
            let since = overdue.max(resumed);
            assert!(fair <= since + SLACK_NS, "nobody wakes for the deadline of ticket {at}");
        }
    }

    /// The code of a SUBMIT's refusal, if it has to be refused; `free` is the credit left.
    pub fn submit_refusal(
        &self,
        world: &World,
        cookie: u64,
        tickets: &std::ops::Range<usize>,
        free: u32,
    ) -> Option<ErrorCode> {
        let count = tickets.len() as u32;
        if cookie != self.last_cookie + 1 {
            return Some(ErrorCode::CookieOutOfOrder);
        }
        if count > free {
            return Some(ErrorCode::CreditExceeded);
        }
        self.quota(world, count)
            .or_else(|| {
                let mut entries = tickets.clone().map(|at| &self.tickets[at].entry);
                entries.find_map(|entry| self.refusal(world, entry, true))
            })
            .or_else(|| world.rates.refusal(&world.tally, self.uid, count, world.now.get()))
    }
}
