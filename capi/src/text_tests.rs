use std::thread;

use super::*;

#[test]
fn every_code_has_a_text_of_its_own() {
    for code in ErrorCode::ALL {
        let text = of_code(code.number().into()).to_str().unwrap();
        assert!(text.starts_with(&format!("{code}: ")), "{text}");
        assert!(text.ends_with(code.remedy()), "{text}");
    }
}

#[test]
fn other_numbers_have_a_text_too() {
    assert_eq!(of_code(0), c"no error");
    for number in [-1, 9, 65_535, 65_536 + 32, c_int::MIN, c_int::MAX] {
        assert_eq!(of_code(number), c"a code that this version of the library does not know");
    }
}

#[test]
fn a_text_stays_with_its_thread() {
    // SAFETY: the text stays until this thread's next `note`.
    let last = || unsafe { CStr::from_ptr(parkd_last_error()) }.to_owned();
    note(&Error::new(ErrorCode::Stalled, "one\0two"));
    thread::scope(|threads| {
        threads.spawn(|| assert_eq!(last(), c"".to_owned()));
    });
    assert_eq!(last(), c"Stalled (7): one?two".to_owned());
}
