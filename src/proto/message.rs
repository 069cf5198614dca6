//! The messages of protocol version 1: one message is one SOCK_SEQPACKET record.
//!
//! A *request* goes from the client to the daemon and is answered under its cookie by one *reply*:
//! the request's opcode with the top bit set, or ERROR. A message is a [`Header`], a fixed body,
//! and for some a tail whose size the body tells; `length` counts all three. A *notice* comes of
//! the daemon's own accord, under cookie 0: RESUMED is the only one.

use alloc::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::limits::{CAPABILITY_BYTES, DEVICE_NAME_BYTES, ERROR_DETAIL_BYTES_MAX};
use crate::core::error::{Error, ErrorCode};

/// Bit of an opcode that makes it a reply.
pub const REPLY: u16 = 0x8000;
/// Opcode of the ERROR reply.
pub const ERROR: u16 = 0xffff;
/// Opcode of the RESUMED notice.
pub const RESUMED: u16 = 0xfffe;
/// Flag of a request that was sent before, to an earlier life of the daemon, and had no answer.
/// HELLO has none.
pub const AGAIN: u16 = 1;

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $num:literal, $text:literal;)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Opcode { $($(#[$doc])* $name = $num,)* }

        impl Opcode {
            /// Every opcode of this version.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// The opcode of this number.
            pub const fn from_number(number: u16) -> Option<Opcode> {
                match number { $($num => Some(Opcode::$name),)* _ => None }
            }

            /// The opcode's name in docs and texts.
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$name => $text,)* }
            }
        }
    };
}

opcodes! {
    /// Opens the session; answered by WELCOME with the session's fds.
    Hello = 1, "HELLO";
    /// Opens a lane for a device's numbers.
    OpenLane = 2, "OPEN_LANE";
    /// Closes a lane; its outstanding tickets are cancelled.
    CloseLane = 3, "CLOSE_LANE";
    /// Registers a plan by text, or by its name in the configuration.
    Plan = 4, "PLAN";
    /// Submits tickets, all or none.
    Submit = 5, "SUBMIT";
    /// Cancels a ticket.
    Cancel = 6, "CANCEL";
    /// Posts a device error on a lane.
    Fail = 7, "FAIL";
    /// Makes a capability for a lane.
    Share = 8, "SHARE";
    /// Uses a capability.
    Redeem = 9, "REDEEM";
    /// Takes a capability back.
    Revoke = 10, "REVOKE";
    /// Registers a device event.
    RegisterEvent = 11, "REGISTER_EVENT";
    /// Gives a device event's lease back.
    ReleaseEvent = 12, "RELEASE_EVENT";
    /// Asks for the daemon's state as JSON.
    Status = 13, "STATUS";
    /// Lets tickets finish, takes no new ones.
    Drain = 14, "DRAIN";
    /// Ends the session in order.
    Bye = 15, "BYE";
}

/// The first 16 bytes of every message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Header {
    /// An [`Opcode`], a reply's, or [`ERROR`].
    pub opcode: u16,
    /// [`AGAIN`] or nothing.
    pub flags: u16,
    /// Bytes of the whole message.
    pub length: u32,
    /// The request's; replies repeat it. SUBMIT's count 1, 2, 3, ...
    pub cookie: u64,
}

/// What a connecting process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// Waits: gets session memory.
    Client = 0,
    /// Holds a vendor driver and posts numbers.
    Agent = 1,
    /// Looks and steers (parkctl): no session memory, no tickets.
    Control = 2,
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }
    )*};
}

bodies! {
    /// HELLO's body.
    Hello {
        /// Lowest protocol version the client speaks.
        version_min: u16,
        /// Highest protocol version the client speaks.
        version_max: u16,
        /// A [`Role`].
        role: u32,
        /// Feature bits that the client knows; none is defined in version 1.
        features: u64,
        /// Entries of the submission ring: a power of two in 64..=65_536, or 0 for the default.
        submit_entries: u32,
        /// Entries of the result ring: the same.
        result_entries: u32,
        /// Lanes: a power of two in 64..=4096, or 0 for the default.
        lanes: u32,
        /// Lanes to adopt after a reconnect: with 1 an fd of the old lanes area comes along.
        adopt: u32,
        /// The client's CLOCK_MONOTONIC, for time namespaces.
        now_ns: u64,
    }

    /// WELCOME's body. Its fds, for clients and agents: rings, lanes, status page, eventfd, and the
    /// bell eventfd where `bell_kind` is 2.
    Welcome {
        /// The version that both sides speak from here.
        version: u16,
        /// A [`super::layout::BellKind`]; 0 for control sessions.
        bell_kind: u8,
        /// Zero.
        reserved0: u8,
        /// The session's number.
        session: u32,
        /// Feature bits that the daemon knows.
        features: u64,
        /// Which life of the daemon this is.
        generation: u32,
        /// Entries of the submission ring.
        submit_entries: u32,
        /// Entries of the result ring.
        result_entries: u32,
        /// Lanes.
        lanes: u32,
        /// Tickets in one SUBMIT at most.
        submit_tickets_max: u32,
        /// File descriptors in one SUBMIT at most.
        submit_fds_max: u32,
        /// The daemon's CLOCK_MONOTONIC.
        now_ns: u64,
        /// What the daemon adds to the client's deadlines and takes off the times in its results:
        /// 0 where both live in one time namespace.
        clock_offset_ns: i64,
    }

    /// OPEN_LANE's body.
    OpenLane {
        /// The lane's index, or `u32::MAX` for any free one.
        lane: u32,
        /// 64 or 32: how wide the device stores.
        width: u32,
        /// The device's name, padded with zeros.
        device: [u8; DEVICE_NAME_BYTES],
    }

    /// The reply to OPEN_LANE.
    LaneOpened {
        /// The lane's index.
        lane: u32,
        /// The bell that a CPU-side producer of this lane rings.
        bell: u32,
        /// The lane's number now: the next one to store is higher.
        value: u64,
    }

    /// CLOSE_LANE's body.
    CloseLane {
        /// The lane's index.
        lane: u32,
        /// Zero.
        reserved: u32,
    }

    /// PLAN's body; `bytes` bytes of UTF-8 follow.
    Plan {
        /// 0: the text is a plan. 1: it is the name of one in `[plans]`.
        by_name: u32,
        /// Bytes of the text, 1..=640.
        bytes: u32,
    }

    /// The reply to PLAN.
    PlanKnown {
        /// The plan's id within the session, from 1.
        plan: u32,
        /// Zero.
        reserved: u32,
    }

    /// SUBMIT's body; `tickets` entries of 64 bytes follow, and `fds` file descriptors come along.
    Submit {
        /// Tickets, 1..=256.
        tickets: u32,
        /// File descriptors, 0..=64.
        fds: u32,
    }

    /// The reply to SUBMIT.
    Submitted {
        /// Tickets taken: all.
        tickets: u32,
        /// What is free of the result ring after them.
        free: u32,
    }

    /// CANCEL's body. The ticket's one result says how it ended.
    Cancel {
        /// The ticket's.
        user_data: u64,
    }

    /// FAIL's body.
    Fail {
        /// The lane.
        lane: u32,
        /// The producer's code.
        code: u32,
    }

    /// SHARE's body.
    Share {
        /// A lane that the session opened.
        lane: u32,
        /// Zero.
        reserved: u32,
        /// What the capability is made from: the owner's own secret. Zeros: from nothing.
        secret: [u8; CAPABILITY_BYTES],
    }

    /// The reply to SHARE.
    Shared {
        /// What redeems the lane: a secret.
        capability: [u8; CAPABILITY_BYTES],
    }

    /// REDEEM's body.
    Redeem {
        /// What SHARE answered.
        capability: [u8; CAPABILITY_BYTES],
    }

    /// The reply to REDEEM.
    Redeemed {
        /// The lane's index in this session.
        lane: u32,
        /// 64 or 32: how wide its device stores.
        width: u32,
        /// The bell by which the daemon is asked to look at the session's lanes of its device.
        bell: u32,
        /// Zero.
        reserved: u32,
        /// The lane's number now.
        value: u64,
    }

    /// REVOKE's body.
    Revoke {
        /// A lane that the session opened.
        lane: u32,
        /// Zero.
        reserved: u32,
    }

    /// The body of an ERROR reply; `bytes` bytes of UTF-8 follow.
    ErrorBody {
        /// An [`ErrorCode`] number.
        code: u16,
        /// A [`crate::core::error::Blame`].
        blame: u8,
        /// 1 when the session is closed for it.
        closes: u8,
        /// Bytes of the text, 0..=256.
        bytes: u32,
        /// A number that goes with the code: the free count, the cookie expected, the limit.
        value: u64,
    }

    /// The body of RESUMED: another life of the daemon goes on with the session.
    Resumed {
        /// Which life.
        generation: u32,
        /// Zero.
        reserved: u32,
        /// The cookie of the last SUBMIT that was accepted.
        last_cookie: u64,
    }

    /// DRAIN's body.
    Drain {
        /// How long tickets may take to finish, in milliseconds; what is left is then ended.
        timeout_ms: u32,
        /// Zero.
        reserved: u32,
    }

    /// The reply to DRAIN: together, the tickets that were outstanding when it came.
    Drained {
        /// Tickets that ended by themselves.
        finished: u32,
        /// Tickets that were ended with `ShuttingDown`.
        ended: u32,
    }

    /// STATUS's body.
    StatusRequest {
        /// Zero.
        reserved: u64,
    }

    /// The reply to STATUS; `bytes` bytes of JSON follow.
    StatusText {
        /// Bytes of the JSON text.
        bytes: u32,
        /// Zero.
        reserved: u32,
    }
}

/// A whole message: header, body and tail.
pub fn encode<B: IntoBytes + Immutable>(
    opcode: u16,
    cookie: u64,
    body: &B,
    tail: &[u8],
) -> Vec<u8> {
    let length = size_of::<Header>() + size_of::<B>() + tail.len();
    let header = Header { opcode, flags: 0, length: length as u32, cookie };
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
    bytes.extend_from_slice(tail);
    bytes
}

/// The reply to a request, without a tail.
pub fn reply<B: IntoBytes + Immutable>(opcode: Opcode, cookie: u64, body: &B) -> Vec<u8> {
    encode(opcode as u16 | REPLY, cookie, body, &[])
}

/// The reply to a request that has nothing to say but that it was done.
pub fn done(opcode: Opcode, cookie: u64) -> Vec<u8> {
    encode(opcode as u16 | REPLY, cookie, &(), &[])
}

/// An ERROR reply. `value` goes with the code; `closes` says that the session ends.
pub fn error(cookie: u64, error: &Error, value: u64, closes: bool) -> Vec<u8> {
    let mut end = error.detail.len().min(ERROR_DETAIL_BYTES_MAX);
    while !error.detail.is_char_boundary(end) {
        end -= 1;
    }
    let body = ErrorBody {
        code: error.code.number(),
        blame: error.code.blame() as u8,
        closes: u8::from(closes),
        bytes: end as u32,
        value,
    };
    encode(ERROR, cookie, &body, &error.detail.as_bytes()[..end])
}

/// The RESUMED notice.
pub fn resumed(generation: u32, last_cookie: u64) -> Vec<u8> {
    encode(RESUMED, 0, &Resumed { generation, reserved: 0, last_cookie }, &[])
}

/// Gives an encoded request another cookie.
pub fn set_cookie(record: &mut [u8], cookie: u64) {
    if let Some(field) = record.get_mut(8..16) {
        field.copy_from_slice(&cookie.to_le_bytes());
    }
}

/// Marks an encoded request as one that is sent [`AGAIN`].
pub fn mark_again(record: &mut [u8]) {
    if let Some(flags) = record.get_mut(2..4) {
        flags.copy_from_slice(&AGAIN.to_le_bytes());
    }
}

/// A name as it stands in a fixed field: UTF-8, padded with zeros. `None` when it does not fit.
pub fn name_field<const N: usize>(name: &str) -> Option<[u8; N]> {
    let mut field = [0; N];
    field.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    Some(field)
}

/// The name in a fixed field.
///
/// # Errors
/// `BadMessage` for text that is not UTF-8, is empty, or goes on after a zero.
pub fn field_name(field: &[u8]) -> Result<&str, Error> {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let bad = |what| Error::new(ErrorCode::BadMessage, what);
    if end == 0 {
        return Err(bad("name: empty"));
    }
    if field[end..].iter().any(|&b| b != 0) {
        return Err(bad("name: bytes after its end"));
    }
    core::str::from_utf8(&field[..end]).map_err(|_| bad("name: not UTF-8"))
}

const _: () = assert!(size_of::<Header>() == 16);
const _: () = assert!(size_of::<Hello>() == 40);
const _: () = assert!(size_of::<Welcome>() == 56);
