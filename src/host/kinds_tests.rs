//! The kinds on a machine that forbids some of them: each test runs on a thread of its own, under
//! a seccomp filter as a container's.

use super::*;

/// Makes these system calls fail with EPERM for the calling thread, for good.
fn forbid(calls: &[libc::c_long]) {
    let op = |code: u32, k: u32, jt| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let (load, equal, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    // Loads the call's number; each call on the list jumps over the others and the allowance.
    let mut program = vec![op(load, 0, 0)];
    for (n, &call) in calls.iter().enumerate() {
        program.push(op(equal, call as u32, (calls.len() - n) as u8));
    }
    program.push(op(end, libc::SECCOMP_RET_ALLOW, 0));
    program.push(op(end, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: the program lives through the call, and the kernel copies it.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn on_a_machine_without<T: Send>(calls: &[libc::c_long], test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            forbid(calls);
            test()
        });
        run.join().unwrap()
    })
}

#[test]
fn every_kind_can_be_asked_for() {
    for (label, _) in CHAIN {
        let resolved = resolve(label, true).unwrap();
        assert_eq!((resolved.running, resolved.fallback), (label, None));
    }
    let error = resolve("epoll", false).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidExecutor);
    assert_eq!(error.detail, "executor: epoll is none of io-uring, gpu-reactor, naive");
}

#[test]
fn hosts_are_of_the_kind_that_was_resolved() {
    fn label<H: FillHost>(_host: &H) -> &'static str {
        H::LABEL
    }
    assert_eq!(label(&io_uring().unwrap()), IO_URING);
    assert_eq!(label(&gpu_reactor().unwrap()), GPU_REACTOR);
    assert_eq!(label(&naive().unwrap()), NAIVE);
    assert!(watches_words(IO_URING) && watches_words(NAIVE));
    assert!(!watches_words(GPU_REACTOR) && !watches_words("epoll"));
}

#[test]
fn a_seccomp_filter_against_io_uring_is_named_and_fallen_back_from() {
    on_a_machine_without(&[libc::SYS_io_uring_setup], || {
        let resolved = resolve(IO_URING, false).unwrap();
        assert_eq!(resolved.running, GPU_REACTOR);
        let warning = resolved.warning().unwrap();
        assert_eq!(warning.code, ErrorCode::ExecutorFallback);
        assert_eq!(
            warning.detail,
            "executor: io-uring is not available (a seccomp filter forbids io_uring), \
             gpu-reactor is used"
        );
        let error = resolve(IO_URING, true).unwrap_err();
        assert_eq!(error.code, ErrorCode::ExecutorRefused);
        assert_eq!(io_uring().err().unwrap().code, ErrorCode::ExecutorRefused);
        gpu_reactor().unwrap();
    });
}

/// Where only the enter call is forbidden the ring can be made, but does nothing.
#[test]
fn a_ring_that_cannot_be_entered_is_not_available() {
    on_a_machine_without(&[libc::SYS_io_uring_enter], || {
        assert_eq!(resolve(IO_URING, false).unwrap().running, GPU_REACTOR);
    });
}

#[test]
fn the_naive_host_needs_neither() {
    on_a_machine_without(&[libc::SYS_io_uring_setup, libc::SYS_epoll_pwait2], || {
        let resolved = resolve(IO_URING, false).unwrap();
        assert_eq!(resolved.running, NAIVE);
        crate::host::fill::tests::suite(|| naive().unwrap());
    });
}

#[test]
fn a_machine_on_which_a_client_can_block_a_write_is_named() {
    assert_eq!(exposed(IO_URING), None);
    on_a_machine_without(&[libc::SYS_io_setup], || {
        assert_eq!(exposed(IO_URING), None);
        let warning = exposed(NAIVE).unwrap();
        assert_eq!(warning.code, ErrorCode::PrivilegeMissing);
        assert!(warning.detail.starts_with("io_setup: "), "{warning}");
        crate::host::fill::tests::suite(|| gpu_reactor().unwrap());
    });
}
