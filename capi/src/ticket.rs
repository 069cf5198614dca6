//! Tickets, as C has them: the header's `struct parkd_ticket`.

use std::ffi::c_int;
use std::time::Duration;

use parkd::client::Ticket;
use parkd::core::time::MonoNs;

use crate::border::{answer, exclusive, free, guard, hand_out, shared};
use crate::completion::ParkdCompletion;
use crate::lane::ParkdLane;

/// The header's `PARKD_FOREVER`.
pub const FOREVER: u64 = u64::MAX;

/// The header's `struct parkd_ticket`: the one handle of a ticket.
pub struct ParkdTicket(Ticket);

/// The header says: any thread, one at a time.
const fn one_thread_at_a_time<T: Send>() {}
const _: () = one_thread_at_a_time::<ParkdTicket>();

/// The header's `parkd_submit`.
///
/// # Safety
/// `lane` is null or a handle that is not freed during the call; `ticket` is null or may be
/// written.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_submit(
    lane: *const ParkdLane,
    target: u64,
    deadline_ns: u64,
    ticket: *mut *mut ParkdTicket,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises null or a lane that is there for the length of the call.
        let lane = unsafe { shared(lane, "lane") };
        let submit = || {
            let ticket = lane?.0.ticket(target);
            let ticket = match deadline_ns {
                0 => ticket,
                at => ticket.deadline(MonoNs(at)),
            };
            ticket.submit().map(ParkdTicket)
        };
        // SAFETY: the caller promises that `ticket` is null or may be written.
        unsafe { hand_out(ticket, "ticket", submit) }
    })
}

/// The header's `parkd_wait`.
///
/// # Safety
/// `ticket` is null or a handle that no other call uses during this one; `completion` is null or
/// may be written.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_wait(
    ticket: *mut ParkdTicket,
    timeout_ns: u64,
    completion: *mut ParkdCompletion,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises null or a ticket that is this call's alone.
        let ticket = unsafe { exclusive(ticket, "ticket") }?;
        // First of all, for a wait may be long: a place that cannot be written is found here.
        // SAFETY: the caller promises that `completion` is null or may be written.
        unsafe { answer(completion, "completion", ParkdCompletion::pending()) }?;
        let end = match timeout_ns {
            0 => ticket.0.try_wait(),
            FOREVER => ticket.0.wait_until(None),
            ns => ticket.0.wait_for(Duration::from_nanos(ns)),
        }?;
        match end {
            None => Ok(()),
            // SAFETY: as above.
            Some(end) => unsafe { answer(completion, "completion", end.into()) },
        }
    })
}

/// The header's `parkd_cancel`.
///
/// # Safety
/// `ticket` is null or a handle that no other call uses during this one.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_cancel(ticket: *const ParkdTicket) -> c_int {
    guard(|| {
        // SAFETY: the caller promises null or a ticket that nobody changes during the call.
        let ticket = unsafe { shared(ticket, "ticket") }?;
        ticket.0.cancel()
    })
}

/// The header's `parkd_ticket_free`.
///
/// # Safety
/// `ticket` is null or a handle that was not freed; no other call uses it now or later.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_ticket_free(ticket: *mut ParkdTicket) {
    // SAFETY: the caller promises that it is null or came from `parkd_submit`, and gives it up.
    unsafe { free(ticket) };
}

#[cfg(test)]
#[path = "ticket_tests.rs"]
mod tests;
