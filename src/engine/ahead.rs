//! What is done ahead of a foreseen completion, so that whoever is told of it need not wait for a
//! CPU that idles.
//!
//! A predicted sleep is split: at a time *ahead* of its end the completion becomes *imminent*.
//! Where its plan says `wake=early` the client is woken then and looks at its own lane; else the
//! caller is to keep CPUs awake, where it can, for as long as any completion is imminent.

use super::engine::Engine;
use super::lane::Mode;
use super::ports::{Effect, Ports};
use super::session::{Context, Session};
use crate::core::time::{DurNs, MonoNs};
use crate::proto::layout::armed;

/// How long ahead, and what can be done then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// How long before the end of the predicted sleep.
    pub by: DurNs,
    /// Whether CPUs can be kept awake from then on.
    pub keeps_awake: bool,
}

impl<P: Ports> Engine<P> {
    /// Sets how much later than asked for the caller wakes from a sleep: predicted sleeps that
    /// begin from now on end so much earlier.
    pub fn set_lead(&mut self, lead: DurNs) {
        self.lead = lead;
    }

    /// Sets what is done ahead of a foreseen completion, and how long ahead.
    pub fn set_ahead(&mut self, ahead: Ahead) {
        self.ahead = ahead;
    }

    /// Whether a completion is expected so soon that CPUs should be awake: from `ahead` before the
    /// end of a predicted sleep until the completion was published, or is not looked for hot any
    /// more. The times of several lanes that overlap are one.
    pub fn is_imminent(&self) -> bool {
        self.imminent > 0
    }
}

impl<P: Ports> Session<P> {
    /// A predicted sleep: first to the time from which somebody is to be awake, then to its end.
    pub(super) fn sleep(&mut self, cx: &mut Context<'_>, lane: u32, until: MonoNs) {
        self.lanes[lane as usize].sleep_until = until;
        let opens = self.opens(cx, lane);
        if opens <= cx.now {
            self.open_ahead(cx, lane);
            return self.set_mode(lane, Mode::Cold, until);
        }
        self.set_mode(lane, Mode::Cold, until.min(opens));
    }

    /// A warm park of a wait whose time for hot looking is still to come: to `until`, or to what
    /// comes first.
    pub(super) fn park_before(&mut self, cx: &mut Context<'_>, lane: u32, until: MonoNs) {
        let opens = self.opens(cx, lane);
        if opens <= cx.now {
            self.open_ahead(cx, lane);
        }
        let next = if opens > cx.now { opens } else { self.lanes[lane as usize].hot_from };
        self.set_warm(lane, cx.now, until.min(next));
    }

    /// When somebody is to be awake for the lane's head.
    fn opens(&self, cx: &Context<'_>, lane: u32) -> MonoNs {
        let entry = &self.lanes[lane as usize];
        let wanted = entry.wakes_early() || cx.ahead.keeps_awake;
        let ahead = if wanted { cx.ahead.by } else { DurNs::ZERO };
        MonoNs(entry.hot_from.0.saturating_sub(ahead.0))
    }

    /// Has somebody awake from now on: once for each wait.
    fn open_ahead(&mut self, cx: &mut Context<'_>, lane: u32) {
        let entry = &mut self.lanes[lane as usize];
        let early = entry.wakes_early();
        if core::mem::replace(&mut entry.opened, true) {
            return;
        }
        if !(early && self.announce(cx, lane)) && cx.ahead.keeps_awake {
            self.set_imminent(cx, lane, true);
        }
    }

    /// Has the client look at its own lane until the window ends. `false` where it polls its
    /// descriptor: whoever is called by that cannot look.
    fn announce(&mut self, cx: &mut Context<'_>, lane: u32) -> bool {
        let until = self.lanes[lane as usize].hot_until;
        self.ports.announce(until.0.wrapping_sub(self.clock_offset_ns as u64));
        let how = self.ports.armed() & armed::HOW;
        if how & armed::TAIL != 0 {
            cx.stats.early_wakes += 1;
            cx.effects.push(Effect::WakeTail { slot: self.slot });
        }
        how & armed::NOTIFY == 0
    }

    /// Says whether a lane's completion is imminent.
    pub fn set_imminent(&mut self, cx: &mut Context<'_>, lane: u32, imminent: bool) {
        let entry = &mut self.lanes[lane as usize];
        match (core::mem::replace(&mut entry.imminent, imminent), imminent) {
            (false, true) => *cx.imminent += 1,
            (true, false) => *cx.imminent -= 1,
            _ => {}
        }
    }
}
