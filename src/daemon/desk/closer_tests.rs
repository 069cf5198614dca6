use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// The reading end of a pipe, and the writing end, whose close the former sees.
fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().unwrap()
}

fn closed(read: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(read, PollFlags::IN)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut fds, Some(&patience)).unwrap();
    fds[0].revents().contains(PollFlags::HUP)
}

/// A socket whose close lasts until the other end is read or closed.
fn lingering() -> (std::net::TcpStream, OwnedFd) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&near, Some(Duration::from_secs(600))).unwrap();
    near.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut &near, &[0; 65_536]).is_ok() {}
    (far, near.into())
}

#[test]
fn what_blocks_holds_up_nothing_else() {
    let closer = Closer::default();
    let mut blocking = Vec::new();
    for round in 0..8 {
        let (far, near) = lingering();
        closer.close(1, vec![near]);
        blocking.push(far);
        let (read, write) = pipe();
        closer.close(2, vec![write]);
        assert!(closed(&read), "behind {round} that block");
    }
    assert_eq!(closer.lock().closing.get(&1), Some(&8), "they are still being closed");
    drop(blocking);
    let end = Instant::now() + Duration::from_secs(20);
    while closer.lock().threads > IDLE || !closer.lock().closing.is_empty() {
        assert!(Instant::now() < end, "the threads go on");
        std::thread::yield_now();
    }
}

#[test]
fn a_user_who_leaves_too_much_to_close_is_refused() {
    let closer = Closer::default();
    closer.lock().closing.insert(7, CLOSING_PER_UID_MAX);
    let error = closer.check(7).unwrap_err();
    assert_eq!(error.code, ErrorCode::QuotaExceeded);
    let remedy = "at most CLOSING_PER_UID_MAX, which is 64 (send only eventfds, ";
    assert!(error.detail.contains(remedy), "{error}");
    assert_eq!(closer.check(8), Ok(()));
    closer.lock().closed(7);
    assert_eq!(closer.check(7), Ok(()));
}

#[test]
fn strangers_that_are_not_taken_are_closed() {
    let closer = Closer::default();
    let ((read, write), (kept, other)) = (pipe(), pipe());
    drop(Strangers::new(vec![write], 1, closer.clone()));
    assert!(closed(&read));
    let strangers = Strangers::new(vec![other], 1, closer.clone());
    assert_eq!(strangers.as_slice().len(), 1);
    let taken = strangers.take();
    let mut fds = [PollFd::new(&kept, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
    assert!(taken[0].as_fd().try_clone_to_owned().is_ok());
}
