//! A session on its way into the engine and out of it, made and unmade elsewhere: the engine's own
//! thread allocates and frees nothing for it.

use alloc::boxed::Box;

use super::config::Config;
use super::ports::Ports;
use super::session::Session;
use super::table::TableHeader;
use crate::core::error::Result;

/// What a session is made of.
#[derive(Clone, Debug)]
pub struct SessionParams {
    /// Entries of the submission ring.
    pub submit_entries: u32,
    /// Entries of the result ring.
    pub result_entries: u32,
    /// Lanes.
    pub lanes: u32,
    /// The client's process.
    pub pid: u32,
    /// The client's user.
    pub uid: u32,
    /// Added to the client's times to get the daemon's.
    pub clock_offset_ns: i64,
}

/// A session that is ready to be attached: everything it will ever need is allocated, so that the
/// engine's thread allocates nothing for it.
pub struct Prepared<P: Ports>(pub(super) Box<Session<P>>);

impl<P: Ports> Prepared<P> {
    /// A session over fresh memory, for the slot that it will be attached at; formats the table.
    /// `config` is the engine's.
    ///
    /// # Errors
    /// `SessionMemory` when the table does not fit its bytes.
    pub fn new(
        slot: u16,
        params: &SessionParams,
        ports: P,
        table: P::Table,
        config: &Config,
    ) -> Result<Prepared<P>> {
        Session::new(slot, params, ports, table, config).map(|s| Prepared(Box::new(s)))
    }
}

impl<P: Ports> Prepared<P> {
    /// A session over what an earlier life of the daemon left, whose recovery was begun by
    /// [`recovery::begin`](super::recovery::begin). Once attached it is to be resumed
    /// ([`Engine::resume`](super::Engine::resume)).
    ///
    /// # Errors
    /// `SessionMemory` when the table makes no sense.
    pub fn recover(slot: u16, ports: P, table: P::Table, config: &Config) -> Result<Prepared<P>> {
        Session::restore(slot, ports, table, config).map(|s| Prepared(Box::new(s)))
    }

    /// Gives the session the number by which tables name it, in all lives of the daemon: not 0,
    /// and no other session's.
    pub fn numbered(mut self, number: u32) -> Prepared<P> {
        self.0.number = number;
        self
    }

    /// The lanes that it shares, with their capabilities.
    pub fn shared(&self) -> impl Iterator<Item = (u32, u128)> + '_ {
        let lanes = (0..).zip(&self.0.lanes).filter(|(_, lane)| lane.open);
        lanes.filter_map(|(at, lane)| Some((at, lane.shared?)))
    }

    /// The head of the session's table.
    pub fn header(&mut self) -> &mut TableHeader {
        self.0.table.header()
    }

    /// The devices of its open lanes, one bit for each.
    pub fn devices(&self) -> u64 {
        let open = self.0.lanes.iter().filter(|lane| lane.open);
        open.fold(0, |devices, lane| devices | 1 << lane.device)
    }
}

/// A session that has been taken out: to be dropped where freeing its memory delays nobody.
pub struct Retired<P: Ports>(pub(super) Box<Session<P>>);

impl<P: Ports> Retired<P> {
    /// Its memory.
    pub fn ports(&self) -> &P {
        &self.0.ports
    }

    /// The session, to see what it left.
    #[cfg(test)]
    pub(super) fn into_session(self) -> Session<P> {
        *self.0
    }
}
