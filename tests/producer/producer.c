/*
 * A producer that links nothing of parkd: it stores rising numbers into a lane that it was handed
 * as a file descriptor and an offset, one for each line that it reads on its stdin, and answers
 * each with a line. It follows docs/PROTOCOL.md and includes nothing but the system's headers.
 *
 *     producer WIDTH FIRST LANES_FD LANE_OFFSET [STATUS_FD BELL_OFFSET [BELL_EVENTFD]]
 *
 * Without a status page it stores silently, as a device does. With one it rings the bell behind
 * each store, and wakes the daemon if it is parked: by a futex wake, or by the eventfd.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the status page says that the daemon sleeps or is about to. */
#define STATUS_PARKED 128

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static char *map(const char *fd_text, int prot)
{
    int fd = atoi(fd_text);
    struct stat file;
    if (fstat(fd, &file) != 0)
        die("fstat");
    char *memory = mmap(NULL, (size_t)file.st_size, prot, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    return memory;
}

struct bell {
    _Atomic uint32_t *count;
    _Atomic uint32_t *parked;
    int eventfd; /* -1: the count is a futex */
};

/* What it is about has been stored before. */
static void ring(const struct bell *bell)
{
    atomic_fetch_add_explicit(bell->count, 1, memory_order_release);
    /* Either the daemon sees the count before it sleeps, or this sees that it is parked. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(bell->parked, memory_order_relaxed) == 0)
        return;
    if (bell->eventfd >= 0) {
        uint64_t one = 1;
        if (write(bell->eventfd, &one, sizeof one) != sizeof one)
            die("write");
    } else if (syscall(SYS_futex, bell->count, FUTEX_WAKE, 1, NULL, NULL, 0) < 0) {
        die("futex");
    }
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 7 && argc != 8) {
        fputs("usage: see the head of producer.c\n", stderr);
        return 2;
    }
    int width = atoi(argv[1]);
    uint64_t number = strtoull(argv[2], NULL, 10);
    char *lanes = map(argv[3], PROT_READ | PROT_WRITE);
    char *lane = lanes + strtoull(argv[4], NULL, 10);
    struct bell bell = { NULL, NULL, -1 };
    if (argc > 5) {
        bell.parked = (_Atomic uint32_t *)(map(argv[5], PROT_READ) + STATUS_PARKED);
        bell.count = (_Atomic uint32_t *)(lanes + strtoull(argv[6], NULL, 10));
        if (argc > 7)
            bell.eventfd = atoi(argv[7]);
    }
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n')
            continue;
        if (width == 32)
            atomic_store_explicit((_Atomic uint32_t *)lane, (uint32_t)number,
                          memory_order_release);
        else
            atomic_store_explicit((_Atomic uint64_t *)lane, number,
                          memory_order_release);
        if (bell.count)
            ring(&bell);
        printf("%llu\n", (unsigned long long)number);
        fflush(stdout);
        number++;
    }
    return 0;
}
