//! The fds of a session's tickets, each under a handle that is not soon used again.
//!
//! A *handle* is a place and how often that has been given up. An event can come after its watch
//! was cancelled: under the handle of a ticket that is over it finds nothing, also where another
//! ticket has taken the place since.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::token::ITEM_BITS;
use crate::daemon::command::TicketFd;
use crate::host::fds::FdKind;
use crate::proto::limits::SESSION_FDS_MAX;

/// Bits of a handle that are the place; those above count how often it was given up.
const PLACE_BITS: u32 = 11;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const COUNT_MASK: u32 = (1 << (ITEM_BITS - PLACE_BITS)) - 1;

const _: () = assert!(SESSION_FDS_MAX <= PLACE_MASK);

/// A fd that a ticket waits for.
struct Waited {
    row: u32,
    fd: OwnedFd,
    kind: FdKind,
}

#[derive(Default)]
struct Place {
    given_up: u32,
    waited: Option<Waited>,
}

/// One session's.
#[derive(Default)]
pub struct TicketFds {
    places: Vec<Place>,
}

impl TicketFds {
    /// Keeps a ticket's fd and answers its handle.
    pub fn keep(&mut self, ticket: TicketFd) -> u32 {
        let free = self.places.iter().position(|place| place.waited.is_none());
        let free = free.unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() - 1
        });
        debug_assert!(free as u32 <= PLACE_MASK, "the desk counts the fds of a session");
        let place = &mut self.places[free];
        place.waited = Some(Waited { row: 0, fd: ticket.fd, kind: ticket.kind });
        place.given_up << PLACE_BITS | free as u32
    }

    fn place(&mut self, handle: u32) -> Option<&mut Place> {
        let place = self.places.get_mut((handle & PLACE_MASK) as usize)?;
        (place.given_up == handle >> PLACE_BITS).then_some(place)
    }

    /// The fd of a handle, which a ticket's row waits for from now on.
    pub fn wait(&mut self, handle: u32, row: u32) -> Option<RawFd> {
        let waited = self.place(handle)?.waited.as_mut()?;
        waited.row = row;
        Some(waited.fd.as_raw_fd())
    }

    /// The row that waits for a handle's fd, the fd and its kind.
    pub fn waited(&mut self, handle: u32) -> Option<(u32, &OwnedFd, FdKind)> {
        let waited = self.place(handle)?.waited.as_ref()?;
        Some((waited.row, &waited.fd, waited.kind))
    }

    /// Gives a handle's fd up.
    pub fn give_up(&mut self, handle: u32) -> Option<OwnedFd> {
        let place = self.place(handle)?;
        let waited = place.waited.take()?;
        place.given_up = (place.given_up + 1) & COUNT_MASK;
        Some(waited.fd)
    }

    /// All that are left.
    pub fn into_fds(self) -> impl Iterator<Item = OwnedFd> {
        self.places.into_iter().filter_map(|place| place.waited).map(|waited| waited.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> TicketFd {
        let fd = crate::daemon::command::eventfd().expect("an eventfd");
        TicketFd { fd, kind: FdKind::Eventfd }
    }

    #[test]
    fn the_handle_of_a_ticket_that_is_over_finds_nothing() {
        let mut fds = TicketFds::default();
        let (first, second) = (fds.keep(ticket()), fds.keep(ticket()));
        assert!(fds.wait(first, 7).is_some());
        assert!(fds.give_up(first).is_some());
        let third = fds.keep(ticket());
        assert_eq!(third & PLACE_MASK, first & PLACE_MASK, "the place is used again");
        assert!(fds.waited(first).is_none() && fds.wait(first, 8).is_none());
        assert!(fds.give_up(first).is_none());
        assert!(fds.waited(second).is_some() && fds.waited(third).is_some());
        assert_eq!(fds.into_fds().count(), 2);
    }

    #[test]
    fn handles_fit_a_token_however_often_a_place_is_used() {
        let mut fds = TicketFds::default();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..=COUNT_MASK {
            let handle = fds.keep(ticket());
            assert!(handle >> ITEM_BITS == 0 && seen.insert(handle));
            fds.give_up(handle);
        }
        assert_eq!(fds.keep(ticket()), 0, "then it begins anew");
    }
}
