//! The one registry of error codes, and the coded error that carries them.
//!
//! A *code* is a number that never changes its meaning: the registry is append-only, and programs
//! branch on the code, never on text. Each entry has a *form* (the text's shape), a *cause* and a
//! *remedy*. `docs/ERRORS.md` is [`docs_page`] (`tests/docs.rs` compares them).
//! Codes 1 to 31 belong to the core's wait machinery; the daemon, its protocol and its client
//! number from 32.

use alloc::format;
use alloc::string::String;
use core::fmt;

macro_rules! registry {
    ($(
        $num:literal $name:ident $blame:ident, $form:literal, $cause:literal, $remedy:literal;
    )*) => {
        /// A number for one kind of refusal, failure or warning. Append-only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum ErrorCode {
            $(#[doc = $cause] $name = $num,)*
        }

        impl ErrorCode {
            /// Every code, in rising order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The code with this number, if this build knows it.
            pub const fn from_number(number: u16) -> Option<ErrorCode> {
                match number { $($num => Some(ErrorCode::$name),)* _ => None }
            }

            /// The code's name, as in the registry.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => stringify!($name),)* }
            }

            /// Whose fault this is: decides who is ended for it.
            pub const fn blame(self) -> Blame {
                match self { $(ErrorCode::$name => Blame::$blame,)* }
            }

            /// The shape of the text that goes with the code.
            pub const fn form(self) -> &'static str {
                match self { $(ErrorCode::$name => $form,)* }
            }

            /// What brings it about.
            pub const fn cause(self) -> &'static str {
                match self { $(ErrorCode::$name => $cause,)* }
            }

            /// What to do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(ErrorCode::$name => $remedy,)* }
            }
        }
    };
}

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Blame {
    /// Nobody's: a warning, something to know.
    Nobody = 0,
    /// The client's: the request is refused, or the session closed, and no other session notices.
    Client = 1,
    /// The daemon's or its machine's.
    Daemon = 2,
    /// The operator's: a setting or a permission.
    Operator = 3,
    /// The device's or its producer's.
    Device = 4,
}

impl Blame {
    /// Who that is, as the docs say it.
    pub const fn label(self) -> &'static str {
        match self {
            Blame::Nobody => "nobody: a warning or a notice",
            Blame::Client => "the client",
            Blame::Daemon => "the daemon or its machine",
            Blame::Operator => "the operator",
            Blame::Device => "the device or its producer",
        }
    }
}

registry! {
    1 InvalidPlan Client, "plan: <key> = <value>: <bound> (column <n>)",
        "A wait plan's text does not follow the grammar or leaves a bound.",
        "Correct the key that the text names; docs/PLANS.md has the grammar and the bounds.";
    2 ParkFallback Nobody, "park: <requested> is not available (<why>), <running> is used",
        "The CPU's word park that was asked for cannot be used on this machine.",
        "Nothing is lost but some power: parks use PAUSE. UMWAIT, MWAITX or WFE would be better.";
    3 ExecutorFallback Nobody, "executor: <requested> is not available (<why>), <running> is used",
        "The executor that was asked for cannot run here and another one was chosen.",
        "Allow what the text names (a sysctl, a seccomp profile, a limit), or ask for the other.";
    4 ExecutorRefused Operator, "executor: <requested> is not available (<why>) and strict is set",
        "The executor that was asked for cannot run here and `strict` forbids another.",
        "Allow what the text names, or set strict = false.";
    5 InvalidExecutor Operator, "executor: <value> is none of io-uring, gpu-reactor, naive",
        "An executor name that does not exist.",
        "Use io-uring, gpu-reactor or naive.";
    6 PendedInline Client, "<site>: the future was pending at its only poll",
        "A wait that must complete at once was not done.",
        "Run it on an executor, or use a plan that blocks.";
    7 Stalled Client, "executor: <n> tasks left and nothing registered that could wake them",
        "Tasks wait for something that the reactor does not know.",
        "Await reactor futures, or wake the task from another source.";
    8 Backend Device, "<port>: <what failed>: <status>",
        "A device's driver or port reported an error.",
        "See the status; the wait ended with it.";
    32 BadMessage Client, "<message>: <what is wrong>",
        "A message is too short, too long, or carries a value outside its range.",
        "Send what docs/PROTOCOL.md describes; the session was closed if the text says so.";
    33 UnknownOpcode Client, "opcode <n> is not known in protocol version <v>",
        "A message's opcode is not part of the negotiated version.",
        "Use the opcodes of docs/PROTOCOL.md, or a newer daemon.";
    34 UnknownFlags Client, "<message>: flags <bits> are not known",
        "A flag bit that this version does not define was set.",
        "Clear the bit; features are negotiated in HELLO.";
    35 VersionMismatch Client, "client speaks <a>..=<b>, the daemon <c>..=<d>",
        "No protocol version is common to both sides.",
        "Upgrade the older side.";
    36 TooManyFds Client, "<message>: <n> file descriptors, at most <max>",
        "A message carried more file descriptors than it may.",
        "Send fewer in one message.";
    37 FdKindRefused Client,
        "fd <n> is <kind>: only eventfd, timerfd, pidfd and sync_file are allowed",
        "A file descriptor of a kind that could block the daemon, or that it does not know.",
        "Wrap the event in an eventfd, or use a completion word.";
    38 RingIndex Client, "<ring>: index <n> is outside <a>..=<b>",
        "An index in the client's shared memory left the range that it can have.",
        "The session was closed; the client's memory was overwritten or its library is broken.";
    39 CreditExceeded Client, "<n> tickets asked for, <free> free of <entries>",
        "Outstanding tickets and unread results would exceed the result ring.",
        "Read results first, or ask for a larger result ring in HELLO.";
    40 CookieOutOfOrder Client, "SUBMIT cookie <n>: <expected> comes next",
        "A SUBMIT did not carry the successor of the last accepted SUBMIT's cookie.",
        "Number SUBMIT messages 1, 2, 3, ... within a session.";
    41 NoSuchLane Client, "lane <n> is not open",
        "A ticket, FAIL or CLOSE_LANE names a lane that the session has not opened.",
        "Open the lane first.";
    42 NoSuchPlan Client, "plan <id or name> is not known",
        "A ticket or a PLAN message names a plan that does not exist.",
        "Register the plan, or add it to [plans] in the configuration.";
    43 NoSuchDevice Client, "device <name> is not configured",
        "OPEN_LANE names a device that the configuration does not list.",
        "Add a [[device]] of that name, or use one that `parkctl status` lists.";
    44 NoSuchTicket Client, "ticket <user_data> is not outstanding",
        "CANCEL names a ticket that has its result already, or never was.",
        "Nothing: its result is in the ring.";
    45 LimitExceeded Client, "<what>: <n>, at most <limit> (raise [limits] <key>)",
        "A request exceeds a limit of the protocol or of this daemon's configuration.",
        "Ask for less, or raise the limit that the text names.";
    46 QuotaExceeded Client, "uid <n>: <what> <n>, at most <limit> (raise [limits] <key>)",
        "All sessions of one user together exceed a quota.",
        "Close sessions that are not needed, or raise the quota that the text names.";
    47 PermissionDenied Operator, "uid <u> gid <g> is not allowed by [allow]: <what to add where>",
        "The connecting process is not covered by `[allow]`.",
        "Add its uid or gid to [allow], or run it as a member of an allowed group.";
    48 NotGreeted Client, "<message> before HELLO, or a second HELLO",
        "A session starts with exactly one HELLO.",
        "Send HELLO first and once.";
    49 HelloTimeout Client, "no HELLO within <n> ms",
        "A connection stayed silent before its HELLO.",
        "Send HELLO right after connect.";
    50 SlowReader Client, "<n> replies unread",
        "A client sends requests and does not read the answers.",
        "Read the socket; the session was closed.";
    51 ConfigInvalid Operator, "<file>:<line>:<column>: <key>: <what is allowed>",
        "The configuration file has a wrong key, value, type, unit or range.",
        "Correct the line; `parkd check-config FILE` checks it again.";
    52 SocketInUse Operator, "<path>: another daemon listens there",
        "A live daemon owns the socket's path.",
        "Stop the other daemon, or configure another socket.";
    53 SocketUnavailable Operator, "<path>: <what failed>",
        "The socket cannot be bound, or a client cannot connect to it.",
        "Start the daemon, check the path (--socket, PARKD_SOCKET) and its permission.";
    54 CpuUnavailable Operator, "cpu <n> is not in this process's affinity mask <mask>",
        "The CPU that FILL should be pinned to does not exist or is not allowed.",
        "Choose another cpu, or \"auto\".";
    55 GroupMissing Nobody, "group <name> does not exist, the socket stays with gid <n>",
        "The group that should own the socket does not exist.",
        "Create it (systemd-sysusers does), or remove it from [allow].";
    56 PrivilegeMissing Nobody, "<what>: <errno>",
        "The daemon lacks a privilege for something that it can do without.",
        "Grant it (the shipped unit does), or accept what the text says is lost.";
    57 SystemFailed Daemon, "<call>: <errno>",
        "A system call that the daemon depends on failed.",
        "See the errno; memory, fd limits and seccomp are the usual causes.";
    58 SessionMemory Client, "session memory: <what>",
        "A client changed its shared memory in a way that costs the daemon (a punched hole).",
        "The session was closed; do not fallocate or truncate session memory.";
    59 DeadlineExpired Nobody, "the deadline passed first",
        "A wait ended because its deadline passed.",
        "The ticket is over; submit another one to go on waiting.";
    60 ProducerFailed Device, "lane <n>: the producer posted code <c>",
        "The producer of a lane posted a device error with FAIL.",
        "See the producer's code; the device work did not complete.";
    61 Disconnected Daemon, "the daemon closed the session: <reason>",
        "The daemon ended, or closed this session.",
        "See the reason; connect again.";
    62 NoFreeLane Client, "all <n> lanes are open",
        "A session opened as many lanes as it asked for in HELLO.",
        "Close one, or ask for more lanes in HELLO.";
    63 PidfdUnavailable Nobody, "pid <n>: <errno>",
        "The client's process cannot be watched by a pidfd.",
        "Nothing: the socket's end is watched in its place.";
    64 NotSupported Client, "<what> is not supported by this daemon",
        "A request of the protocol that this daemon's build or configuration cannot serve.",
        "Ask STATUS for the features, or use a completion word.";
    65 Forked Client, "this session belongs to process <n>",
        "A session was used in a forked child of the process that connected.",
        "Connect again in the child.";
    66 Cancelled Nobody, "the ticket was cancelled or its lane closed",
        "A ticket was taken back by its owner, or its lane was closed.",
        "Nothing: the ticket is over.";
    67 ProducerDied Device, "the producer died at <number>",
        "The process that owns the lane's producer ended before the number was stored.",
        "Start the producer again and submit another ticket.";
    68 InvalidArgument Client, "<argument>: <what is wrong>",
        "A function of the library was given a value that it cannot take, as a null pointer.",
        "Correct the call; include/parkd.h says what each argument may be.";
    69 Quarantined Client, "session of pid <n>: the daemon died <n> times while it recovered it",
        "A restarted daemon did not survive taking this session over, and leaves it out now.",
        "Connect again; please report it: no session should be able to do that.";
    70 Draining Nobody, "the daemon drains: no new <what>",
        "DRAIN was asked for: no session and no ticket is taken any more.",
        "Wait for the daemon's next life, then connect again and submit what was refused.";
    71 NotOperator Client, "<message>: uid <n> is neither root nor the daemon's user <m>",
        "A request that steers the daemon came from a user who may not.",
        "Run it as root, or as the user that the daemon runs as.";
    72 BellFallback Nobody, "bell: <requested> is not available (<why>), <running> is used",
        "Bells of the kind that was asked for cannot be relied on here and another kind is used.",
        "Nothing is lost; a ring costs a little more. A newer kernel may do without.";
    73 NoSuchCapability Client, "the capability is not known, or was revoked",
        "REDEEM came with a capability that shares no lane: wrong, revoked, or its owner is gone.",
        "Have the lane's owner share it again, and hand over what it gets.";
    74 NotOwner Client, "<message>: lane <n> was redeemed, it is its owner's",
        "A session asked for something that only the session may that opened the lane.",
        "Ask for it in the session that opened the lane.";
    75 LaneRevoked Nobody, "the lane's owner has revoked it",
        "A ticket waits for a lane that was redeemed, and its owner has taken the capability back.",
        "Nothing: have the owner share the lane again if there is more to wait for.";
    76 RateExceeded Client, "uid <n>: <what>, at most <limit> a second: again in <ms> ms",
        "One user did more of something in a short time than a second allows.",
        "Wait as long as the text and the value say, or raise the limit that the text names.";
    77 ConfigUnreadable Operator, "<file>: cannot be read: <errno>",
        "The configuration file is not there, or the daemon's user may not read it.",
        "Check the path, and that the daemon's user may read the file and search its folders.";
}

impl ErrorCode {
    /// The code's number, as on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

/// A code and the text that says what was wrong, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What programs branch on.
    pub code: ErrorCode,
    /// What people read; follows the code's form.
    pub detail: String,
}

impl Error {
    /// An error with `code`'s meaning and this text.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Error {
        Error { code, detail: detail.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl core::error::Error for Error {}

/// The result of what can end with a coded error.
pub type Result<T> = core::result::Result<T, Error>;

/// What `docs/ERRORS.md` says: the registry as Markdown.
pub fn docs_page() -> String {
    let mut page = String::from(
        "# Error codes

Generated from `src/core/error.rs`. A code never changes its meaning and is never used again:
branch on the code, never on the text. The form shows the text's shape; what stands in `<>` is
filled in. Codes 1 to 31 belong to waiting itself; the daemon, its protocol and its client number
from 32.
",
    );
    for &code in ErrorCode::ALL {
        page.push_str(&format!("\n## {} {}\n\n", code.number(), code.name()));
        page.push_str(&format!("- Form: `{}`\n", code.form()));
        page.push_str(&format!("- Cause: {}\n", code.cause()));
        page.push_str(&format!("- Remedy: {}\n", code.remedy()));
        page.push_str(&format!("- Blame: {}\n", code.blame().label()));
    }
    page
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
