//! The double's side of a session's memory: rings, lanes, bells, and the wakes.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::Levers;
use crate::core::error::ErrorCode;
use crate::core::line::Width;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::futex::{self, FutexAddr};
use crate::proto::entry::{Op, ResultEntry, Status, SubmitEntry, TicketKind};
use crate::proto::layout::{BellKind, SessionState, armed};
use crate::proto::message::Welcome;
use crate::shm::area::Area;
use crate::shm::bells::BellsView;
use crate::shm::control::Control;
use crate::shm::lanes::LanesView;
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::result_ring::ResultProducer;
use crate::shm::ring::RingSizes;
use crate::shm::status::StatusPage;
use crate::shm::submit_ring::SubmitConsumer;
use crate::shm::sync::fence;

/// The session's side.
pub(super) struct Fill {
    submit: SubmitConsumer<Region<ReadWrite>>,
    submit_head: u32,
    results: ResultProducer<Region<ReadWrite>>,
    result_tail: u32,
    control: Control<Region<ReadWrite>>,
    pub(super) lanes: LanesView<Region<ReadOnly>>,
    bells: BellsView<Region<ReadOnly>>,
    status: StatusPage<Region<ReadWrite>>,
    events: OwnedFd,
    bell_events: Option<OwnedFd>,
    told: u32,
    pub(super) outstanding: Vec<(SubmitEntry, Option<OwnedFd>)>,
    random: u64,
}

impl Fill {
    /// The session's memory as WELCOME says, and its fds.
    pub(super) fn make(welcome: &mut Welcome, levers: &Levers) -> (Fill, Vec<OwnedFd>) {
        let by_eventfd = welcome.bell_kind == BellKind::Eventfd as u8;
        let sizes = RingSizes::new(welcome.submit_entries, welcome.result_entries).unwrap();
        let (rings, lanes) = (Area::rings(sizes).unwrap(), Area::lanes(welcome.lanes).unwrap());
        let (page, count) = (Area::status().unwrap(), welcome.lanes);
        let events = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        let (events, bell_events) = (events(), by_eventfd.then(events));
        welcome.lanes <<= u32::from(levers.lie.load(Ordering::SeqCst));
        let memory: Region<ReadWrite> = rings.map().unwrap();
        let watched: Region<ReadOnly> = lanes.map().unwrap();
        let fill = Fill {
            submit: SubmitConsumer::new(memory.clone(), sizes).unwrap(),
            submit_head: 0,
            results: ResultProducer::new(memory.clone(), sizes).unwrap(),
            result_tail: 0,
            control: Control::new(memory, sizes).unwrap(),
            lanes: LanesView::new(watched.clone(), count).unwrap(),
            bells: BellsView::new(watched).unwrap(),
            status: StatusPage::new(page.map().unwrap()).unwrap(),
            events: events.try_clone().unwrap(),
            bell_events: bell_events.as_ref().map(|bell| bell.try_clone().unwrap()),
            told: 0,
            outstanding: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
        };
        fill.control.serve(3, SessionState::Live);
        fill.status.begin(3, "double");
        let mut fds = vec![rings.into_fd(), lanes.into_fd(), page.readonly_fd().unwrap(), events];
        fds.extend(bell_events);
        (fill, fds)
    }

    pub(super) fn turn(&mut self, levers: &Levers, widths: &HashMap<u32, Width>) {
        self.take_submissions(levers);
        self.look(levers, widths);
        let close = levers.close.swap(0, Ordering::SeqCst);
        if close != 0 {
            self.control.close(ErrorCode::from_number(close as u16).unwrap());
        }
        self.idle();
    }

    /// Another life goes on with what this one had, without the fds.
    pub(super) fn live_again(&mut self, life: u32, levers: &Levers) {
        self.outstanding.iter_mut().for_each(|(_, fd)| *fd = None);
        levers.fds.store(0, Ordering::SeqCst);
        self.told = 0;
        self.control.serve(life, SessionState::Live);
        self.status.begin(life, "double");
        futex::wake_one(FutexAddr::new(self.results.tail_address())).unwrap();
        let _ = rustix::io::write(&self.events, &1u64.to_ne_bytes());
    }

    /// Fds of tickets that it has.
    pub(super) fn fds(&self) -> u64 {
        self.outstanding.iter().filter(|(_, fd)| fd.is_some()).count() as u64
    }

    /// Gives fds to outstanding tickets of these names.
    pub(super) fn give_fds(&mut self, entries: &[SubmitEntry], fds: Vec<OwnedFd>) {
        let mut fds: Vec<_> = fds.into_iter().map(Some).collect();
        for entry in entries {
            let named = |(waits, _): &&mut (SubmitEntry, _)| waits.user_data == entry.user_data;
            if let Some((_, fd)) = self.outstanding.iter_mut().find(named) {
                *fd = fds[entry.source as usize].take();
            }
        }
    }

    fn take_submissions(&mut self, levers: &Levers) {
        if levers.deaf.load(Ordering::SeqCst) {
            return;
        }
        for _ in 0..self.submit.pending(self.submit_head).unwrap() {
            let entry = SubmitEntry::from_words(self.submit.entry(self.submit_head));
            self.submit_head = self.submit_head.wrapping_add(1);
            match entry.check().unwrap().0 {
                Op::Ticket => {
                    levers.tickets.fetch_add(1, Ordering::SeqCst);
                    self.outstanding.push((entry, None));
                }
                Op::Cancel => {
                    levers.cancels.fetch_add(1, Ordering::SeqCst);
                    let named = |e: &SubmitEntry| e.user_data == entry.user_data;
                    self.end_where(levers, Status::Cancelled, 0, named);
                }
                Op::Fail => {
                    let (failed, code) = (Status::DeviceFailed, entry.target as u32);
                    self.end_where(levers, failed, code, |e| is_on(e, entry.source));
                }
            }
        }
        self.submit.set_head(self.submit_head);
        let held = self.outstanding.len() as u64;
        let held = held + u64::from(self.results.unread(self.result_tail).unwrap());
        levers.most_held.fetch_max(held, Ordering::SeqCst);
        levers.outstanding.store(self.outstanding.len() as u64, Ordering::SeqCst);
    }

    pub(super) fn end_where(
        &mut self,
        levers: &Levers,
        status: Status,
        code: u32,
        which: impl Fn(&SubmitEntry) -> bool,
    ) {
        let (ended, rest) = self.outstanding.drain(..).partition(|(e, _)| which(e));
        self.outstanding = rest;
        let _: &Vec<(SubmitEntry, Option<OwnedFd>)> = &ended;
        for (entry, _) in &ended {
            self.write(levers, entry, status, code, 0);
        }
        self.publish(levers);
    }

    fn look(&mut self, levers: &Levers, widths: &HashMap<u32, Width>) {
        if levers.hold.load(Ordering::SeqCst) {
            return;
        }
        // Shuffled: what is asked for last can be answered first.
        for index in (1..self.outstanding.len()).rev() {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.outstanding.swap(index, (self.random % (index as u64 + 1)) as usize);
        }
        let now = clock::now();
        let mut ended = Vec::new();
        let lanes = &self.lanes;
        self.outstanding.retain(|(entry, fd)| {
            let (reached, seen) = match fd {
                Some(fd) => {
                    let mut fds = [PollFd::new(fd, PollFlags::IN)];
                    (poll(&mut fds, Some(&Timespec::default())) == Ok(1), 1)
                }
                None if entry.kind == TicketKind::Fd as u8 => (false, 0),
                None => {
                    let width = widths.get(&entry.source).copied().unwrap_or(Width::W64);
                    let seen = lanes.load(entry.source);
                    (width.reached(seen, entry.target), seen)
                }
            };
            let expired = entry.deadline_ns != 0 && now.0 >= entry.deadline_ns;
            if reached || expired {
                let status = if reached { Status::Done } else { Status::DeadlineExpired };
                ended.push((*entry, status, seen));
            }
            !(reached || expired)
        });
        for (entry, status, seen) in ended {
            self.write(levers, &entry, status, 0, seen);
        }
        self.publish(levers);
    }

    fn write(
        &mut self,
        levers: &Levers,
        entry: &SubmitEntry,
        status: Status,
        code: u32,
        seen: u64,
    ) {
        let now = clock::now().0;
        let result = ResultEntry {
            user_data: entry.user_data,
            status: status as u8,
            waited: if status == Status::Done { 3 } else { 0 },
            code,
            seen,
            submitted_ns: now,
            detected_ns: now,
            published_ns: now,
            ..ResultEntry::default()
        };
        for _ in 0..if levers.twice.load(Ordering::SeqCst) { 2 } else { 1 } {
            let unread = self.results.unread(self.result_tail).unwrap();
            assert!(unread < self.results.entries(), "the client went beyond its credit");
            self.results.write(self.result_tail, result);
            self.result_tail = self.result_tail.wrapping_add(1);
            levers.results.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn publish(&mut self, levers: &Levers) {
        self.results.publish(self.result_tail);
        levers.outstanding.store(self.outstanding.len() as u64, Ordering::SeqCst);
        self.wake(levers);
    }

    fn wake(&mut self, levers: &Levers) {
        fence(Ordering::SeqCst);
        let how = armed::due(self.results.armed(), &mut self.told, self.result_tail);
        if how == armed::NOT {
            return;
        }
        levers.wakes.fetch_add(1, Ordering::SeqCst);
        if how & armed::TAIL != 0 {
            futex::wake_one(FutexAddr::new(self.results.tail_address())).unwrap();
        }
        if how & armed::NOTIFY != 0 {
            let _ = rustix::io::write(&self.events, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until the doorbell rings, a moment at most: stores ring nothing.
    fn idle(&self) {
        const MOMENT: DurNs = DurNs(100_000);
        self.status.park();
        let seen = self.bells.read(0);
        if self.submit.pending(self.submit_head).unwrap() == 0 {
            match &self.bell_events {
                None => {
                    let until: MonoNs = clock::now() + MOMENT;
                    futex::wait(FutexAddr::new(self.bells.address(0)), seen, Some(until)).unwrap();
                }
                Some(bell) => {
                    let mut fds = [PollFd::new(bell, PollFlags::IN)];
                    let moment = Timespec { tv_sec: 0, tv_nsec: MOMENT.0 as _ };
                    if poll(&mut fds, Some(&moment)) == Ok(1) {
                        let _ = rustix::io::read(bell, &mut [0u8; 8]);
                    }
                }
            }
        }
        self.status.unpark();
    }
}

/// Whether the ticket waits for this lane.
pub(super) fn is_on(entry: &SubmitEntry, lane: u32) -> bool {
    entry.kind == TicketKind::Word as u8 && entry.source == lane
}
