use std::ptr::{dangling_mut, null, null_mut};

use parkd::core::error::ErrorCode;

use super::*;

const INVALID: c_int = ErrorCode::InvalidArgument as c_int;

#[test]
fn null_is_answered() {
    let mut lane = dangling_mut();
    // SAFETY: null is allowed for `session`, and the place is a local of ours.
    assert_eq!(unsafe { parkd_lane(null(), &mut lane) }, INVALID);
    assert!(lane.is_null());
    // SAFETY: null is allowed for both.
    assert_eq!(unsafe { parkd_lane(null(), null_mut()) }, INVALID);
    // SAFETY: null is allowed.
    assert_eq!(unsafe { parkd_lane_store(null(), 1) }, INVALID);
    let mut value = 5;
    // SAFETY: null is allowed for `lane`, and the place is a local of ours.
    assert_eq!(unsafe { parkd_lane_value(null(), &mut value) }, INVALID);
    assert_eq!(value, 5);
    // SAFETY: null is allowed.
    unsafe { parkd_lane_free(null_mut()) };
}
