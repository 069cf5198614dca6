//! Lanes of others: sharing one's own, and waiting on those that were shared.
//!
//! A *redeemed* lane is another session's. No memory comes with it: only the daemon sees its
//! number, so it can be waited on and nothing else. It ends with its owner's lane. Another daemon,
//! after one without an fd store, knows nothing of it: owner and redeemer tell it, each when it
//! comes there (`redeeming.rs`).

use std::fmt;
use std::sync::Arc;

use crate::core::error::Result;
use crate::core::line::Width;
use crate::host::random;
use crate::proto::message::{LaneOpened, Opcode, Redeem, Redeemed, Revoke, Share, Shared};

use super::capability::Capability;
use super::lane::{Lane, nonsense};
use super::session::Session;
use super::ticket::TicketBuilder;
use super::wire;

impl Lane {
    /// Lets others wait on the lane: whoever has the capability can redeem it, in any process that
    /// reaches the daemon. A lane has one at a time, and this answers the same until
    /// [`Lane::revoke`]. It dies with the lane and with its session.
    ///
    /// # Errors
    /// `NoSuchLane` where it was closed, `LimitExceeded` past 1024 shared lanes, `Forked`, the
    /// session's end.
    pub fn share(&self) -> Result<Capability> {
        self.must_be_open()?;
        let (index, shared) = (self.index(), self.session().shared());
        let fresh = random::bits().map_err(|error| wire::system("getrandom", error))?;
        let secret = {
            let mut at = shared.open()?;
            let kept = at.remembered.lanes.get_mut(&index);
            kept.map_or(fresh, |kept| *kept.secret.get_or_insert(fresh))
        };
        let body = Share { lane: index, reserved: 0, secret: secret.to_le_bytes() };
        let answer = shared.request(Opcode::Share, &body, &[], |answer, ledger| {
            let answer = answer?.whole::<Shared>()?;
            if let Some(kept) = ledger.remembered.lanes.get_mut(&index)
                && !kept.shared
            {
                (kept.secret, kept.shared) = (Some(secret), true);
            }
            Ok(answer)
        })?;
        shared.watch_socket(Arc::downgrade(shared))?;
        Ok(Capability::from_bytes(answer.capability))
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
        shared.request(Opcode::Revoke, &body, &[], |answer, ledger| {
            answer?.whole::<()>()?;
            if let Some(kept) = ledger.remembered.lanes.get_mut(&body.lane) {
                (kept.secret, kept.shared) = (None, false);
            }
            Ok(())
        })
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
        let (redeemed, lane) =
            self.shared().request(Opcode::Redeem, &body, &[], |answer, ledger| {
                let redeemed: Redeemed = answer?.whole()?;
                let lane = ledger.remembered.redeem(*capability, redeemed.lane);
                Ok((redeemed, lane))
            })?;
        let Redeemed { width, bell, value, .. } = redeemed;
        if redeemed.lane >= self.shared().lanes().lanes() {
            return Err(nonsense(
                "REDEEM",
                format!("lane {} is none of the session's", redeemed.lane),
            ));
        }
        let width = match width {
            64 => Width::W64,
            32 => Width::W32,
            other => return Err(nonsense("REDEEM", format!("a width of {other}"))),
        };
        let opened = LaneOpened { lane, bell, value };
        Ok(RedeemedLane { lane: Lane::opened(self, width, &opened)?, value })
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

    /// Its number in that session, which no other lane of it has.
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
    /// `NoSuchCapability` where another daemon took over and the owner did not come there.
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
