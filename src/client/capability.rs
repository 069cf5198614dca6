//! A capability: what lets another process wait on a lane.

use std::fmt;
use std::str::FromStr;

use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::limits::CAPABILITY_BYTES;

/// 128 random bits that share a lane: whoever has them can wait on it
/// ([`Session::redeem`](super::Session::redeem)). A secret: as text it is 32 hex digits, and no log
/// should have them. They are not shown for debugging.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capability([u8; CAPABILITY_BYTES]);

impl Capability {
    /// From the bytes of SHARE.
    pub fn from_bytes(bytes: [u8; CAPABILITY_BYTES]) -> Capability {
        Capability(bytes)
    }

    /// The bytes, as REDEEM takes them.
    pub fn to_bytes(&self) -> [u8; CAPABILITY_BYTES] {
        self.0
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Capability(..)")
    }
}

impl FromStr for Capability {
    type Err = Error;

    /// # Errors
    /// `InvalidArgument` for anything but 32 hex digits; the text is not repeated.
    fn from_str(text: &str) -> Result<Capability> {
        let is_hex =
            text.len() == 2 * CAPABILITY_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(|number| Capability(number.to_be_bytes())).ok_or_else(|| {
            let text = format!("capability: {} bytes of text, not 32 hex digits", text.len());
            Error::new(ErrorCode::InvalidArgument, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_read_as_it_is_written() {
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8 * 17);
        let capability = Capability::from_bytes(bytes);
        let text = capability.to_string();
        assert_eq!(text, "00112233445566778899aabbccddeeff");
        assert_eq!(text.parse::<Capability>().map(|c| c.to_bytes()), Ok(bytes));
        assert_eq!(text.to_uppercase().parse(), Ok(capability));
    }

    #[test]
    fn what_is_no_capability_is_refused_and_not_repeated() {
        let short = "00112233445566778899aabbccddeef";
        for text in ["", "+0112233445566778899aabbccddeeff", short, &format!("{short}g")] {
            let error = text.parse::<Capability>().unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{text}");
            assert!(text.is_empty() || !error.detail.contains(text), "{error}");
        }
    }

    #[test]
    fn debugging_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Capability::from_bytes([7; 16])), "Capability(..)");
    }
}
