//! What the desk asks of FILL, and FILL's answers.

use std::io;

use super::Fill;
use super::seats::BellWatch;
use super::token::Named;
use crate::core::error::{Error, ErrorCode};
use crate::core::line::Width;
use crate::daemon::command::{
    Answer, Arrival, Ask, Asked, Command, Counters, Leftovers, Reply, Seat, TicketFd,
};
use crate::engine::{self, Refusal};
use crate::host::clock;
use crate::host::fill::{FillHost, Watch};
use crate::proto::entry::{SubmitEntry, TicketKind};
use crate::proto::limits::{RING_ENTRIES_MAX, SUBMIT_BATCH};

type Answered = Result<Answer, Refusal>;

impl<H: FillHost> Fill<H> {
    /// Does a command; `false` when it was to stop.
    pub(super) fn command(&mut self, command: Command) -> io::Result<bool> {
        match command {
            Command::Attach(seat, arrival) => self.attach(seat, *arrival),
            Command::Detach(seat) => self.detach(seat)?,
            Command::Request(seat, asked, ask) => {
                let mut spent = Vec::new();
                let answer = match self.seats.seated(seat) {
                    Some(_) => self.ask(seat, asked, ask, &mut spent),
                    None if matches!(ask, Ask::Counters) => Ok(self.counters()),
                    None => {
                        self.refuse_fds(seat, ask);
                        Err(gone())
                    }
                };
                let answer = answer.unwrap_or_else(Answer::Refused);
                self.end.reply(Reply::Answer(seat, asked, answer, spent));
            }
            Command::Doubt => self.doubt_words(),
            Command::Relink => self.engine.relink(self.now),
            Command::Drain(seat, asked, until) => self.begin_drain(seat, asked, until),
            Command::Stop => {
                for at in 0..self.seats.taken().len() {
                    self.engine.shut_down(self.seats.taken()[at], self.now);
                }
                return Ok(false);
            }
            Command::Leave => return Ok(false),
        }
        Ok(true)
    }

    /// A request of a session that is gone: its fds are the desk's to close.
    fn refuse_fds(&mut self, seat: Seat, ask: Ask) {
        if let Ask::Submit(_, fds) = ask {
            fds.into_iter().for_each(|ticket| self.end.reply(Reply::Fd(seat, ticket.fd)));
        }
    }

    fn attach(&mut self, seat: Seat, arrival: Arrival) {
        let Arrival { session, notify, bell, recovered } = arrival;
        let devices = session.devices();
        if let Err(session) = self.engine.attach(session) {
            let error = Error::new(ErrorCode::LimitExceeded, "session: its slot is not free");
            let left = Leftovers { eventfds: [notify].into(), ..Leftovers::default() };
            self.end.reply(Reply::Broken(seat, error));
            self.end.reply(Reply::Detached(seat, Some(session), Box::new(left)));
            self.recovering.extend(recovered.then_some(seat));
            return;
        }
        self.seats.take(seat, notify, bell);
        self.owed.arm(seat.slot);
        self.hear_of(seat.slot);
        self.arrived.push(seat.slot);
        if recovered {
            self.resume(seat, devices);
        }
    }

    /// Goes on with a session that an earlier life of the daemon made: whatever rang since is
    /// looked at here.
    fn resume(&mut self, seat: Seat, devices: u64) {
        let slot = seat.slot;
        for device in (0..u64::BITS).filter(|device| devices & 1 << device != 0) {
            self.hear_bell(slot, device + 1);
        }
        self.engine.resume(slot, self.now);
        self.take_submissions_of(slot);
        self.recovering.push(seat);
    }

    /// Has a device's bell of a session watched.
    fn hear_bell(&mut self, slot: u16, bell: u32) {
        if let Some(seated) = self.seats.at(slot)
            && let Some(memory) = self.engine.ports(slot)
            && seated.bells.iter().all(|watch| watch.bell != bell)
        {
            let seen = memory.bells.read(bell);
            seated.bells.push(BellWatch { bell, seen, armed: false });
            self.owed.arm(slot);
        }
    }

    /// The sessions that were resumed in this turn have been served.
    pub(super) fn recovered(&mut self) {
        while let Some(seat) = self.recovering.pop() {
            self.engine.recovered(seat.slot, self.now);
            self.end.reply(Reply::Recovered(seat));
        }
    }

    fn detach(&mut self, seat: Seat) -> io::Result<()> {
        if self.seats.seated(seat).is_none() {
            return Ok(());
        }
        self.forget_bells(seat.slot)?;
        if let Some(seated) = self.seats.at(seat.slot)
            && seated.ringing
        {
            let token = Named::Notify(seated.who()).token();
            self.host.cancel(Watch::Ring, token)?;
        }
        let session = self.engine.detach(seat.slot, self.now);
        self.effects()?;
        // What the kernel was asked to forget refers to fds that the desk closes next.
        self.host.flush()?;
        let left = self.seats.leave(seat).unwrap_or_default();
        self.end.reply(Reply::Detached(seat, session, Box::new(left)));
        Ok(())
    }

    fn ask(
        &mut self,
        seat: Seat,
        asked: Asked,
        ask: Ask,
        spent: &mut Vec<SubmitEntry>,
    ) -> Answered {
        let (slot, now) = (seat.slot, self.now);
        let Asked { cookie, again, .. } = asked;
        // What was submitted before the request was sent comes before it.
        self.take_submissions_of(slot);
        match ask {
            Ask::OpenLane(lane, width, device) => {
                match again.then(|| self.engine.opened_by(slot, cookie, now)).flatten() {
                    Some((lane, device, value)) => Ok(Answer::LaneOpened(lane, device, value)),
                    None => self.open_lane(slot, cookie, lane, width, device),
                }
            }
            Ask::CloseLane(lane) => self.engine.close_lane(slot, lane, now).map(|()| Answer::Done),
            Ask::Plan(bands) => self.engine.add_plan(slot, *bands, now).map(Answer::Plan),
            Ask::Submit(entries, fds) => {
                *spent = entries;
                if again && cookie <= self.engine.last_cookie(slot, now) {
                    return Ok(self.give_fds(slot, spent, fds));
                }
                self.submit(slot, cookie, spent, fds)
            }
            Ask::Cancel(name) => self.engine.cancel(slot, name, now).map(|()| Answer::Done),
            Ask::Fail(lane, code) => self.engine.fail(slot, lane, code, now).map(|()| Answer::Done),
            Ask::Share(lane, fresh) => {
                let shared = self.engine.share(slot, lane, fresh, now);
                shared.map(|capability| Answer::Shared(lane, capability))
            }
            Ask::Redeem(owner, capability) => self.redeem(slot, asked, owner, capability),
            Ask::Revoke(lane) => self.engine.revoke(slot, lane, now).map(|_| Answer::Revoked(lane)),
            Ask::Counters => Ok(self.counters()),
        }
    }

    /// `owner` is the desk's, and may have gone since.
    fn redeem(
        &mut self,
        slot: u16,
        asked: Asked,
        owner: Option<(Seat, u32)>,
        capability: u128,
    ) -> Answered {
        let (cookie, now) = (asked.cookie, self.now);
        let before = asked.again.then(|| self.engine.redeemed_by(slot, cookie, now)).flatten();
        let redeemed = match before {
            Some(redeemed) => redeemed,
            None => {
                let owner = owner.filter(|(seat, _)| self.seats.seated(*seat).is_some());
                let (seat, lane) = owner.ok_or_else(engine::no_such_capability)?;
                self.engine.redeem(slot, cookie, (seat.slot, lane), capability, now)?
            }
        };
        self.hear_bell(slot, redeemed.device + 1);
        Ok(Answer::Redeemed(redeemed))
    }

    fn open_lane(
        &mut self,
        slot: u16,
        cookie: u64,
        lane: Option<u32>,
        width: Width,
        device: u32,
    ) -> Answered {
        let (lane, value) = self.engine.open_lane(slot, lane, width, device, cookie, self.now)?;
        self.hear_bell(slot, device + 1);
        Ok(Answer::LaneOpened(lane, device, value))
    }

    fn submit(
        &mut self,
        slot: u16,
        cookie: u64,
        entries: &mut [SubmitEntry],
        fds: Vec<TicketFd>,
    ) -> Answered {
        let Some(seated) = self.seats.at(slot) else { return Err(gone()) };
        let places: Vec<u32> = fds.into_iter().map(|fd| seated.fds.keep(fd)).collect();
        let mut used = vec![false; places.len()];
        for entry in entries.iter_mut().filter(|entry| entry.kind == TicketKind::Fd as u8) {
            let index = entry.source as usize;
            // Each fd is one ticket's, so that its end gives the fd back.
            if std::mem::replace(&mut used[index], true) {
                self.give_back(slot, &places);
                let text = format!("SUBMIT: fd {index} belongs to two tickets");
                return Err(Error::new(ErrorCode::BadMessage, text).into());
            }
            entry.source = places[index];
        }
        if used.contains(&false) {
            self.give_back(slot, &places);
            let text = "SUBMIT: a file descriptor belongs to no ticket";
            return Err(Error::new(ErrorCode::BadMessage, text).into());
        }
        match self.engine.submit(slot, cookie, entries, self.now) {
            Ok(free) => Ok(Answer::Submitted(entries.len() as u32, free)),
            Err(refusal) => {
                self.give_back(slot, &places);
                Err(refusal)
            }
        }
    }

    /// The tickets of a SUBMIT that an earlier life of the daemon took get their fds again, where
    /// they still wait for one.
    fn give_fds(&mut self, slot: u16, entries: &[SubmitEntry], fds: Vec<TicketFd>) -> Answer {
        let mut places = Vec::new();
        if let Some(seated) = self.seats.at(slot) {
            places.extend(fds.into_iter().map(|fd| seated.fds.keep(fd)));
        }
        for entry in entries.iter().filter(|entry| entry.kind == TicketKind::Fd as u8) {
            if let Some(&place) = places.get(entry.source as usize)
                && self.engine.give_fd(slot, entry.user_data, place, self.now)
            {
                // Not to be given back.
                places[entry.source as usize] = u32::MAX;
            }
        }
        self.give_back(slot, &places);
        let free = self.engine.free(slot, self.now);
        Answer::Submitted(entries.len() as u32, free)
    }

    /// Gives fds of tickets that were not taken back to the desk.
    fn give_back(&mut self, slot: u16, places: &[u32]) {
        for &place in places {
            if let Some(seated) = self.seats.at(slot)
                && let Some(fd) = seated.fds.give_up(place)
            {
                let seat = seated.seat;
                self.end.reply(Reply::Fd(seat, fd));
            }
        }
    }

    /// Takes what stands in the submission rings: a ringful each at most, since some clients do
    /// not stop.
    pub(super) fn take_submissions(&mut self) {
        for at in 0..self.seats.taken().len() {
            self.take_submissions_of(self.seats.taken()[at]);
        }
    }

    fn take_submissions_of(&mut self, slot: u16) {
        let mut batches = RING_ENTRIES_MAX / SUBMIT_BATCH;
        while batches > 0 && self.engine.drain(slot, self.now) {
            batches -= 1;
        }
    }

    fn counters(&mut self) -> Answer {
        // What was sent without a wake counts as well.
        self.take_submissions();
        let by_slot = self.seats.taken().iter();
        let (awake_ns, awake_writes) = self.awake.counters(self.now);
        Answer::Counters(Box::new(Counters {
            stats: *self.engine.stats(),
            outstanding: self.engine.outstanding(),
            by_slot: by_slot.map(|&slot| (slot, self.engine.outstanding_of(slot))).collect(),
            turns: self.turns,
            syscalls: self.host.syscalls(),
            cpu_ns: clock::thread_cpu().0,
            awake_ns,
            awake_writes,
        }))
    }
}

fn gone() -> Refusal {
    Error::new(ErrorCode::Disconnected, "the session is closed").into()
}
