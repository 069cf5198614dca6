/*
 * parkd.h: the client library of parkd for C. Link with -lparkd.
 *
 * A session is a connection to the daemon. A lane is a 64-bit word of shared memory that a producer
 * stores rising numbers into. A ticket waits until a lane's word has reached a number (counted in
 * wrapping order) and ends exactly once; a completion says how.
 *
 *     struct parkd_session *session;
 *     struct parkd_lane *lane;
 *     struct parkd_ticket *ticket;
 *     struct parkd_completion end;
 *     uint64_t value;
 *
 *     if (parkd_connect(NULL, &session) || parkd_lane(session, &lane) ||
 *         parkd_lane_value(lane, &value) || parkd_submit(lane, value + 1, 0, &ticket))
 *         errx(1, "%s", parkd_last_error());
 *     ... have the producer store value + 1 behind its work ...
 *     if (parkd_wait(ticket, PARKD_FOREVER, &end))
 *         errx(1, "%s", parkd_last_error());
 *     if (end.status == PARKD_DONE)
 *         ...
 *     parkd_ticket_free(ticket);
 *     parkd_lane_free(lane);
 *     parkd_close(session);
 *
 * What holds for every function:
 *
 * - Errors. One that returns int returns 0, or the number of an error (enum parkd_error), whose
 *   text parkd_last_error() has. Branch on the number, never on the text. How a ticket ended is no
 *   error of a call: it is in the completion. A failed call changes nothing but what it says here.
 *   PARKD_E_INVALID_ARGUMENT answers every null pointer that is not allowed, PARKD_E_SYSTEM_FAILED
 *   a system call that failed or a fault of the library itself; they are not listed again below.
 * - Handles are opaque. They are given out by one function and given back to another, once; NULL
 *   may be given back any time. Where a function fails to give one out, its place holds NULL. Each
 *   keeps what it stands on: handles may be given back in any order.
 * - Threads. Any number may use one session or one lane at a time. A ticket is used by any thread,
 *   but by one at a time. No call may use a handle while or after another gives it back.
 * - fork. A child shares its parent's memory, not its sessions: it connects again. With handles of
 *   its parent, calls that need the session answer PARKD_E_FORKED; giving them back ends nothing.
 * - A daemon that is started anew is not noticed: waits go on, and calls that need its answer wait
 *   for it. PARKD_E_DISCONNECTED only where none came back within ten seconds, or where it closed
 *   the session for what this process did.
 * - Signals do not end a wait. No function may be called from a signal handler.
 * - Times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef PARKD_H
#define PARKD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct parkd_session;
struct parkd_lane;
struct parkd_ticket;

/* How a ticket stands. */
enum parkd_status {
    PARKD_PENDING = 0,          /* it is outstanding */
    PARKD_DONE = 1,             /* its number was reached */
    PARKD_DEADLINE_EXPIRED = 2, /* its deadline passed first */
    PARKD_CANCELLED = 3,        /* parkd_cancel, or its lane was closed */
    PARKD_PRODUCER_DIED = 4,    /* the lane's producer ended before it stored the number */
    PARKD_DEVICE_FAILED = 5,    /* the producer posted an error: code */
    PARKD_REFUSED = 6,          /* the daemon did not take it: code, an enum parkd_error */
    PARKD_SHUTTING_DOWN = 7     /* the daemon ends */
};

/* How the end of a ticket was found. */
enum parkd_waited {
    PARKD_NOT_FOUND = 0,        /* it is not done */
    PARKD_IMMEDIATE = 1,        /* done at the first look */
    PARKD_LATE = 2,             /* done on waking from a predicted sleep */
    PARKD_PARKED = 3,           /* done while it was parked or polled for */
    PARKD_BLOCKED = 4           /* done in a blocking wait */
};

/* How a ticket stands: all zero while it is outstanding. */
struct parkd_completion {
    uint32_t status;            /* enum parkd_status; take numbers not listed for a failure */
    uint32_t waited;            /* enum parkd_waited */
    uint32_t code;              /* of PARKD_DEVICE_FAILED and PARKD_REFUSED, else 0 */
    uint32_t reserved;          /* 0 */
    uint64_t seen;              /* the word as it was found */
    uint64_t submitted_ns;      /* when the daemon took the ticket */
    uint64_t detected_ns;       /* when its end was found */
    uint64_t published_ns;      /* when the daemon told of it */
};

/* A timeout that never passes. */
#define PARKD_FOREVER UINT64_MAX

/* What a call can fail with. docs/ERRORS.md has the cause and the remedy of each. */
enum parkd_error {
    PARKD_E_INVALID_PLAN = 1,
    PARKD_E_PARK_FALLBACK = 2,
    PARKD_E_EXECUTOR_FALLBACK = 3,
    PARKD_E_EXECUTOR_REFUSED = 4,
    PARKD_E_INVALID_EXECUTOR = 5,
    PARKD_E_PENDED_INLINE = 6,
    PARKD_E_STALLED = 7,
    PARKD_E_BACKEND = 8,
    PARKD_E_BAD_MESSAGE = 32,
    PARKD_E_UNKNOWN_OPCODE = 33,
    PARKD_E_UNKNOWN_FLAGS = 34,
    PARKD_E_VERSION_MISMATCH = 35,
    PARKD_E_TOO_MANY_FDS = 36,
    PARKD_E_FD_KIND_REFUSED = 37,
    PARKD_E_RING_INDEX = 38,
    PARKD_E_CREDIT_EXCEEDED = 39,
    PARKD_E_COOKIE_OUT_OF_ORDER = 40,
    PARKD_E_NO_SUCH_LANE = 41,
    PARKD_E_NO_SUCH_PLAN = 42,
    PARKD_E_NO_SUCH_DEVICE = 43,
    PARKD_E_NO_SUCH_TICKET = 44,
    PARKD_E_LIMIT_EXCEEDED = 45,
    PARKD_E_QUOTA_EXCEEDED = 46,
    PARKD_E_PERMISSION_DENIED = 47,
    PARKD_E_NOT_GREETED = 48,
    PARKD_E_HELLO_TIMEOUT = 49,
    PARKD_E_SLOW_READER = 50,
    PARKD_E_CONFIG_INVALID = 51,
    PARKD_E_SOCKET_IN_USE = 52,
    PARKD_E_SOCKET_UNAVAILABLE = 53,
    PARKD_E_CPU_UNAVAILABLE = 54,
    PARKD_E_GROUP_MISSING = 55,
    PARKD_E_PRIVILEGE_MISSING = 56,
    PARKD_E_SYSTEM_FAILED = 57,
    PARKD_E_SESSION_MEMORY = 58,
    PARKD_E_DEADLINE_EXPIRED = 59,
    PARKD_E_PRODUCER_FAILED = 60,
    PARKD_E_DISCONNECTED = 61,
    PARKD_E_NO_FREE_LANE = 62,
    PARKD_E_PIDFD_UNAVAILABLE = 63,
    PARKD_E_NOT_SUPPORTED = 64,
    PARKD_E_FORKED = 65,
    PARKD_E_CANCELLED = 66,
    PARKD_E_PRODUCER_DIED = 67,
    PARKD_E_INVALID_ARGUMENT = 68,
    PARKD_E_QUARANTINED = 69,
    PARKD_E_DRAINING = 70,
    PARKD_E_NOT_OPERATOR = 71,
    PARKD_E_BELL_FALLBACK = 72,
    PARKD_E_NO_SUCH_CAPABILITY = 73,
    PARKD_E_NOT_OWNER = 74,
    PARKD_E_LANE_REVOKED = 75,
    PARKD_E_RATE_EXCEEDED = 76,
    PARKD_E_CONFIG_UNREADABLE = 77
};

/*
 * Connects to the daemon whose socket is at path; for NULL, to the one that the environment
 * variable PARKD_SOCKET names, else to /run/parkd/parkd.sock. May block for as long as a daemon
 * takes to answer, at most about ten seconds. The caller closes *session with parkd_close.
 *
 * Errors: PARKD_E_SOCKET_UNAVAILABLE where no daemon listens there; the daemon's refusals:
 * PARKD_E_PERMISSION_DENIED, PARKD_E_QUOTA_EXCEEDED, PARKD_E_LIMIT_EXCEEDED,
 * PARKD_E_VERSION_MISMATCH; PARKD_E_DISCONNECTED where it went away or stayed silent;
 * PARKD_E_BAD_MESSAGE, PARKD_E_SESSION_MEMORY where what it sent makes no sense.
 * Threads: any.
 */
int parkd_connect(const char *path, struct parkd_session **session);

/*
 * Gives a session's handle back. The connection ends once the handles of its lanes and tickets
 * have been given back too. Does not block.
 *
 * Threads: any, the last to use the handle.
 */
void parkd_close(struct parkd_session *session);

/*
 * Opens a lane of the device that is there where none is configured, 64 bits wide. Its number goes
 * on from what a former owner of the word left: count from parkd_lane_value. Blocks until the
 * daemon has answered. The caller frees *lane with parkd_lane_free.
 *
 * Errors: PARKD_E_NO_FREE_LANE, PARKD_E_NO_SUCH_DEVICE where the daemon's configuration has
 * other devices only, PARKD_E_FORKED, PARKD_E_DISCONNECTED.
 * Threads: any number with one session at a time.
 */
int parkd_lane(const struct parkd_session *session, struct parkd_lane **lane);

/*
 * Stores a number, as a device does: what this thread wrote before is visible to whoever sees the
 * number, and nobody is told. Numbers rise: the producer's stores must not go back. Never blocks.
 *
 * Errors: none of its own.
 * Threads: any number with one lane at a time; a lane has one producer, though.
 */
int parkd_lane_store(const struct parkd_lane *lane, uint64_t number);

/*
 * Reads a lane's number: what its producer wrote before it is visible then. Never blocks.
 *
 * Errors: none of its own.
 * Threads: any number with one lane at a time.
 */
int parkd_lane_value(const struct parkd_lane *lane, uint64_t *value);

/*
 * Gives a lane's handle back. Its tickets go on; the lane is closed after the last of them was
 * given back, at the latest when the session opens another one. Does not block.
 *
 * Threads: any, the last to use the handle.
 */
void parkd_lane_free(struct parkd_lane *lane);

/*
 * Submits a ticket that ends when the lane has reached target, or at deadline_ns (0: never), and
 * never blocks. No system call is made while the daemon is awake, and the daemon is not needed
 * where the target is reached already. The caller frees *ticket with parkd_ticket_free.
 *
 * Errors: PARKD_E_CREDIT_EXCEEDED where too many tickets are outstanding or their ends unread,
 * PARKD_E_FORKED, PARKD_E_DISCONNECTED. (What the daemon refuses ends with PARKD_REFUSED.)
 * Threads: any number with one lane at a time.
 */
int parkd_submit(const struct parkd_lane *lane, uint64_t target, uint64_t deadline_ns,
                 struct parkd_ticket **ticket);

/*
 * Waits until a ticket has ended, for at most timeout_ns: 0 only looks and never blocks,
 * PARKD_FOREVER waits as long as it takes. *completion is PARKD_PENDING where that passed first,
 * or where the call fails: the ticket can be waited for again. One that has ended answers the same
 * completion to every call.
 *
 * Errors: PARKD_E_DISCONNECTED where the session ended first, PARKD_E_FORKED.
 * Threads: any, one at a time with one ticket. Threads may wait for different tickets at once.
 */
int parkd_wait(struct parkd_ticket *ticket, uint64_t timeout_ns,
               struct parkd_completion *completion);

/*
 * Asks the daemon to end a ticket with PARKD_CANCELLED. It still ends once, maybe otherwise: the
 * number may be reached first. Nothing happens to one that has ended. Never blocks.
 *
 * Errors: PARKD_E_FORKED, PARKD_E_DISCONNECTED.
 * Threads: any, one at a time with one ticket: not while another waits for it.
 */
int parkd_cancel(const struct parkd_ticket *ticket);

/*
 * Gives a ticket back, and cancels it where it is outstanding. Does not block.
 *
 * Threads: any, the last to use the handle.
 */
void parkd_ticket_free(struct parkd_ticket *ticket);

/*
 * What an error's number means and what to do about it, in a sentence or two; for numbers that
 * this version does not know, and for 0, that. Never NULL; valid as long as the library is loaded.
 *
 * Threads: any.
 */
const char *parkd_error_text(int code);

/*
 * What this thread's last call that failed has to say: what was wrong and where. Never NULL; ""
 * where none failed yet. Valid until the thread's next call that fails, or its end.
 *
 * Threads: each has a text of its own.
 */
const char *parkd_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
