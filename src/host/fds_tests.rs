use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::getpid;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use super::*;

#[test]
fn allowed_kinds_are_known() {
    let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    assert_eq!(classify(bell.as_fd()), Ok(FdKind::Eventfd));
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
    assert_eq!(classify(timer.as_fd()), Ok(FdKind::Timerfd));
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    assert_eq!(classify(process.as_fd()), Ok(FdKind::Pidfd));
}

#[test]
fn names_of_other_releases_are_known() {
    for (name, kind) in [
        ("anon_inode:[pidfd]", Some(FdKind::Pidfd)),
        ("pidfd:[4711]", Some(FdKind::Pidfd)),
        ("anon_inode:sync_file", Some(FdKind::SyncFile)),
        ("pidfd:[]", None),
        ("pidfd:[x]", None),
        ("/tmp/anon_inode:[eventfd]", None),
        ("/anon_inode:[eventfd]", None),
        ("anon_inode:[eventfd] (deleted)", None),
        ("anon_inode:[eventpoll]", None),
        ("socket:[4711]", None),
        ("", None),
    ] {
        assert_eq!(kind_of_name(name), kind, "{name}");
    }
}

#[test]
fn all_else_is_refused_by_name_and_code() {
    let dir = std::env::temp_dir();
    let (socket, _other) = UnixStream::pair().unwrap();
    let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let refused = |fd: BorrowedFd<'_>, name: &str| {
        let error = classify(fd).unwrap_err();
        assert_eq!(error.code, ErrorCode::FdKindRefused);
        let start = format!("fd {} is {name}: only", fd.as_raw_fd());
        assert!(error.detail.starts_with(&start), "{}", error.detail);
    };
    refused(socket.as_fd(), "socket");
    refused(epoll.as_fd(), "eventpoll");
    refused(File::open(dir).unwrap().as_fd(), "a file");
    let memory = memfd_create("anon_inode:[eventfd]", MemfdFlags::CLOEXEC).unwrap();
    refused(memory.as_fd(), "a memfd");
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    refused(pipe.as_fd(), "pipe");
}

#[test]
fn status_is_asked_of_sync_files_only() {
    let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let error = sync_file_status(bell.as_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
}

#[test]
fn a_peers_pidfd_is_its_process() {
    let (socket, _other) = UnixStream::pair().unwrap();
    let pidfd = pidfd_of_peer(socket.as_fd()).unwrap();
    assert_eq!(classify(pidfd.as_fd()), Ok(FdKind::Pidfd));
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap();
    let pid = format!("Pid:\t{}", std::process::id());
    assert!(info.lines().any(|line| line == pid), "{info}");
    let unconnected = UnixDatagram::unbound().unwrap();
    assert!(pidfd_of_peer(unconnected.as_fd()).is_err());
}

#[test]
fn the_soft_limit_reaches_the_hard_one() {
    let raised = raise_nofile().unwrap();
    assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), raised);
    assert_eq!(getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX), raised);
}
