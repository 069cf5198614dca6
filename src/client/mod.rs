//! The client library: sessions, lanes and tickets, blocking or on any async runtime.
//!
//! ```no_run
//! # fn main() -> parkd::core::error::Result<()> {
//! use parkd::client::Session;
//!
//! let session = Session::connect()?;
//! let lane = session.lane()?;
//! let target = lane.next_target();
//! let ticket = lane.ticket(target).submit()?;
//! // ... hand `target` to the device, which stores it behind its work ...
//! let completion = ticket.wait()?.into_result()?;
//! # drop(completion); Ok(()) }
//! ```
//!
//! A [`Session`] is one connection; every thread may use it. A [`Lane`] is a word that a producer
//! stores rising numbers into. A [`Ticket`] waits for one of them: it can be blocked on, polled,
//! or awaited. [`TicketBuilder::submit_tagged`] and [`Session::completions`] serve programs with
//! thousands of them. Errors are coded ([`crate::core::error`]); what a ticket came to is its
//! [`Completion`].
//!
//! No submission makes a system call while the daemon is awake, and none is made at all for what
//! has landed. A forked child cannot use its parent's session: every call answers `Forked`.

mod asking;
mod capability;
mod completion;
mod connect;
mod control;
#[cfg(test)]
#[path = "double_tests.rs"]
mod double;
mod driver;
mod event_driver;
mod fd_ticket;
mod fds;
mod lane;
mod leader;
mod ledger;
mod many;
mod page;
mod reconnect;
mod redeemed;
mod redeeming;
mod remembered;
mod renewal;
mod session;
mod shared;
mod slots;
mod socket;
mod socket_path;
mod socket_watch;
mod tagged;
mod tending;
mod ticket;
#[cfg(feature = "tokio")]
pub mod tokio;
mod waiter;
mod watching;
mod wire;

pub use capability::Capability;
pub use completion::Completion;
pub use connect::SessionBuilder;
pub use control::Control;
pub(crate) use control::drain_ms;
pub use event_driver::EventDriver;
pub use fd_ticket::FdTicketBuilder;
pub use lane::Lane;
pub use many::{wait_all, wait_any, wait_any_for};
pub use redeemed::RedeemedLane;
pub use session::{DEFAULT_DEVICE, PlanId, Session};
pub use socket_path::{DEFAULT_SOCKET, SOCKET_VARIABLE, socket_path};
pub use tagged::Completions;
pub use ticket::{Ticket, TicketBuilder};

pub use crate::core::line::Width;
pub use crate::core::step::Waited;
pub use crate::proto::entry::Status;
pub use crate::proto::message::Drained;
