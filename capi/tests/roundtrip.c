/*
 * The C ABI as a C program meets it: every function of parkd.h, against the daemon that
 * PARKD_SOCKET names. Exit status 0 where all of it is as the header says; else 1, and the place
 * on standard error.
 */
#define _GNU_SOURCE

#include "parkd.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Long enough for anything that comes at all. */
#define PATIENCE_NS UINT64_C(20000000000)

#define CHECK(what)                                                                              \
    do {                                                                                         \
        if (!(what)) {                                                                           \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #what,            \
                    parkd_last_error());                                                         \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

/* The layout is part of the ABI. */
_Static_assert(sizeof(struct parkd_completion) == 48, "no more");
_Static_assert(offsetof(struct parkd_completion, seen) == 16, "no padding");

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t value_of(const struct parkd_lane *lane)
{
    uint64_t value;

    CHECK(parkd_lane_value(lane, &value) == 0);
    return value;
}

static void refusals(void)
{
    struct parkd_session *session = (void *)&session;
    struct parkd_completion end;
    uint64_t value;

    CHECK(strcmp(parkd_last_error(), "") == 0);
    CHECK(parkd_connect("/nowhere/parkd.sock", &session) == PARKD_E_SOCKET_UNAVAILABLE);
    CHECK(session == NULL);
    CHECK(strstr(parkd_last_error(), "/nowhere/parkd.sock") != NULL);
    CHECK(strstr(parkd_error_text(PARKD_E_SOCKET_UNAVAILABLE), "SocketUnavailable (53)") != NULL);
    CHECK(strcmp(parkd_error_text(0), "no error") == 0);

    CHECK(parkd_connect(NULL, NULL) == PARKD_E_INVALID_ARGUMENT);
    CHECK(strcmp(parkd_last_error(), "InvalidArgument (68): session: a null pointer") == 0);
    CHECK(parkd_lane(NULL, NULL) == PARKD_E_INVALID_ARGUMENT);
    CHECK(parkd_lane_store(NULL, 1) == PARKD_E_INVALID_ARGUMENT);
    CHECK(parkd_lane_value(NULL, &value) == PARKD_E_INVALID_ARGUMENT);
    CHECK(parkd_submit(NULL, 1, 0, NULL) == PARKD_E_INVALID_ARGUMENT);
    CHECK(parkd_wait(NULL, 0, &end) == PARKD_E_INVALID_ARGUMENT);
    CHECK(parkd_cancel(NULL) == PARKD_E_INVALID_ARGUMENT);
    parkd_ticket_free(NULL);
    parkd_lane_free(NULL);
    parkd_close(NULL);
}

/* What has landed needs no daemon. */
static void landed(const struct parkd_lane *lane)
{
    struct parkd_ticket *ticket;
    struct parkd_completion end, again;
    uint64_t target = value_of(lane) + 1, before = now_ns();

    CHECK(parkd_lane_store(lane, target) == 0);
    CHECK(value_of(lane) == target);
    CHECK(parkd_submit(lane, target, 0, &ticket) == 0);
    CHECK(parkd_wait(ticket, 0, &end) == 0);
    CHECK(end.status == PARKD_DONE && end.waited == PARKD_IMMEDIATE);
    CHECK(end.code == 0 && end.reserved == 0 && end.seen == target);
    CHECK(before <= end.submitted_ns && end.submitted_ns == end.published_ns);
    CHECK(parkd_cancel(ticket) == 0);
    CHECK(parkd_wait(ticket, PARKD_FOREVER, &again) == 0);
    CHECK(memcmp(&end, &again, sizeof(end)) == 0);
    parkd_ticket_free(ticket);
}

struct waiter {
    struct parkd_ticket *ticket;
    struct parkd_completion end;
    int result;
    long tid; /* 0 until it runs */
};

static void *wait_forever(void *of)
{
    struct waiter *waiter = of;

    __atomic_store_n(&waiter->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
    waiter->result = parkd_wait(waiter->ticket, PARKD_FOREVER, &waiter->end);
    return NULL;
}

static int sleeps(long tid)
{
    char path[64], state = '?';
    FILE *stat;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", tid);
    stat = fopen(path, "r");
    CHECK(stat != NULL);
    CHECK(fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
    fclose(stat);
    return state == 'S';
}

/* The daemon takes tickets in order: once a later one has ended, it has all of them. */
static void taken_by_the_daemon(const struct parkd_lane *lane)
{
    struct parkd_ticket *ticket;
    struct parkd_completion end;

    CHECK(parkd_submit(lane, value_of(lane) + 1000, now_ns() + 1000000, &ticket) == 0);
    CHECK(parkd_wait(ticket, PATIENCE_NS, &end) == 0);
    CHECK(end.status == PARKD_DEADLINE_EXPIRED && end.waited == PARKD_NOT_FOUND);
    parkd_ticket_free(ticket);
}

/* A number that is stored once its waiter sleeps is found by the daemon and nobody else. */
static void found_by_the_daemon(const struct parkd_lane *lane)
{
    struct parkd_completion end;
    struct waiter waiter = { 0 };
    uint64_t target = value_of(lane) + 1, give_up = now_ns() + PATIENCE_NS;
    pthread_t thread;
    long tid;

    CHECK(parkd_submit(lane, target, 0, &waiter.ticket) == 0);
    CHECK(parkd_wait(waiter.ticket, 0, &end) == 0 && end.status == PARKD_PENDING);
    CHECK(parkd_wait(waiter.ticket, 1000, &end) == 0 && end.status == PARKD_PENDING);
    taken_by_the_daemon(lane);
    CHECK(pthread_create(&thread, NULL, wait_forever, &waiter) == 0);
    while ((tid = __atomic_load_n(&waiter.tid, __ATOMIC_ACQUIRE)) == 0 || !sleeps(tid))
        CHECK(now_ns() < give_up && sched_yield() == 0);
    CHECK(parkd_lane_store(lane, target) == 0);
    CHECK(pthread_join(thread, NULL) == 0);

    end = waiter.end;
    CHECK(waiter.result == 0 && end.status == PARKD_DONE && end.seen == target);
    CHECK(end.waited == PARKD_LATE || end.waited == PARKD_PARKED);
    CHECK(0 < end.submitted_ns && end.submitted_ns < end.detected_ns);
    CHECK(end.detected_ns <= end.published_ns && end.published_ns <= now_ns());
    parkd_ticket_free(waiter.ticket);
}

/* A ticket can be taken back. */
static void cancelled(const struct parkd_lane *lane)
{
    struct parkd_ticket *ticket;
    struct parkd_completion end;
    uint64_t never = value_of(lane) + 1000;

    CHECK(parkd_submit(lane, never, 0, &ticket) == 0);
    CHECK(parkd_cancel(ticket) == 0);
    CHECK(parkd_wait(ticket, PATIENCE_NS, &end) == 0);
    CHECK(end.status == PARKD_CANCELLED);
    parkd_ticket_free(ticket);

    /* One that is given back while it is outstanding ends unseen. */
    CHECK(parkd_submit(lane, never, 0, &ticket) == 0);
    parkd_ticket_free(ticket);
}

/* A child has its parent's memory, not its session. */
static void forked(const struct parkd_lane *lane)
{
    struct parkd_ticket *ticket;
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        int code = parkd_submit(lane, value_of(lane) + 1, 0, &ticket);

        _exit(code == PARKD_E_FORKED && ticket == NULL ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Handles are given back in any order: each keeps what it stands on. */
static void last_handle_ends(struct parkd_session *session, struct parkd_lane *lane)
{
    struct parkd_ticket *ticket;
    struct parkd_completion end;

    CHECK(parkd_submit(lane, value_of(lane) + 1000, now_ns() + 1000000, &ticket) == 0);
    parkd_close(session);
    parkd_lane_free(lane);
    CHECK(parkd_wait(ticket, PATIENCE_NS, &end) == 0);
    CHECK(end.status == PARKD_DEADLINE_EXPIRED);
    parkd_ticket_free(ticket);
}

int main(void)
{
    struct parkd_session *session;
    struct parkd_lane *lane, *other;

    refusals();
    CHECK(parkd_connect(getenv("PARKD_SOCKET"), &session) == 0);
    parkd_close(session);
    CHECK(parkd_connect(NULL, &session) == 0);
    CHECK(parkd_lane(session, &other) == 0);
    CHECK(parkd_lane(session, &lane) == 0);
    landed(lane);
    found_by_the_daemon(lane);
    cancelled(lane);
    landed(other);
    parkd_lane_free(other);
    forked(lane);
    found_by_the_daemon(lane);
    last_handle_ends(session, lane);
    return 0;
}
