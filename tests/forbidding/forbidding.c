// Runs a program on a machine that forbids it io_uring, as containers and services may.
//
// forbidding seccomp|memlock|unprivileged PROGRAM ARGS...
//   seccomp       io_uring_setup fails with EPERM
//   memlock       no memory may be locked, and no capability lifts that
//   unprivileged  without CAP_SYS_ADMIN
//
// Ends with status 77 and a reason on stderr where this machine cannot be made so.
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CANNOT = 77 };

static int cannot(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return CANNOT;
}

static int filter(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = { sizeof program / sizeof program[0], program };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return cannot("PR_SET_NO_NEW_PRIVS");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) < 0) return cannot("PR_SET_SECCOMP");
    return 0;
}

// Root gets at an exec what the bounding set has; others keep what is ambient, which goes as well.
static int drop(int capability) {
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 && geteuid() == 0 &&
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
        return cannot("PR_CAPBSET_DROP");
    return 0;
}

static int lock_nothing(void) {
    struct rlimit none = { 0, 0 };
    if (setrlimit(RLIMIT_MEMLOCK, &none) < 0) return cannot("RLIMIT_MEMLOCK");
    return drop(CAP_IPC_LOCK);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: forbidding seccomp|memlock|unprivileged PROGRAM ARGS...\n", stderr);
        return 2;
    }
    int status = 2;
    if (!strcmp(argv[1], "seccomp")) status = filter();
    if (!strcmp(argv[1], "memlock")) status = lock_nothing();
    if (!strcmp(argv[1], "unprivileged")) status = drop(CAP_SYS_ADMIN);
    if (status) return status;
    execv(argv[2], argv + 2);
    return cannot(argv[2]);
}
