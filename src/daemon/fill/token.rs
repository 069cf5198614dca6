//! FILL's names for what it watches: 56 bits that say what a host event is about.
//!
//! A name carries the session's serial number as far as it fits, so that a late event of a session
//! that has left is not taken for its successor's.

use crate::host::fill::Token;

const KIND: u32 = 53;
const SLOT: u32 = 43;
const SERIAL: u32 = 25;
const SERIAL_MASK: u32 = (1 << (SLOT - SERIAL)) - 1;
const ITEM_MASK: u64 = (1 << SERIAL) - 1;

/// Bits of the number that names a thing of a session.
pub const ITEM_BITS: u32 = SERIAL;

const DESK: u64 = 1;
const BELL: u64 = 2;
const FD: u64 = 3;
const NOTIFY: u64 = 4;
const BELL_EVENTFD: u64 = 5;

/// A session and the low bits of its serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub slot: u16,
    serial: u32,
}

impl Who {
    pub fn new(slot: u16, serial: u32) -> Who {
        Who { slot, serial: serial & SERIAL_MASK }
    }
}

/// What a token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The desk's doorbell.
    Desk,
    /// A bell word of a session.
    Bell(Who, u32),
    /// The eventfd that a session's producers ring.
    BellEventfd(Who),
    /// The fd of a ticket, by its handle among the session's fds.
    Fd(Who, u32),
    /// The eventfd by which a client is told.
    Notify(Who),
}

impl Named {
    pub fn token(self) -> Token {
        let (kind, who, item) = match self {
            Named::Desk => return Token(DESK << KIND),
            Named::Bell(who, bell) => (BELL, who, bell),
            Named::BellEventfd(who) => (BELL_EVENTFD, who, 0),
            Named::Fd(who, place) => (FD, who, place),
            Named::Notify(who) => (NOTIFY, who, 0),
        };
        let session = u64::from(who.slot) << SLOT | u64::from(who.serial) << SERIAL;
        Token(kind << KIND | session | u64::from(item) & ITEM_MASK)
    }

    pub fn of(token: Token) -> Option<Named> {
        let item = (token.0 & ITEM_MASK) as u32;
        let slot = (token.0 >> SLOT) as u16 & ((1 << (KIND - SLOT)) - 1);
        let who = Who { slot, serial: (token.0 >> SERIAL) as u32 & SERIAL_MASK };
        Some(match token.0 >> KIND {
            DESK => Named::Desk,
            BELL => Named::Bell(who, item),
            BELL_EVENTFD => Named::BellEventfd(who),
            FD => Named::Fd(who, item),
            NOTIFY => Named::Notify(who),
            _ => return None,
        })
    }
}

const _: () = assert!(KIND + 3 == crate::host::fill::TOKEN_BITS);
const _: () = assert!(crate::proto::limits::SESSIONS_MAX <= 1 << (KIND - SLOT));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let who = Who::new(1023, u32::MAX);
        for named in [
            Named::Desk,
            Named::Bell(who, 64),
            Named::BellEventfd(who),
            Named::Fd(who, 1023),
            Named::Notify(Who::new(0, 1)),
        ] {
            assert_eq!(Named::of(named.token()), Some(named));
        }
        assert_eq!(Named::of(Token(0)), None);
    }
}
