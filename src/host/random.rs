//! Random bits from the kernel.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of an `u128`.
const BYTES: usize = size_of::<u128>();

/// 128 of them, fit for secrets.
///
/// # Errors
/// As getrandom(2): a kernel that forbids it.
pub fn bits() -> io::Result<u128> {
    let mut bytes = [0; BYTES];
    // So few come whole or not at all.
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        BYTES => Ok(u128::from_le_bytes(bytes)),
        some => Err(io::Error::other(format!("getrandom: {some} bytes of {BYTES}"))),
    }
}
