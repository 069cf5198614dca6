//! What Linux gives: clocks, futexes, the ring, epoll, fds, CPUs.
//!
//! Everything that names a system call of the wait path lives here, behind safe functions. The
//! FILL thread is generic over [`fill::FillHost`]; one type per executor kind implements it:
//! [`uring`] ("io-uring"), [`epoll`] ("gpu-reactor") and [`naive`] ("naive").
//!
//! On other targets [`std_host`] and [`wordpark`] remain: what a wait in process stands on.

#[cfg(target_os = "linux")]
pub mod affinity;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod epoll;
#[cfg(target_os = "linux")]
mod eventfd;
#[cfg(target_os = "linux")]
pub mod fds;
#[cfg(target_os = "linux")]
pub mod fill;
#[cfg(target_os = "linux")]
pub mod fork;
#[cfg(target_os = "linux")]
pub mod futex;
#[cfg(target_os = "linux")]
pub mod held;
#[cfg(target_os = "linux")]
pub mod identity;
#[cfg(target_os = "linux")]
pub mod inherited;
#[cfg(target_os = "linux")]
pub mod kinds;
#[cfg(target_os = "linux")]
pub mod naive;
#[cfg(target_os = "linux")]
pub mod pm_qos;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub mod polled_fd;
#[cfg(target_os = "linux")]
pub mod random;
#[cfg(target_os = "linux")]
pub mod signals;
pub mod slice;
pub mod std_host;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub mod tokio_host;
#[cfg(target_os = "linux")]
pub mod uring;
pub mod wake_lead;
pub mod wordpark;
