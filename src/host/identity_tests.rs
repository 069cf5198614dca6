//! Peers and groups of this process and this machine.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::*;

#[test]
fn the_peer_of_a_pair_is_this_process() {
    let (here, _there) = UnixStream::pair().unwrap();
    let peer = Peer::of(here.as_fd()).unwrap();
    assert_eq!(peer.pid, Some(std::process::id() as i32));
    assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    assert_eq!(peer.gid, rustix::process::getegid().as_raw());
    let own: Vec<u32> =
        rustix::process::getgroups().unwrap().into_iter().map(|gid| gid.as_raw()).collect();
    assert_eq!(peer.groups, own);
}

#[test]
fn what_is_no_socket_has_no_peer() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let error = Peer::of(file.as_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
}

#[test]
fn groups_are_found_by_name() {
    assert_eq!(group_id("root").unwrap(), Some(0));
    assert_eq!(group_id("no-group-is-called-so").unwrap(), None);
    assert!(group_id("a\0b").is_err());
}
