use std::ffi::CString;
use std::ptr::{dangling_mut, null, null_mut};

use parkd::core::error::ErrorCode;

use super::*;

#[test]
fn null_is_answered() {
    // SAFETY: null is allowed for `session`, and the path ends in a zero byte.
    let code = unsafe { parkd_connect(c"/nowhere/parkd.sock".as_ptr(), null_mut()) };
    assert_eq!(code, ErrorCode::InvalidArgument as c_int);
    // SAFETY: null is allowed for both.
    let code = unsafe { parkd_connect(null(), null_mut()) };
    assert_eq!(code, ErrorCode::InvalidArgument as c_int);
    // SAFETY: null is allowed.
    unsafe { parkd_close(null_mut()) };
}

#[test]
fn a_session_that_cannot_be_had_is_null() {
    let too_long = CString::new("x".repeat(200)).unwrap();
    for path in [c"/nowhere/parkd.sock", c"/nowhere/\xff", c"", too_long.as_c_str()] {
        let mut session = dangling_mut();
        // SAFETY: the path ends in a zero byte, and the place is a local of ours.
        let code = unsafe { parkd_connect(path.as_ptr(), &mut session) };
        assert_eq!(code, ErrorCode::SocketUnavailable as c_int, "{path:?}");
        assert!(session.is_null());
    }
}
