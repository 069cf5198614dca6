//! A session that an earlier life of the daemon left behind goes on.
//!
//! The table says what was promised; everything else is made anew from it. *Restoring*
//! (`Session::restore`) reads the table and mends the one thing that can be half done, a result
//! on its way into the ring; it needs neither the engine nor a clock. *Resuming*
//! (`Session::resume`) lets every ticket wait again, in the engine.
//!
//! What always holds: each step may be repeated, since a daemon can die in any of them and the next
//! one begins again. A table is the daemon's own memory, but whatever wrote it may have been
//! broken: what makes no sense refuses the session, and never panics.

use alloc::format;

use super::config::Config;
use super::lane::{Lane, Over, Redeemed};
use super::ports::Ports;
use super::prepared::SessionParams;
use super::publish::End;
use super::session::{Context, Session, TableMemory};
use super::table::{self, BY_SOCKET, FREE, NO_FD, PENDING, PUBLISHING, REFUSED, Row, TableLayout};
use super::tickets::Tickets;
use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::proto::entry::{Status, TicketKind};
use crate::proto::limits::DEVICES_MAX;

/// Deaths in a row of a daemon that recovered a session, after which no other one tries.
pub const DEATHS_MAX: u32 = 2;

/// Marks a table as being recovered, before anything else is done with it, and counts how often a
/// daemon died in doing so.
///
/// # Errors
/// `SessionMemory` for what is no table; `Quarantined` where daemons died of it too often.
pub fn begin(bytes: &mut [u8]) -> Result<SessionParams> {
    let params = table::params(bytes)?;
    let layout = TableLayout::new(params.lanes, params.result_entries);
    let Some(table) = table::Table::over(layout, bytes) else {
        return Err(bad("misaligned"));
    };
    if table.header.recovering != 0 {
        table.header.recoveries = table.header.recoveries.saturating_add(1);
    }
    if table.header.recoveries >= DEATHS_MAX {
        let text = format!(
            "session of pid {}: the daemon died {} times while it recovered it",
            params.pid, table.header.recoveries
        );
        return Err(Error::new(ErrorCode::Quarantined, text));
    }
    table.header.set_recovering(1);
    Ok(params)
}

fn bad(what: &str) -> Error {
    Error::new(ErrorCode::SessionMemory, format!("session table: {what}"))
}

impl<P: Ports> Session<P> {
    /// The session that a table tells of, whose recovery was begun by [`begin`]. Its tickets wait
    /// from [`Session::resume`] on.
    ///
    /// # Errors
    /// `SessionMemory` where the table makes no sense.
    pub fn restore(
        slot: u16,
        ports: P,
        mut table: P::Table,
        config: &Config,
    ) -> Result<Session<P>> {
        let params = table::params(table.as_mut())?;
        let layout = TableLayout::new(params.lanes, params.result_entries);
        let table = TableMemory::new(layout, table)?;
        let mut session = Session::over(slot, &params, ports, table, config);
        session.restore_plans()?;
        session.restore_lanes()?;
        session.finish_publishing()?;
        session.restore_rows()?;
        session.tickets = Tickets::restore(session.table.rows());
        session.resumed = true;
        Ok(session)
    }

    fn restore_plans(&mut self) -> Result<()> {
        for record in self.table.parts().plans.iter().take_while(|record| record.bytes != 0) {
            let text = record.text().ok_or_else(|| bad("a plan that is no text"))?;
            self.plans.push(Bands::parse(text)?);
        }
        Ok(())
    }

    fn restore_lanes(&mut self) -> Result<()> {
        let records = self.table.parts().lanes;
        for (lane, record) in self.lanes.iter_mut().zip(records) {
            let width = match record.width {
                0 => continue,
                32 => Width::W32,
                64 => Width::W64,
                _ => return Err(bad("a lane's width")),
            };
            if record.device >= DEVICES_MAX {
                return Err(bad("a lane's device"));
            }
            let over = record.over().map_err(|_| bad("a lane's end"))?;
            let open = Lane { open: true, width, device: record.device, over, ..Lane::closed() };
            let capability = u128::from_le_bytes(record.capability);
            *lane = match record.owner {
                0 => Lane { shared: (record.shared != 0).then_some(capability), ..open },
                owner => {
                    let ended = matches!(over, Some(Over::OwnerDied | Over::Revoked));
                    let lane = record.owner_lane;
                    let redeemed = Some(Redeemed { owner, lane, capability, absent: !ended });
                    Lane { redeemed, last: Some(record.last), ..open }
                }
            };
        }
        Ok(())
    }

    /// Brings the result that was on its way into the ring there.
    fn finish_publishing(&mut self) -> Result<()> {
        let is_publishing = |row: &Row| row.state == PUBLISHING;
        let Some(at) = self.table.rows().iter().position(is_publishing) else {
            return Ok(());
        };
        let table = self.table.parts();
        let (row, tail) = (table.rows[at], table.header.result_tail);
        if Status::from_number(row.status).is_none() {
            return Err(bad("an outcome that is none"));
        }
        if row.result_pos == tail {
            self.write_entry(&row);
        } else if row.result_pos.wrapping_add(1) != tail {
            return Err(bad("a result that goes nowhere"));
        }
        self.table.rows()[at].set_state(FREE);
        match self.table.rows().iter().any(is_publishing) {
            true => Err(bad("two results under way")),
            false => Ok(()),
        }
    }

    /// Frees the rows of tickets that were never accepted, and checks the others.
    fn restore_rows(&mut self) -> Result<()> {
        let table = self.table.parts();
        let head = table.header.submit_head;
        let next_cookie = table.header.last_cookie.wrapping_add(1) as u32;
        for at in 0..table.rows.len() {
            let row = &mut self.table.rows()[at];
            // Recorded, and the daemon died before it passed the origin: at most the entry at the
            // head, and the tickets of one SUBMIT.
            let not_accepted = match row.flags & BY_SOCKET {
                0 => row.origin == head,
                _ => row.origin == next_cookie,
            };
            match row.state {
                FREE => {}
                PENDING if not_accepted => row.set_state(FREE),
                PENDING if row.kind == TicketKind::Fd as u8 => row.source = NO_FD,
                PENDING => {}
                _ => return Err(bad("a row's state")),
            }
        }
        Ok(())
    }

    /// Lets every ticket wait that the table holds, and says so to the client.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        self.ports.set_submit_head(self.table.header().submit_head);
        self.set_dirty(cx);
        for at in 0..self.table.rows().len() as u32 {
            let row = self.table.rows()[at as usize];
            if row.state != PENDING {
                continue;
            }
            cx.accounts.take(self.account);
            cx.stats.recovered += 1;
            let refused = row.flags & REFUSED != 0;
            if !refused && row.is_fd_wait() {
                continue; // its fd is sent again
            }
            if !refused && self.open_lane_at(row.source).is_err() {
                // No ticket waits for a closed lane.
                self.publish(cx, at, End::without(Status::Cancelled, 0));
            } else {
                self.begin(cx, at);
            }
        }
    }

    /// Has an outstanding fd ticket wait for a fd that its client sent again; `false` where no
    /// ticket of this name lacks one.
    pub fn give_fd(&mut self, cx: &mut Context<'_>, user_data: u64, fd: u32) -> bool {
        let Some(at) = self.tickets.find(self.table.rows(), user_data) else { return false };
        let row = &mut self.table.rows()[at as usize];
        if !row.is_fd_wait() || row.source != NO_FD {
            return false;
        }
        row.source = fd;
        self.begin(cx, at);
        true
    }

    /// The recovery is over: the daemon lives.
    pub fn recovered(&mut self) {
        self.table.header().recoveries = 0;
        self.table.header().set_recovering(0);
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
