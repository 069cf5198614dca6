//! Sessions, as C has them: the header's `struct parkd_session`.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use parkd::client::Session;

use crate::border::{free, guard, hand_out};

/// The header's `struct parkd_session`: one of the handles of a session.
pub struct ParkdSession(pub(crate) Session);

/// The header says: any number of threads at a time.
const fn any_threads<T: Send + Sync>() {}
const _: () = any_threads::<ParkdSession>();

/// The header's `parkd_connect`.
///
/// # Safety
/// `path` is null or ends in a zero byte; `session` is null or may be written.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_connect(
    path: *const c_char,
    session: *mut *mut ParkdSession,
) -> c_int {
    guard(|| {
        let connect = || {
            if path.is_null() {
                return Session::connect();
            }
            // SAFETY: not null, so it ends in a zero byte and stays as it is during the call, as
            // the caller promises.
            let path = unsafe { CStr::from_ptr(path) };
            Session::connect_to(Path::new(OsStr::from_bytes(path.to_bytes())))
        };
        // SAFETY: the caller promises that `session` is null or may be written.
        unsafe { hand_out(session, "session", || connect().map(ParkdSession)) }
    })
}

/// The header's `parkd_close`.
///
/// # Safety
/// `session` is null or a handle that was not closed; no other call uses it now or later.
#[unsafe(no_mangle)] // SAFETY: nobody else's symbols start with `parkd_`.
pub unsafe extern "C" fn parkd_close(session: *mut ParkdSession) {
    // SAFETY: the caller promises that it is null or came from `parkd_connect`, and gives it up.
    unsafe { free(session) };
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
