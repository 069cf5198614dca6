//! The fd store of a service: what FileDescriptorStoreMax= is about.
//!
//! What always holds: no fd of it has hung up when it was last looked at, two fds of it are never
//! the same file, and there are no more than its limit.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// What an fd is called that came without a name, or with one that cannot be passed on.
const NAMELESS: &str = "stored";

/// Bytes of a name at most.
const NAME_BYTES_MAX: usize = 255;

/// An fd and its name.
#[derive(Debug)]
struct Held {
    name: String,
    fd: Arc<OwnedFd>,
    what: String,
}

/// See the file's head.
#[derive(Debug)]
pub struct Store {
    max: usize,
    /// The one that came last is first.
    held: Vec<Held>,
}

/// Whether the name can stand in LISTEN_FDNAMES.
pub fn may_be_named(name: &str) -> bool {
    let printable = |c: char| c.is_ascii() && !c.is_ascii_control() && c != ':';
    name.len() <= NAME_BYTES_MAX && name.chars().all(printable)
}

/// What the fd leads to: the same text for two fds of the same file. Eventfds share an inode; their
/// own numbers tell them apart.
fn what(fd: &OwnedFd) -> String {
    let status = rustix::fs::fstat(fd).expect("fstat");
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
    let info = info.expect("fdinfo");
    let own = info.lines().find(|line| line.starts_with("eventfd-id:")).unwrap_or_default();
    format!("{}:{} {own}", status.st_dev, status.st_ino)
}

impl Store {
    /// An empty one for at most so many fds.
    pub fn new(max: usize) -> Store {
        Store { max, held: Vec::new() }
    }

    /// Takes fds in; answers what is to be complained of. One that is there already is closed.
    pub fn add(&mut self, name: Option<&str>, fds: Vec<OwnedFd>) -> Vec<String> {
        let mut complaints = Vec::new();
        let name = name.unwrap_or(NAMELESS);
        let name = if may_be_named(name) {
            name
        } else {
            complaints.push(format!("FDNAME={name}: not a name"));
            NAMELESS
        };
        for fd in fds {
            let what = what(&fd);
            if self.held.len() >= self.max {
                complaints.push(format!("{name}: the store is full, {} fds", self.max));
            } else if let Some(same) = self.held.iter().find(|held| held.what == what) {
                complaints.push(format!("{name}: is there already, as {}", same.name));
            } else {
                self.held.insert(0, Held { name: name.to_owned(), fd: Arc::new(fd), what });
            }
        }
        complaints
    }

    /// Lets go of all fds of this name.
    pub fn remove(&mut self, name: &str) {
        self.held.retain(|held| held.name != name);
    }

    /// All fds, to be looked at while the store is not.
    pub fn fds(&self) -> Vec<Arc<OwnedFd>> {
        self.held.iter().map(|held| held.fd.clone()).collect()
    }

    /// Lets go of an fd that has hung up.
    pub fn hung_up(&mut self, fd: &Arc<OwnedFd>) {
        self.held.retain(|held| !Arc::ptr_eq(&held.fd, fd));
    }

    /// Copies of all, with their names.
    pub fn copies(&self) -> Vec<(String, OwnedFd)> {
        let copy = |held: &Held| (held.name.clone(), duplicate(&held.fd));
        self.held.iter().map(copy).collect()
    }
}

/// A second fd of the same file.
pub fn duplicate(fd: &OwnedFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().expect("a copy of an fd")
}
