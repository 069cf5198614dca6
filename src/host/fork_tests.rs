use super::*;

/// What a child forked here thinks of `home`.
fn child_is_here(home: &Home) -> bool {
    // SAFETY: the child of this possibly threaded process only loads a word or asks for its pid,
    // and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let here = home.is_here();
        // SAFETY: _exit may always be called.
        unsafe { libc::_exit(i32::from(here)) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child and writes one int.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
    libc::WEXITSTATUS(status) == 1
}

#[test]
fn a_child_is_told_from_its_parent() {
    let home = Home::here();
    assert!(home.page.is_some(), "this kernel wipes pages on fork");
    assert!(home.is_here());
    assert!(!child_is_here(&home));
    assert!(home.is_here(), "the parent's page stays");
}

#[test]
fn without_the_page_the_pid_tells() {
    let home = Home { page: None, ..Home::here() };
    assert!(home.is_here());
    assert!(!child_is_here(&home));
}
