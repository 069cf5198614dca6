//! What a peer sends after it has been accepted.

use std::os::fd::AsFd;

use super::Desk;
use super::closer::Strangers;
use super::peer::Phase;
use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::daemon::command::{Ask, Asked, Command, TicketFd};
use crate::engine::Refusal;
use crate::host::fds;
use crate::proto::entry::SubmitEntry;
use crate::proto::message::{self, AGAIN, Header, Opcode};
use crate::proto::request::{self, Request};

type Answered = core::result::Result<(), Refusal>;

impl Desk {
    /// Handles one record. What is refused is answered; what comes before HELLO and is no HELLO
    /// ends the connection.
    pub(super) fn record(&mut self, serial: u32, bytes: usize, fds: Strangers, cut: bool) {
        let Some(peer) = self.peers.get(&serial) else { return };
        if matches!(peer.phase, Phase::Parting) {
            return;
        }
        let greeting = matches!(peer.phase, Phase::Greeting);
        let record = self.inbox.record(bytes);
        let cookie = request::header(record).map_or(0, |header| header.cookie);
        if !fds.as_slice().is_empty()
            && let Err(error) = self.closer.check(peer.who.uid)
        {
            return self.part(serial, cookie, &error);
        }
        let parsed = if cut {
            let text = "message: cut off: too long, or too many file descriptors";
            Err(Error::new(ErrorCode::BadMessage, text))
        } else {
            request::parse(record)
        };
        let done = parsed
            .map_err(Refusal::from)
            .and_then(|(header, request)| self.request(serial, &header, request, fds));
        match done {
            Ok(()) => {}
            Err(refusal) if greeting => self.part(serial, cookie, &refusal.error),
            Err(Refusal { error, value }) => {
                self.send(serial, message::error(cookie, &error, value, false), Vec::new());
            }
        }
    }

    fn request(
        &mut self,
        serial: u32,
        header: &Header,
        request: Request,
        fds: Strangers,
    ) -> Answered {
        let Some(opcode) = Opcode::from_number(header.opcode) else { return Ok(()) };
        let Some(peer) = self.peers.get(&serial) else { return Ok(()) };
        check_phase(&peer.phase, opcode)?;
        let again = header.flags & AGAIN != 0;
        if self.is_received(serial, header.cookie) && again {
            // The first one is answered.
            return Ok(());
        }
        check_fds(opcode, &request, fds.as_slice().len())?;
        let asked = Asked { opcode, cookie: header.cookie, again };
        let ask = match request {
            Request::Hello(hello) => {
                return Ok(self.hello(serial, header.cookie, &hello, fds)?);
            }
            Request::OpenLane(lane, width, device) => self.open_lane(lane, width, &device)?,
            Request::CloseLane(lane) => Ask::CloseLane(lane),
            Request::PlanText(text) => Ask::Plan(Box::new(Bands::parse(&text)?)),
            Request::PlanName(name) => Ask::Plan(Box::new(self.plan_named(&name)?)),
            Request::Submit(entries, count) => self.submit(serial, entries, count, fds)?,
            Request::Cancel(user_data) => Ask::Cancel(user_data),
            Request::Fail(lane, code) => Ask::Fail(lane, code),
            Request::Share(lane, secret) => self.share(serial, lane, secret)?,
            Request::Redeem(capability) => self.redeem(serial, capability, again)?,
            Request::Revoke(lane) => Ask::Revoke(lane),
            Request::Status => {
                self.ask_status(serial, header.cookie);
                return Ok(());
            }
            Request::Bye => {
                self.send(serial, message::done(Opcode::Bye, header.cookie), Vec::new());
                self.drop_peer(serial);
                return Ok(());
            }
            Request::Drain(timeout_ms) => return Ok(self.drain(serial, asked, timeout_ms)?),
            Request::Unsupported(_) => return Err(unsupported(opcode).into()),
        };
        if let Some(peer) = self.peers.get_mut(&serial) {
            peer.asked += 1;
            let seat = peer.seat();
            self.command(Command::Request(seat, asked, ask));
        }
        Ok(())
    }

    /// Notes a request; `true` where this life of the daemon has received it before.
    fn is_received(&mut self, serial: u32, cookie: u64) -> bool {
        match self.peers.get_mut(&serial).map(|peer| &mut peer.phase) {
            Some(Phase::Session(session)) => session.receive(cookie),
            _ => false,
        }
    }

    fn open_lane(&self, lane: Option<u32>, width: u32, device: &str) -> Result<Ask> {
        let devices = &self.setup.config.devices;
        let index = devices.iter().position(|known| known.name == device).ok_or_else(|| {
            let text = format!("device {device} is not configured");
            Error::new(ErrorCode::NoSuchDevice, text)
        })?;
        let width = if width == 32 { Width::W32 } else { Width::W64 };
        Ok(Ask::OpenLane(lane, width, index as u32))
    }

    fn plan_named(&self, name: &str) -> Result<Bands> {
        self.setup
            .config
            .plans
            .get(name)
            .copied()
            .ok_or_else(|| Error::new(ErrorCode::NoSuchPlan, format!("plan {name} is not known")))
    }

    /// Takes the fds of a SUBMIT message: as many as it says, each of an allowed kind.
    fn submit(
        &mut self,
        serial: u32,
        entries: Vec<SubmitEntry>,
        count: u32,
        fds: Strangers,
    ) -> Result<Ask> {
        let sent = fds.as_slice().len();
        if sent != count as usize {
            let text = format!("SUBMIT: {sent} file descriptors, {count} announced");
            return Err(Error::new(ErrorCode::BadMessage, text));
        }
        let kinds = fds.as_slice().iter().map(|fd| fds::classify(fd.as_fd()));
        let kinds = kinds.collect::<Result<Vec<_>>>()?;
        let tickets = fds.take().into_iter().zip(kinds).map(|(fd, kind)| TicketFd { fd, kind });
        let tickets = tickets.collect();
        let limits = &self.setup.config.limits;
        if let Some(peer) = self.peers.get_mut(&serial)
            && let Phase::Session(session) = &mut peer.phase
            && count > 0
        {
            let held = session.fds + count;
            if held > limits.session_fds {
                let text = format!(
                    "fds: {held}, at most {} (raise [limits] session_fds)",
                    limits.session_fds
                );
                return Err(Error::new(ErrorCode::LimitExceeded, text));
            }
            self.quotas.take_fds(peer.who.uid, count, limits)?;
            session.fds = held;
        }
        Ok(Ask::Submit(entries, tickets))
    }
}

/// Whether file descriptors may come with this.
fn check_fds(opcode: Opcode, request: &Request, fds: usize) -> Result<()> {
    let takes_fds = match request {
        Request::Submit(..) => true,
        Request::Hello(hello) => hello.adopt != 0,
        _ => false,
    };
    if fds == 0 || takes_fds {
        return Ok(());
    }
    let text = format!("{}: {fds} file descriptors, at most 0", opcode.name());
    Err(Error::new(ErrorCode::TooManyFds, text))
}

fn unsupported(opcode: Opcode) -> Error {
    let text = format!("{} is not supported by this daemon", opcode.name());
    Error::new(ErrorCode::NotSupported, text)
}

/// Whether a peer in this phase may send this.
fn check_phase(phase: &Phase, opcode: Opcode) -> Result<()> {
    let hello = opcode == Opcode::Hello;
    match phase {
        Phase::Greeting if !hello => {
            let text = format!("{} before HELLO", opcode.name());
            Err(Error::new(ErrorCode::NotGreeted, text))
        }
        Phase::Control | Phase::Session(_) if hello => {
            Err(Error::new(ErrorCode::NotGreeted, "a second HELLO"))
        }
        Phase::Control if !matches!(opcode, Opcode::Status | Opcode::Drain | Opcode::Bye) => {
            let text = format!("{}: a control session has no lanes and no tickets", opcode.name());
            Err(Error::new(ErrorCode::NotSupported, text))
        }
        _ => Ok(()),
    }
}
