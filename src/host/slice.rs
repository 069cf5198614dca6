//! How long a thread runs before others of its CPU have their turn.
//!
//! The scheduler gives the CPU to whom it is due first. Who asks for short turns is due soon after
//! it wakes, so it takes the CPU from one that has run for a while; it gets no more of it for that.
//! (Linux 6.12 and later: `sched_runtime` of the ordinary policy, 100 us to 100 ms.)

use std::io;

/// The shortest turn that can be asked for, in nanoseconds.
pub const SHORTEST_NS: u64 = 100_000;

/// Asks for turns of `ns` nanoseconds for the calling thread, whose policy and niceness stay.
///
/// # Errors
/// What sched_setattr(2) says. Older kernels take the request and do nothing.
pub fn set_current(ns: u64) -> io::Result<()> {
    let mut attr = current()?;
    attr.sched_runtime = ns;
    // SAFETY: sched_setattr(2) reads a struct of the size that stands in it, which lives through
    // the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn current() -> io::Result<libc::sched_attr> {
    let mut attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = attr.size;
    // SAFETY: sched_getattr(2) writes at most `size` bytes to a struct that is as large.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if done == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_as_short_as_asked_for_and_the_rest_stays() {
        std::thread::spawn(|| {
            let before = current().expect("the scheduler's settings");
            set_current(SHORTEST_NS).expect("a request");
            let after = current().expect("the scheduler's settings");
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
            match after.sched_runtime {
                SHORTEST_NS => {}
                0 => println!("skipped: this kernel knows no turns of a thread's own"),
                other => panic!("{other} ns"),
            }
        })
        .join()
        .expect("no panic");
    }
}
