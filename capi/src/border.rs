//! The border between C and Rust.
//!
//! What always holds: no panic crosses it, a call that fails leaves its text with its thread, a
//! null pointer is answered with `InvalidArgument` and never followed, and what a caller gets a
//! handle to is whole: until then its place holds null.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{self, AssertUnwindSafe};

use parkd::core::error::{Error, ErrorCode, Result};

use crate::text;

/// Runs a call: 0, or its error's code. A panic is `SystemFailed`.
pub(crate) fn guard(call: impl FnOnce() -> Result<()>) -> c_int {
    // Unwind safe: what a panic could leave half done is behind the client's own locks, which
    // keep their invariants without poison.
    let done = panic::catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Error::new(ErrorCode::SystemFailed, said(&*panic))));
    let Err(error) = done else { return 0 };
    let code = error.code.number();
    text::note(&error);
    code.into()
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a panic in the library: {}", text.unwrap_or("it says nothing"))
}

/// What a pointer points to.
///
/// # Safety
/// `pointer` is null, or points to a `T` that nobody writes or frees while the reference lives.
///
/// # Errors
/// `InvalidArgument` for null; `argument` is its name in the header.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, argument: &str) -> Result<&'a T> {
    // SAFETY: null or fit for a reference, as this function's caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(argument))
}

/// What a pointer points to, to be changed.
///
/// # Safety
/// `pointer` is null, or points to a `T` that nobody else uses while the reference lives.
///
/// # Errors
/// As [`shared`].
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, argument: &str) -> Result<&'a mut T> {
    // SAFETY: null or fit for a reference, as this function's caller promises.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(argument))
}

/// Writes a value to where the caller wants it, which may hold nothing yet.
///
/// # Safety
/// `place` is null or may be written as a `T`.
///
/// # Errors
/// As [`shared`].
pub(crate) unsafe fn answer<T: Copy>(place: *mut T, argument: &str, value: T) -> Result<()> {
    if place.is_null() {
        return Err(null(argument));
    }
    // SAFETY: not null, so it may be written, as this function's caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Makes something and hands the caller a handle to it. The place is looked at first: nothing is
/// made that nobody could get.
///
/// # Safety
/// As [`answer`].
///
/// # Errors
/// As [`shared`]; those of `make`, and the handle is null then.
pub(crate) unsafe fn hand_out<T>(
    place: *mut *mut T,
    argument: &str,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    // SAFETY: this function's caller promises the same of `place`.
    unsafe { answer(place, argument, std::ptr::null_mut()) }?;
    let handle = Box::into_raw(Box::new(make()?));
    // SAFETY: as above.
    unsafe { answer(place, argument, handle) }
}

/// Frees what a handle points to; nothing for null.
///
/// # Safety
/// `handle` is null, or came from [`hand_out`] and is used by nobody any more.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    // SAFETY: made by `Box::into_raw` in `hand_out` and given back once, as the caller promises.
    let whole = unsafe { Box::from_raw(handle) };
    // A panic has nobody to be told to.
    guard(|| {
        drop(whole);
        Ok(())
    });
}

fn null(argument: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("{argument}: a null pointer"))
}

#[cfg(test)]
#[path = "border_tests.rs"]
mod tests;
