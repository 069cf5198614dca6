//! Other users: what a process of another uid may do, tried by a thread that has become one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A uid and gid that nobody has.
pub const STRANGER: u32 = 54_321;

/// Why no thread can become another user here, where none can.
pub fn unavailable() -> Option<&'static str> {
    (!geteuid().is_root()).then_some("only root can become another user")
}

/// Runs `work` as the user and group of this number, without other groups. The kernel keeps that
/// by thread: the rest of the program stays what it is.
pub fn being<T: Send>(number: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
            set_thread_groups(&[]).expect("no groups");
            set_thread_res_gid(gid, gid, gid).expect("another group");
            set_thread_res_uid(uid, uid, uid).expect("another user");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Opens a daemon's socket to everybody, so that only `[allow]` keeps strangers out.
pub fn open_to_all(socket: &Path) {
    let mode = |mode| fs::Permissions::from_mode(mode);
    let folder = socket.parent().expect("the socket's folder");
    fs::set_permissions(folder, mode(0o755)).expect("the folder's mode");
    fs::set_permissions(socket, mode(0o666)).expect("the socket's mode");
}
