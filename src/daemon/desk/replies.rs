//! What FILL says, passed on.

use super::Desk;
use super::peer::Phase;
use crate::core::error::ErrorCode;
use crate::daemon::command::{Answer, Asked, Reply, Seat};
use crate::engine::Redemption;
use crate::proto::message::{self, Drained, LaneOpened, PlanKnown, Redeemed, Shared, Submitted};

impl Desk {
    pub(super) fn replies(&mut self) {
        self.setup.end.hear();
        while let Ok(reply) = self.setup.end.replies.try_recv() {
            match reply {
                Reply::Answer(seat, asked, answer, _spent) => self.answer(seat, asked, answer),
                Reply::Fd(seat, fd) => {
                    drop(fd);
                    self.fd_closed(seat);
                }
                Reply::Broken(seat, error) => self.part(seat.serial, 0, &error),
                Reply::Detached(seat, session, leftovers) => {
                    drop(session);
                    drop(leftovers);
                    self.vacate(seat);
                }
                Reply::Recovered(_) => {
                    if let Err(error) = self.recover_next() {
                        self.ended = Some(Some(error));
                    }
                }
                Reply::Stopped(error) => {
                    if !self.setup.store.is_used() {
                        self.close_all();
                    }
                    self.ended = Some(error);
                }
            }
        }
    }

    /// The daemon ends: every session's control line says so.
    fn close_all(&self) {
        for peer in self.peers.values() {
            if let Phase::Session(session) = &peer.phase {
                session.control.close(ErrorCode::Disconnected);
            }
        }
    }

    fn fd_closed(&mut self, seat: Seat) {
        if let Some(peer) = self.peers.get_mut(&seat.serial)
            && let Phase::Session(session) = &mut peer.phase
        {
            session.fds = session.fds.saturating_sub(1);
            self.quotas.give_back_fds(peer.who.uid, 1);
        }
    }

    fn answer(&mut self, seat: Seat, asked: Asked, answer: Answer) {
        if let Answer::Counters(counters) = answer {
            return self.answer_status(&counters);
        }
        let Asked { opcode, cookie, .. } = asked;
        let record = match answer {
            Answer::LaneOpened(lane, device, value) => {
                message::reply(opcode, cookie, &LaneOpened { lane, bell: device + 1, value })
            }
            Answer::Shared(lane, capability) => {
                self.shared(seat, lane, capability);
                let capability = capability.to_le_bytes();
                message::reply(opcode, cookie, &Shared { capability })
            }
            Answer::Redeemed(redeemed) => message::reply(opcode, cookie, &body_of(redeemed)),
            Answer::Revoked(lane) => {
                self.capabilities.forget_lane(seat, lane);
                message::done(opcode, cookie)
            }
            Answer::Done => message::done(opcode, cookie),
            Answer::Plan(plan) => {
                message::reply(opcode, cookie, &PlanKnown { plan: plan.into(), reserved: 0 })
            }
            Answer::Submitted(tickets, free) => {
                message::reply(opcode, cookie, &Submitted { tickets, free })
            }
            Answer::Drained(finished, ended) => {
                tracing::info!(finished, ended, "drained");
                message::reply(opcode, cookie, &Drained { finished, ended })
            }
            // Answered above, to all who asked.
            Answer::Counters(_) => return,
            Answer::Refused(refusal) => {
                message::error(cookie, &refusal.error, refusal.value, false)
            }
        };
        if let Some(peer) = self.peers.get_mut(&seat.serial) {
            peer.asked = peer.asked.saturating_sub(1);
        }
        self.send(seat.serial, record, Vec::new());
    }
}

fn body_of(redeemed: Redemption) -> Redeemed {
    let Redemption { lane, width, device, value } = redeemed;
    Redeemed { lane, width: width.bits().into(), bell: device + 1, reserved: 0, value }
}
