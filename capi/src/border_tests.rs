use std::ffi::CStr;
use std::panic::panic_any;
use std::ptr::null_mut;

use super::*;
use crate::text::parkd_last_error;

fn last_error() -> String {
    // SAFETY: the text stays until this thread's next call that fails.
    unsafe { CStr::from_ptr(parkd_last_error()) }.to_str().unwrap().to_owned()
}

const INVALID: c_int = ErrorCode::InvalidArgument as c_int;
const SYSTEM: c_int = ErrorCode::SystemFailed as c_int;

#[test]
fn a_call_answers_its_code_and_leaves_its_text() {
    assert_eq!(guard(|| Ok(())), 0);
    assert_eq!(last_error(), "");
    assert_eq!(guard(|| Err(Error::new(ErrorCode::Stalled, "nothing moves"))), 7);
    assert_eq!(last_error(), "Stalled (7): nothing moves");
    assert_eq!(guard(|| Ok(())), 0);
    assert_eq!(last_error(), "Stalled (7): nothing moves");
}

#[test]
fn a_panic_stops_at_the_border() {
    let of = |panic: &str| format!("SystemFailed (57): a panic in the library: {panic}");
    assert_eq!(guard(|| panic!("as it is")), SYSTEM);
    assert_eq!(last_error(), of("as it is"));
    let filled_in = 5;
    assert_eq!(guard(|| panic!("{filled_in} of them")), SYSTEM);
    assert_eq!(last_error(), of("5 of them"));
    assert_eq!(guard(|| panic_any(5)), SYSTEM);
    assert_eq!(last_error(), of("it says nothing"));
}

#[test]
fn a_panic_while_a_handle_is_freed_stops_too() {
    struct Falls;

    impl Drop for Falls {
        fn drop(&mut self) {
            panic!("on its way out");
        }
    }

    let mut handle = null_mut();
    // SAFETY: the place is a local of ours.
    unsafe { hand_out(&mut handle, "handle", || Ok(Falls)) }.unwrap();
    // SAFETY: made just now, and used by nobody else.
    unsafe { free(handle) };
    assert!(last_error().ends_with("on its way out"));
}

#[test]
fn null_is_answered_and_not_followed() {
    // SAFETY: null is allowed.
    let refused = unsafe { shared(null_mut::<u8>(), "it") }.unwrap_err();
    assert_eq!(refused.to_string(), "InvalidArgument (68): it: a null pointer");
    // SAFETY: null is allowed.
    let refused = unsafe { exclusive(null_mut::<u8>(), "it") }.unwrap_err();
    assert_eq!(c_int::from(refused.code.number()), INVALID);
    // SAFETY: null is allowed.
    let refused = unsafe { answer(null_mut::<u8>(), "it", 1) }.unwrap_err();
    assert_eq!(c_int::from(refused.code.number()), INVALID);
    // SAFETY: null is allowed.
    unsafe { free(null_mut::<u8>()) };
}

#[test]
fn nothing_is_made_for_a_place_that_is_null() {
    // SAFETY: null is allowed.
    let refused = unsafe { hand_out(null_mut(), "it", || -> Result<u8> { panic!("made") }) };
    assert_eq!(refused.unwrap_err().code, ErrorCode::InvalidArgument);
}

#[test]
fn a_place_holds_null_where_nothing_could_be_made() {
    let mut place = std::ptr::dangling_mut::<u8>();
    let fail = || Err(Error::new(ErrorCode::Stalled, ""));
    // SAFETY: the place is a local of ours.
    let failed = unsafe { hand_out(&mut place, "it", fail) };
    assert_eq!(failed.unwrap_err().code, ErrorCode::Stalled);
    assert!(place.is_null());
}
