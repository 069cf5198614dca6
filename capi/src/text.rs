//! Texts for people: of a code, and of the last call of a thread that failed.
//!
//! A text of a code lives as long as the library. A *last error* is its thread's: it stays as it
//! is, also through calls that succeed, until the thread's next call that fails.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;

use parkd::core::error::{Error, ErrorCode};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps what a failed call has to say.
pub(crate) fn note(error: &Error) {
    let text = terminated(error.to_string());
    // A thread that is being torn down has nobody left to ask.
    let _ = LAST.try_with(|last| last.replace(text));
}

/// The text as C reads it, to its first zero byte: there is none in it.
fn terminated(text: String) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

fn of_code(number: c_int) -> &'static CStr {
    static TEXTS: OnceLock<Vec<CString>> = OnceLock::new();
    let known = u16::try_from(number).ok().and_then(ErrorCode::from_number);
    let at = known.and_then(|code| ErrorCode::ALL.binary_search(&code).ok());
    let texts = TEXTS.get_or_init(|| {
        let text = |code: &ErrorCode| format!("{code}: {} {}", code.cause(), code.remedy());
        ErrorCode::ALL.iter().map(|code| terminated(text(code))).collect()
    });
    match at.and_then(|at| texts.get(at)) {
        Some(text) => text,
        None if number == 0 => c"no error",
        None => c"a code that this version of the library does not know",
    }
}

/// The header's `parkd_error_text`.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub extern "C" fn parkd_error_text(code: c_int) -> *const c_char {
    of_code(code).as_ptr()
}

/// The header's `parkd_last_error`.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub extern "C" fn parkd_last_error() -> *const c_char {
    // The text stays where it is: only `note` replaces it, in a later call of this thread.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
