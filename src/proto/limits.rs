//! Every limit of the protocol and of the daemon, and how they tie together.
//!
//! A limit here is a ceiling: an operator may lower those that `[limits]` names, none can be
//! raised past it. The asserts at the end are the reasons why the numbers fit one another.

/// Connected sessions of one daemon.
pub const SESSIONS_MAX: u32 = 1024;
/// Tickets outstanding, with their unread results, in one session.
pub const SESSION_TICKETS_MAX: u32 = 65_536;
/// Lanes of one session.
pub const SESSION_LANES_MAX: u32 = 4096;
/// Tickets outstanding in one daemon.
pub const TICKETS_MAX: u32 = 1_048_576;
/// Fewest entries of a submission or result ring.
pub const RING_ENTRIES_MIN: u32 = 64;
/// Most entries of a submission or result ring.
pub const RING_ENTRIES_MAX: u32 = 65_536;
/// Entries of both rings unless HELLO asks otherwise.
pub const RING_ENTRIES_DEFAULT: u32 = 4096;
/// Fewest lanes of a session.
pub const LANES_MIN: u32 = 64;
/// Lanes of a session unless HELLO asks otherwise.
pub const LANES_DEFAULT: u32 = 64;
/// Tickets in one SUBMIT message.
pub const SUBMIT_TICKETS_MAX: u32 = 256;
/// File descriptors in one SUBMIT message.
pub const SUBMIT_FDS_MAX: u32 = 64;
/// File descriptors that outstanding fd tickets of one session may hold.
pub const SESSION_FDS_MAX: u32 = 1024;
/// Configured devices; a session has one bell for each.
pub const DEVICES_MAX: u32 = 64;
/// Registered device events of one session.
pub const SESSION_EVENTS_MAX: u32 = 1024;
/// Lanes that one session shares at a time.
pub const SESSION_SHARES_MAX: u32 = 1024;
/// Bytes of a capability.
pub const CAPABILITY_BYTES: usize = 16;
/// Wrong capabilities that one user may try in a row.
pub const GUESSES_MAX: u32 = 32;
/// Wrong capabilities that one user may try in a second, in the long run.
pub const GUESSES_PER_SECOND_MAX: u32 = 4;
/// Plans that one session may register.
pub const SESSION_PLANS_MAX: u32 = 64;
/// Points that the estimator of one session remembers; the least recently used makes room.
pub const SESSION_POINTS_MAX: u32 = 256;
/// Lanes of one session that FILL looks at in a hot turn.
pub const SESSION_HOT_LANES_MAX: u32 = 64;
/// Due lanes of one session that FILL looks at before it turns to the next.
pub const SESSION_DUE_LOOKS: u32 = 32;
/// Lanes of one session that are looked at as often as their plans say; of more that wait, each is
/// looked at more rarely.
pub const SESSION_WARM_LANES: u32 = 256;
/// Bytes of a device's name.
pub const DEVICE_NAME_BYTES: usize = 32;
/// Bytes of a plan's text or configured name.
pub const PLAN_TEXT_BYTES_MAX: usize = 640;
/// Bytes of the text in an ERROR message.
pub const ERROR_DETAIL_BYTES_MAX: usize = 256;
/// Bytes of one message, its header included.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;
/// Requests of one session that wait for their answer; past it the socket is not read.
pub const SESSION_REQUESTS_MAX: u32 = 64;
/// Answers of one session that its client has not read; past it the session is closed.
pub const SESSION_REPLIES_MAX: usize = 256;
/// Milliseconds from connect to HELLO.
pub const HELLO_TIMEOUT_MS: u64 = 5_000;
/// Connections that have not said HELLO.
pub const GREETINGS_MAX: u32 = 256;
/// Connections of one user in a second, at most.
pub const CONNECTS_PER_SECOND_MAX: u32 = 1_000_000;
/// Tickets that one user hands in in a second, at most.
pub const SUBMITS_PER_SECOND_MAX: u32 = 100_000_000;
/// Listen backlog of the socket.
pub const LISTEN_BACKLOG: i32 = 4096;
/// Submission entries that FILL takes from one session before it turns to the next.
pub const SUBMIT_BATCH: u32 = 4;
/// Commands on their way from the desk to FILL.
pub const COMMANDS_MAX: usize = 1024;
/// Threads that close what clients sent and no ticket waits for, since a close can block.
pub const CLOSERS_MAX: u32 = 1024;
/// Closes of one user's fds that go on at once; past it the user's connections are refused.
pub const CLOSING_PER_UID_MAX: u32 = 64;
/// Wake-ups that a session's bells may cause in a second; past it the bells are not re-armed and
/// the session is looked at every `park_us`.
pub const SESSION_RINGS_PER_SECOND_MAX: u32 = 50_000;
/// Bytes of the configuration file.
pub const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Plans that the configuration may name.
pub const CONFIG_PLANS_MAX: u32 = 64;
/// Bytes of a configured plan's name.
pub const PLAN_NAME_BYTES_MAX: usize = 32;
/// Bytes of the socket's path: what `sockaddr_un` holds, less the suffix that it is bound under.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

const _: () = assert!(PLAN_NAME_BYTES_MAX <= PLAN_TEXT_BYTES_MAX);
const _: () = assert!(RING_ENTRIES_MAX == SESSION_TICKETS_MAX);
const _: () = assert!(RING_ENTRIES_MIN.is_power_of_two() && RING_ENTRIES_MAX.is_power_of_two());
const _: () = assert!(RING_ENTRIES_DEFAULT.is_power_of_two() && LANES_MIN.is_power_of_two());
const _: () = assert!(LANES_DEFAULT >= LANES_MIN && LANES_DEFAULT <= SESSION_LANES_MAX);
const _: () = assert!(SESSION_LANES_MAX.is_power_of_two());
const _: () = assert!(SUBMIT_TICKETS_MAX >= SUBMIT_FDS_MAX && SUBMIT_FDS_MAX <= 253);
const _: () = assert!(SUBMIT_TICKETS_MAX as usize * 64 + 32 <= MESSAGE_BYTES_MAX);
const _: () = assert!(PLAN_TEXT_BYTES_MAX + 32 <= MESSAGE_BYTES_MAX);
const _: () = assert!(SESSION_PLANS_MAX < u16::MAX as u32);
const _: () = assert!(SESSION_HOT_LANES_MAX <= SESSION_LANES_MAX);
const _: () = assert!(SUBMIT_FDS_MAX <= SESSION_FDS_MAX);
const _: () = assert!(SUBMITS_PER_SECOND_MAX > SUBMIT_TICKETS_MAX);
const _: () = assert!(CLOSING_PER_UID_MAX < CLOSERS_MAX);
const _: () = assert!(SESSION_SHARES_MAX <= SESSION_LANES_MAX);
// In a century, at this pace, all of a machine's users find one of 2^128 by no chance worth a name.
const _: () = assert!(CAPABILITY_BYTES >= 16 && GUESSES_PER_SECOND_MAX <= 1000);
