//! Waiting for lanes: `core::step` says what comes next, this file does it with looks at words.
//!
//! In the daemon a query is a look at the word, and there is nothing to arm. A park is a look
//! every `park_us` (*warm*), or every turn where the head is inside its predicted window and its
//! session has some of the budget left (*hot*).

use super::lane::{Lane, Mode};
use super::ports::Ports;
use super::publish::End;
use super::session::{Context, HotLane, Session};
use super::table::Row;
use crate::core::anchored::Begun;
use crate::core::estimator::Sample;
use crate::core::plan::Plan;
use crate::core::step::{Action, Event, Outcome, Wait, Waited};
use crate::core::time::{DurNs, MonoNs};
use crate::proto::entry::Status;
use crate::proto::limits::{SESSION_DUE_LOOKS, SESSION_HOT_LANES_MAX, SESSION_WARM_LANES};

/// How long a session rests that had more lanes to look at than one turn looks at.
const REST: DurNs = DurNs::from_us(20);

/// What a look costs that comes sooner than the configured park: FILL wakes for it.
const WAKE_UP: DurNs = DurNs::from_us(5);

impl<P: Ports> Session<P> {
    /// Lets a recorded ticket wait on its lane, which is open; ends it where its number has been
    /// reached, or never will be.
    pub fn join_lane(&mut self, cx: &mut Context<'_>, at: u32, lane: u32) {
        let table = self.table.parts();
        let row = &table.rows[at as usize];
        let entry = &mut self.lanes[lane as usize];
        let word = entry.word(&self.ports, lane);
        if entry.width.reached(word, row.target) {
            return self.landed(cx, at, word);
        }
        if entry.redeemed.is_some_and(|redeemed| redeemed.absent) {
            // Whether the number was reached, and in time, is seen once the owner is found.
            self.tickets.hold_deadline(table.rows, at);
        } else if let Some(over) = entry.over {
            return self.publish(cx, at, over.end(word));
        }
        let first = entry.order.is_empty();
        if first {
            entry.base = word;
        }
        let (base, mask) = (entry.base, entry.mask());
        entry.order.push(&mut self.tickets.lane_order(table.rows, base, mask), at);
        let is_head = entry.order.first() == Some(at);
        if first {
            self.join_waiting(lane);
        }
        if is_head {
            self.next_head(cx, lane);
        }
    }

    /// Ends a ticket whose number had been reached when it was submitted.
    fn landed(&mut self, cx: &mut Context<'_>, at: u32, word: u64) {
        let row = self.table.rows()[at as usize];
        let Lane { device, order, .. } = &self.lanes[row.source as usize];
        let (device, alone) = (*device, order.is_empty());
        let plan = self.plan_of(cx, &row, device);
        let outcome = Outcome::at_once(plan.park);
        if let (Some(predict), Some(sample)) = (plan.predict, outcome.sample)
            && alone
        {
            self.points.record(row.point, &predict, sample, Begun::default());
        }
        let waited = Some(outcome.waited);
        self.publish(cx, at, End { status: Status::Done, waited, code: 0, seen: word });
    }

    /// The plan that a ticket waits by.
    fn plan_of(&self, cx: &Context<'_>, row: &Row, device: u32) -> Plan {
        // A plan cannot disappear while tickets name it: accepting them has checked it.
        let bands = self.bands(row.plan, device, cx.config);
        bands.map_or(Plan::BLOCK, |bands| bands.plan_for(row.rows))
    }

    /// Starts the wait of whatever ticket is first on the lane now.
    pub fn next_head(&mut self, cx: &mut Context<'_>, lane: u32) {
        if self.set_head(cx, lane) {
            self.advance(cx, lane, Event::Begin, None);
        }
    }

    /// Prepares the wait of the ticket that is first on the lane now; `false` when none waits.
    fn set_head(&mut self, cx: &mut Context<'_>, lane: u32) -> bool {
        self.set_imminent(cx, lane, false);
        let Some(at) = self.lanes[lane as usize].order.first() else {
            self.set_mode(lane, Mode::Idle, MonoNs::MAX);
            self.leave_waiting(lane);
            return false;
        };
        let row = self.table.rows()[at as usize];
        let plan = self.plan_of(cx, &row, self.lanes[lane as usize].device);
        let entry = &mut self.lanes[lane as usize];
        let submitted = MonoNs(row.submitted_ns);
        let start = submitted.max(entry.last_done);
        entry.learn_from = submitted.max(entry.last_done_min);
        let known = entry.last_done > MonoNs(0);
        let after = known.then(|| start.since(entry.last_done));
        entry.begun = Begun { after, slack: start.since(entry.learn_from) };
        let begun = entry.begun;
        let foreseen =
            plan.predict.and_then(|predict| self.points.foresee(row.point, &predict, begun));
        let sleep = foreseen.map(|foreseen| foreseen.sleep.saturating_sub(cx.lead));
        let looks = foreseen.map(|foreseen| {
            let half = DurNs(cx.config.spin.0 / 2);
            foreseen.sleep.max(foreseen.expected.saturating_sub(half)).saturating_sub(cx.lead)
        });
        let entry = &mut self.lanes[lane as usize];
        entry.head_target = row.target;
        entry.point = row.point;
        entry.predict = plan.predict;
        entry.wait = Wait::new(&plan, start, sleep, None);
        entry.opened = false;
        entry.hot_from = looks.map_or(MonoNs::MAX, |looks| start + looks);
        entry.hot_until = looks.map_or(MonoNs(0), |looks| start + looks + cx.config.spin);
        true
    }

    /// Goes on with a lane's wait after `event`, to its next rest. `seen` is the word, where a
    /// look at it is the event.
    fn advance(&mut self, cx: &mut Context<'_>, lane: u32, event: Event, seen: Option<u64>) {
        let (mut event, mut seen) = (event, seen);
        loop {
            let entry = &mut self.lanes[lane as usize];
            match entry.wait.step(cx.now, event) {
                Action::Query => {
                    seen = entry.look(&self.ports, lane, cx.now);
                    event = Event::Queried(seen.is_some());
                }
                Action::Arm => event = Event::Armed,
                Action::SleepUntil(until) => return self.sleep(cx, lane, until),
                Action::ParkUntil(until) => return self.park(cx, lane, until),
                Action::Poll { .. } => return self.poll(cx, lane),
                Action::Block { .. } => {
                    seen = entry.look(&self.ports, lane, cx.now);
                    if seen.is_none() {
                        let due = cx.now + cx.config.backstop;
                        return self.set_mode(lane, Mode::Blocked, due);
                    }
                    event = Event::Blocked(true);
                }
                Action::Finish(outcome) => {
                    self.complete(cx, lane, seen, outcome);
                    if !self.set_head(cx, lane) {
                        return;
                    }
                    event = Event::Begin;
                }
                // Deadlines are the tickets' and not the waits': no wait of a lane expires.
                Action::Expire => return self.set_mode(lane, Mode::Blocked, cx.now),
            }
        }
    }

    /// A bounded park: hot inside the predicted window, else warm.
    fn park(&mut self, cx: &mut Context<'_>, lane: u32, until: MonoNs) {
        let Lane { hot_from, hot_until, .. } = self.lanes[lane as usize];
        let foreseen = cx.now < hot_until;
        if foreseen && cx.now < hot_from {
            self.park_before(cx, lane, until);
        } else if foreseen && self.may_be_hot(cx, lane) {
            self.go_hot(cx, lane, hot_until);
        } else {
            self.set_imminent(cx, lane, false);
            // What is left of the window is not tried again: going from hot to asleep and back
            // costs more than it finds.
            self.lanes[lane as usize].hot_until = cx.now;
            let until = self.affordable(cx, until);
            self.set_warm(lane, cx.now, until);
        }
    }

    /// When a warm lane is looked at next: at `until`, or after the configured park where that is
    /// later and the session's share of looking does not pay for more. With many lanes that wait
    /// the configured park grows, so that all together are not looked at more often than some.
    fn affordable(&mut self, cx: &mut Context<'_>, until: MonoNs) -> MonoNs {
        let many = self.waiting.len() as u64 / u64::from(SESSION_WARM_LANES);
        let usual = cx.now + DurNs(cx.config.park.0 * (1 + many));
        let percent = cx.config.spin_budget_percent;
        if until >= usual || !self.budget.may_spend(cx.now, percent, cx.sharers, true) {
            return until.max(usual);
        }
        self.budget.charge(WAKE_UP);
        until
    }

    /// Hot until done, within the session's share; a look every park where that is used up.
    fn poll(&mut self, cx: &mut Context<'_>, lane: u32) {
        let due = cx.now + cx.config.park;
        if self.may_be_hot(cx, lane) {
            self.go_hot(cx, lane, due);
        } else {
            self.set_warm(lane, cx.now, due);
        }
    }

    fn may_be_hot(&mut self, cx: &mut Context<'_>, lane: u32) -> bool {
        let percent = cx.config.spin_budget_percent;
        let hot_already = self.lanes[lane as usize].mode == Mode::Hot;
        let room = hot_already || self.hot_lanes < SESSION_HOT_LANES_MAX;
        let may = room && self.budget.may_spend(cx.now, percent, cx.sharers, hot_already);
        cx.stats.hot_refused += u64::from(!may);
        may
    }

    fn go_hot(&mut self, cx: &mut Context<'_>, lane: u32, until: MonoNs) {
        self.set_mode(lane, Mode::Hot, until);
        let entry = &mut self.lanes[lane as usize];
        if !core::mem::replace(&mut entry.hot_listed, true) {
            cx.hot.push(HotLane { slot: self.slot, lane });
        }
    }

    /// Looks at a lane in a hot turn. `share` is what the lane is charged for the turn before.
    pub fn look_hot(&mut self, cx: &mut Context<'_>, lane: u32, share: DurNs) {
        self.budget.charge(share);
        cx.stats.hot_looks += 1;
        if let Some(word) = self.lanes[lane as usize].look(&self.ports, lane, cx.now) {
            self.advance(cx, lane, Event::Seen, Some(word));
        } else if self.budget.is_empty() {
            self.advance(cx, lane, Event::Parked, None);
        }
    }

    /// A bell of this device rang, or all should be looked at (`None`).
    pub fn look_at_device(&mut self, cx: &mut Context<'_>, device: Option<u32>) {
        self.look_at(cx, |lane| device.is_none_or(|device| device == lane.device));
    }

    /// Looks at the lanes with tickets that `which` chooses.
    pub fn look_at(&mut self, cx: &mut Context<'_>, which: impl Fn(&Lane) -> bool) {
        let mut at = 0;
        while let Some(&lane) = self.waiting.get(at) {
            let entry = &mut self.lanes[lane as usize];
            if which(entry)
                && let Some(word) = entry.look(&self.ports, lane, cx.now)
            {
                self.advance(cx, lane, Event::Seen, Some(word));
            }
            // A lane whose last ticket ended has left, and another stands in its place.
            at += usize::from(self.waiting.get(at) == Some(&lane));
        }
    }

    /// Looks at one lane now.
    pub fn look_at_lane(&mut self, cx: &mut Context<'_>, lane: u32) {
        let entry = &mut self.lanes[lane as usize];
        if entry.mode == Mode::Idle {
            return;
        }
        if let Some(word) = entry.look(&self.ports, lane, cx.now) {
            self.advance(cx, lane, Event::Seen, Some(word));
        }
    }

    /// Does what is due at `cx.now`. Of more lanes than [`SESSION_DUE_LOOKS`] the others are looked
    /// at a little later, when the neighbours' turn has come.
    pub fn run_due(&mut self, cx: &mut Context<'_>) {
        let mut looks = if cx.now < self.rests_until { 0 } else { SESSION_DUE_LOOKS };
        while let Some(lane) = self.due.first() {
            let entry = &mut self.lanes[lane as usize];
            if entry.may_look > cx.now || looks == 0 {
                break;
            }
            if entry.mode == Mode::Cold && entry.sleep_until > cx.now {
                let until = entry.sleep_until;
                self.sleep(cx, lane, until);
                continue;
            }
            looks -= 1;
            if looks == 0 {
                self.rests_until = cx.now + REST;
            }
            cx.stats.due_looks += 1;
            let event = match entry.mode {
                Mode::Cold | Mode::Idle => Event::Woke,
                Mode::Warm | Mode::Hot => Event::Parked,
                Mode::Blocked => Event::Blocked(false),
            };
            // A predicted sleep's end has a look of its own, which makes the result Late.
            let seen = match event {
                Event::Woke => None,
                _ => entry.look(&self.ports, lane, cx.now),
            };
            self.advance(cx, lane, seen.map_or(event, |_| Event::Seen), seen);
        }
        while let Some(at) = self.tickets.expired(self.table.rows(), cx.now.0) {
            self.expire(cx, at);
        }
    }

    /// A ticket's deadline has come: one last look decides.
    fn expire(&mut self, cx: &mut Context<'_>, at: u32) {
        let row = self.table.rows()[at as usize];
        if self.tickets.in_lane(at) {
            let word = self.lanes[row.source as usize].word(&self.ports, row.source);
            if self.lanes[row.source as usize].width.reached(word, row.target) {
                return self.advance(cx, row.source, Event::Seen, Some(word));
            }
        }
        self.finish(cx, at, End::without(Status::DeadlineExpired, 0));
    }

    /// Ends the head and all behind it that the word `seen` has reached.
    fn complete(&mut self, cx: &mut Context<'_>, lane: u32, seen: Option<u64>, outcome: Outcome) {
        let Lane { base, width, point, predict, learn_from, not_yet, begun, .. } =
            self.lanes[lane as usize];
        let mask = self.lanes[lane as usize].mask();
        let word = seen.unwrap_or_else(|| self.lanes[lane as usize].word(&self.ports, lane));
        let mut waited = outcome.waited;
        let mut count = 0;
        loop {
            let table = self.table.parts();
            let order = &mut self.lanes[lane as usize].order;
            let Some(at) = order.first() else { break };
            if !width.reached(word, table.rows[at as usize].target) {
                break;
            }
            order.pop(&mut self.tickets.lane_order(table.rows, base, mask));
            let end = End { status: Status::Done, waited: Some(waited), code: 0, seen: word };
            self.publish(cx, at, end);
            // Those behind the head were found by the head's wait.
            waited = Waited::Parked;
            count += 1;
        }
        if let (Some(predict), Some(sample)) = (predict, outcome.sample) {
            let sample = match sample {
                Sample::Exact(_) => {
                    let to = mean(cx.now.since(learn_from), count);
                    // Where no look came before, a bell told.
                    let from = if not_yet > learn_from { not_yet } else { cx.now };
                    Sample::Between { from: mean(from.since(learn_from), count), to }
                }
                other => other,
            };
            self.points.record(point, &predict, sample, begun);
        }
        self.lanes[lane as usize].done(cx.now, cx.config.park);
    }
}

/// A look that finds `count` numbers reached at once has measured the sum of their residuals: the
/// estimator learns the mean.
fn mean(residual: DurNs, count: u64) -> DurNs {
    DurNs(residual.0 / count.max(1))
}
