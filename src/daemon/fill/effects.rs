//! Doing what the engine wants done, and hearing how it went.

use std::io;
use std::os::fd::AsFd;

use super::Fill;
use super::token::{Named, Who};
use crate::daemon::command::Reply;
use crate::engine::Effect;
use crate::host::clock;
use crate::host::fds::{self, FdKind};
use crate::host::fill::{FillHost, HostEvent, Watch};

impl<H: FillHost> Fill<H> {
    /// Does the engine's effects. Wakes leave at once: whoever is woken should not wait for what
    /// FILL does before it sleeps.
    pub(super) fn effects(&mut self) -> io::Result<()> {
        self.effects.extend(self.engine.effects());
        // One wake alone, of a CPU that was kept awake, is looked at for what it costs.
        let alone = matches!(self.effects[..], [Effect::WakeTail { .. }]);
        let from = (alone && self.awake.holds()).then(clock::now);
        if self.do_effects()? {
            self.host.flush()?;
        }
        if let Some(from) = from {
            self.awake.woke(clock::now().since(from));
        }
        Ok(())
    }

    /// Does them; `true` when one was to wake somebody.
    fn do_effects(&mut self) -> io::Result<bool> {
        let Fill { host, engine, seats, end, effects, .. } = self;
        let mut wakes = false;
        for effect in effects.drain(..) {
            match effect {
                Effect::WakeTail { slot } => {
                    if let Some(memory) = engine.ports(slot) {
                        host.wake_word(memory.tail_futex())?;
                        wakes = true;
                    }
                }
                Effect::Notify { slot } => {
                    let Some(seated) = seats.at(slot) else { continue };
                    if std::mem::replace(&mut seated.ringing, true) {
                        seated.ring_again = true;
                    } else {
                        let token = Named::Notify(seated.who()).token();
                        host.ring_eventfd(token, seated.notify_fd())?;
                    }
                }
                Effect::PollFd { slot, row, fd: place } => {
                    let Some(seated) = seats.at(slot) else { continue };
                    if let Some(fd) = seated.fds.wait(place, row) {
                        host.poll_fd(Named::Fd(seated.who(), place).token(), fd)?;
                    }
                }
                Effect::ReleaseFd { slot, fd: place, polling, .. } => {
                    let Some(seated) = seats.at(slot) else { continue };
                    if polling {
                        host.cancel(Watch::Fd, Named::Fd(seated.who(), place).token())?;
                        host.flush()?;
                    }
                    if let Some(fd) = seated.fds.give_up(place) {
                        end.reply(Reply::Fd(seated.seat, fd));
                    }
                }
                Effect::Close { slot, error } => {
                    if let Some(seated) = seats.at(slot) {
                        end.reply(Reply::Broken(seated.seat, error));
                    }
                }
            }
        }
        Ok(wakes)
    }

    /// Acts on a host event.
    pub(super) fn event(&mut self, event: HostEvent) -> io::Result<()> {
        match event {
            HostEvent::Bell(token) => match Named::of(token) {
                Some(Named::Bell(who, bell)) => self.bell_event(who, bell)?,
                Some(Named::BellEventfd(who)) => self.bell_eventfd_event(who, false)?,
                // The desk's doorbell: every turn takes commands.
                _ => {}
            },
            HostEvent::BellLost(token, _) => match Named::of(token) {
                Some(Named::Bell(who, bell)) => self.bell_event(who, bell)?,
                Some(Named::BellEventfd(who)) => self.bell_eventfd_event(who, true)?,
                Some(Named::Desk) => self.watch_desk()?,
                _ => {}
            },
            HostEvent::Fd(token, revents) => {
                if let Some(Named::Fd(who, place)) = Named::of(token) {
                    self.fd_event(who, place, revents);
                }
            }
            HostEvent::Written(token, _) => {
                if let Some(Named::Notify(who)) = Named::of(token) {
                    self.notified(who)?;
                }
            }
        }
        Ok(())
    }

    /// A write to a client's eventfd is over, well or not: a full counter tells it as well.
    fn notified(&mut self, who: Who) -> io::Result<()> {
        let Some(seated) = self.seats.who(who) else { return Ok(()) };
        seated.ringing = std::mem::take(&mut seated.ring_again);
        if seated.ringing {
            self.host.ring_eventfd(Named::Notify(who).token(), seated.notify_fd())?;
        }
        Ok(())
    }

    /// A ticket's fd is ready, or its poll failed.
    fn fd_event(&mut self, who: Who, place: u32, revents: i32) {
        let Some(seated) = self.seats.who(who) else { return };
        let Some((row, fd, kind)) = seated.fds.waited(place) else { return };
        let code = match (revents, kind) {
            (errno, _) if errno < 0 => errno.unsigned_abs(),
            (_, FdKind::SyncFile) => match fds::sync_file_status(fd.as_fd()) {
                Ok(status) if status >= 0 => 0,
                Ok(status) => status.unsigned_abs(),
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs(),
            },
            _ => 0,
        };
        let seen = if revents < 0 { 0 } else { revents as u64 };
        self.engine.fd_ready(who.slot, row, place, code, seen, self.now);
    }
}
