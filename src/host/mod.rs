//! What Linux gives: clocks, futexes, the ring, epoll, fds, CPUs.
//!
//! Everything that names a system call of the wait path lives here, behind safe functions. The
//! FILL thread is generic over [`fill::FillHost`]; one type per executor kind implements it:
//! [`uring`] ("io-uring"), [`epoll`] ("gpu-reactor") and [`naive`] ("naive").

pub mod affinity;
pub mod clock;
pub mod epoll;
mod eventfd;
pub mod fds;
pub mod fill;
pub mod fork;
pub mod futex;
pub mod identity;
pub mod interrupt;
pub mod kinds;
pub mod naive;
#[cfg(feature = "tokio")]
pub mod polled_fd;
pub mod signals;
pub mod uring;
