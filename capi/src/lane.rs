//! Lanes, as C has them: the header's `struct parkd_lane`.

use std::ffi::c_int;

use parkd::client::Lane;

use crate::border::{answer, free, guard, hand_out, shared};
use crate::session::ParkdSession;

/// The header's `struct parkd_lane`: one of the handles of a lane.
pub struct ParkdLane(pub(crate) Lane);

/// The header says: any number of threads at a time.
const fn any_threads<T: Send + Sync>() {}
const _: () = any_threads::<ParkdLane>();

/// The header's `parkd_lane`.
///
/// # Safety
/// `session` is null or a handle that is not closed during the call; `lane` is null or may be
/// written.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_lane(
    session: *const ParkdSession,
    lane: *mut *mut ParkdLane,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises null or an open session, for the length of the call.
        let session = unsafe { shared(session, "session") };
        // SAFETY: the caller promises that `lane` is null or may be written.
        unsafe { hand_out(lane, "lane", || session?.0.lane().map(ParkdLane)) }
    })
}

/// The header's `parkd_lane_store`.
///
/// # Safety
/// `lane` is null or a handle that is not freed during the call.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_lane_store(lane: *const ParkdLane, number: u64) -> c_int {
    guard(|| {
        // SAFETY: the caller promises null or a lane that is there for the length of the call.
        let lane = unsafe { shared(lane, "lane") }?;
        lane.0.store(number);
        Ok(())
    })
}

/// The header's `parkd_lane_value`.
///
/// # Safety
/// `lane` is null or a handle that is not freed during the call; `value` is null or may be
/// written.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_lane_value(lane: *const ParkdLane, value: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the caller promises null or a lane that is there for the length of the call.
        let lane = unsafe { shared(lane, "lane") }?;
        // SAFETY: the caller promises that `value` is null or may be written.
        unsafe { answer(value, "value", lane.0.value()) }
    })
}

/// The header's `parkd_lane_free`.
///
/// # Safety
/// `lane` is null or a handle that was not freed; no other call uses it now or later.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_lane_free(lane: *mut ParkdLane) {
    // SAFETY: the caller promises that it is null or came from `parkd_lane`, and gives it up.
    unsafe { free(lane) };
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
