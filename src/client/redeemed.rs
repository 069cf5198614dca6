//! Lanes of others: sharing one's own, and waiting on those that were shared.
//!
//! A *redeemed* lane is another session's. No memory comes with it: only the daemon sees its
//! number, so it can be waited on and nothing else. It ends with its owner's lane, and with a
//! connection that another daemon takes the place of: that one knows nothing of it.

use std::fmt;

use crate::core::error::Result;
use crate::core::line::Width;
use crate::proto::message::{LaneOpened, Opcode, Redeem, Redeemed, Revoke, Share, Shared};

use super::capability::Capability;
use super::lane::{Lane, nonsense};
use super::session::Session;
use super::ticket::TicketBuilder;

impl Lane {
    /// Lets others wait on the lane: whoever has the capability can redeem it, in any process that
    /// reaches the daemon. A lane has one at a time, and this answers the same until
    /// [`Lane::revoke`]. It dies with the lane, with its session, and with a daemon that has no fd
    /// store: the next one gives another.
    ///
    /// # Errors
    /// `NoSuchLane` where it was closed, `LimitExceeded` past 1024 shared lanes, `Forked`, the
    /// session's end.
    pub fn share(&self) -> Result<Capability> {
        self.must_be_open()?;
        let body = Share { lane: self.index(), reserved: 0 };
        let shared = self
            .session()
            .shared()
            .request(Opcode::Share, &body, &[], |answer, _| answer?.whole::<Shared>())?;
        Ok(Capability::from_bytes(shared.capability))
    }

    /// Takes the capability back, if there is one. Tickets on lanes that were redeemed with it end
    /// as `Refused` with the code `LaneRevoked`.
    ///
    /// # Errors
    /// `NoSuchLane` where it was closed, `Forked`, the session's end.
    pub fn revoke(&self) -> Result<()> {
        self.must_be_open()?;
        let body = Revoke { lane: self.index(), reserved: 0 };
        let shared = self.session().shared();
        shared.request(Opcode::Revoke, &body, &[], |answer, _| answer?.whole::<()>())
    }
}

impl Session {
    /// The lane that a capability shares, to wait on. It takes the place of a lane of this session
    /// until its last handle and ticket are gone.
    ///
    /// # Errors
    /// `NoSuchCapability`; `RateExceeded` after too many wrong ones; `NoFreeLane`; `NotSupported`
    /// for a lane of this session; `Forked`; the session's end.
    pub fn redeem(&self, capability: &Capability) -> Result<RedeemedLane> {
        self.live()?;
        Lane::close_idle(self)?;
        let body = Redeem { capability: capability.to_bytes() };
        let (redeemed, epoch) =
            self.shared().request(Opcode::Redeem, &body, &[], |answer, ledger| {
                let redeemed: Redeemed = answer?.whole()?;
                ledger.remembered.redeemed.insert(redeemed.lane);
                Ok((redeemed, ledger.epoch))
            })?;
        let Redeemed { lane, width, bell, value, .. } = redeemed;
        let width = match width {
            64 => Width::W64,
            32 => Width::W32,
            other => return Err(nonsense("REDEEM", format!("a width of {other}"))),
        };
        let opened = LaneOpened { lane, bell, value };
        Ok(RedeemedLane { lane: Lane::opened(self, width, &opened, Some(epoch))?, value })
    }
}

/// A lane of another session. See the file's head. Nothing can be stored into it:
///
/// ```compile_fail
/// fn store(lane: parkd::client::RedeemedLane) {
///     lane.store(1);
/// }
/// ```
///
/// ```
/// fn wait(lane: parkd::client::RedeemedLane) -> parkd::core::error::Result<()> {
///     lane.ticket(1).submit()?.wait().map(drop)
/// }
/// ```
#[derive(Clone)]
pub struct RedeemedLane {
    lane: Lane,
    value: u64,
}

impl RedeemedLane {
    /// The session that redeemed it.
    pub fn session(&self) -> &Session {
        self.lane.session()
    }

    /// Its index in that session.
    pub fn index(&self) -> u32 {
        self.lane.index()
    }

    /// How much of the word its device stores.
    pub fn width(&self) -> Width {
        self.lane.width()
    }

    /// Its number when it was redeemed. What it is now, tickets tell.
    pub fn value_then(&self) -> u64 {
        self.value
    }

    /// A ticket on the number `target`. It always goes to the daemon. When the owner fails the
    /// lane it ends as `DeviceFailed`, when it revokes it as `Refused` with the code `LaneRevoked`,
    /// when it closes it or dies as `ProducerDied`; and as `Refused` with the code
    /// `NoSuchCapability` where a daemon took over that knows nothing of the lane.
    pub fn ticket(&self, target: u64) -> TicketBuilder<'_> {
        self.lane.ticket(target)
    }

    /// Lets it go now; its outstanding tickets end with `Cancelled`. (Dropping the last handle does
    /// too, no later than the session opens another lane.)
    ///
    /// # Errors
    /// `NoSuchLane` where it was let go already, `Forked`, the session's end.
    pub fn close(self) -> Result<()> {
        self.lane.close()
    }
}

impl fmt::Debug for RedeemedLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedeemedLane")
            .field("session", &self.session().number())
            .field("index", &self.index())
            .field("width", &self.width())
            .finish_non_exhaustive()
    }
}
