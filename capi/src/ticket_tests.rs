use std::ptr::{dangling_mut, null, null_mut};

use parkd::core::error::ErrorCode;

use super::*;

const INVALID: c_int = ErrorCode::InvalidArgument as c_int;

#[test]
fn null_is_answered() {
    let mut ticket = dangling_mut();
    // SAFETY: null is allowed for `lane`, and the place is a local of ours.
    assert_eq!(unsafe { parkd_submit(null(), 1, 0, &mut ticket) }, INVALID);
    assert!(ticket.is_null());
    // SAFETY: null is allowed for both.
    assert_eq!(unsafe { parkd_submit(null(), 1, 0, null_mut()) }, INVALID);
    let mut completion = ParkdCompletion::pending();
    // SAFETY: null is allowed for `ticket`, and the place is a local of ours.
    assert_eq!(unsafe { parkd_wait(null_mut(), FOREVER, &mut completion) }, INVALID);
    // SAFETY: null is allowed for both.
    assert_eq!(unsafe { parkd_wait(null_mut(), FOREVER, null_mut()) }, INVALID);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { parkd_cancel(null()) }, INVALID);
    // SAFETY: null is allowed.
    unsafe { parkd_ticket_free(null_mut()) };
}
