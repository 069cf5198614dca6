//! A FUSE file system of one file, whose server answers no FLUSH until it is told to, and no POLL
//! ever: closing that file blocks. The protocol is the kernel's (linux/fuse.h), by hand.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const POLL: u32 = 40;
const BATCH_FORGET: u32 = 42;

const NO_SUCH_CALL: i32 = -38;
const FILE_NODE: u64 = 2;

/// What the server shares with its test.
#[derive(Default)]
struct Shared {
    answers: AtomicBool,
    flushes: AtomicUsize,
    /// FLUSHes that wait for their answer.
    waiting: Mutex<Vec<u64>>,
}

/// The mounted file system. It is mounted nowhere, so that it is gone when this goes, or its
/// process.
pub struct Mount {
    root: OwnedFd,
    device: File,
    shared: Arc<Shared>,
    kept: Vec<OwnedFd>,
}

impl Mount {
    /// Mounts it, or says why that cannot be.
    pub fn new() -> Result<Mount, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let root = detached(&device)
            .map_err(|errno| format!("a FUSE file system cannot be mounted: {errno}"))?;
        let shared = Arc::new(Shared::default());
        let mut server = device.try_clone().expect("a duplicate");
        let of_server = shared.clone();
        std::thread::spawn(move || serve(&mut server, &of_server));
        Ok(Mount { root, device, shared, kept: Vec::new() })
    }

    /// Its file, opened.
    pub fn open(&self) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(&self.root, "file", flags, Mode::empty()).expect("the file")
    }

    /// Keeps a file until its close ends at once.
    pub fn keep(&mut self, file: OwnedFd) {
        self.kept.push(file);
    }

    /// How often somebody has begun to close the file.
    pub fn flushes(&self) -> usize {
        self.shared.flushes.load(Ordering::Relaxed)
    }

    /// Answers every FLUSH from now on, and those that wait.
    pub fn answer(&self) {
        let mut waiting = self.shared.waiting.lock().expect("the server's list");
        self.shared.answers.store(true, Ordering::Relaxed);
        for unique in waiting.drain(..) {
            reply(&self.device, unique, 0, &[]);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.answer();
        self.kept.clear();
    }
}

/// The root of a file system that is mounted nowhere.
fn detached(device: &File) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let fd = device.as_raw_fd().to_string();
    let options = [("fd", &*fd), ("rootmode", "40000"), ("user_id", "0"), ("group_id", "0")];
    for (key, value) in options {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID)
}

/// Sends an answer; the kernel may not want it any more.
fn reply(device: &File, unique: u64, error: i32, body: &[u8]) {
    let mut record = Vec::from(((16 + body.len()) as u32).to_le_bytes());
    record.extend(error.to_le_bytes());
    record.extend(unique.to_le_bytes());
    record.extend(body);
    let _ = (&mut &*device).write_all(&record);
}

/// struct fuse_attr of a node.
fn attributes(node: u64) -> Vec<u8> {
    let mut bytes = [node, 0, 0, 0, 0, 0].map(u64::to_le_bytes).concat();
    let mode: u32 = if node == FILE_NODE { 0o100_644 } else { 0o040_755 };
    bytes.extend([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].map(u32::to_le_bytes).concat());
    bytes
}

/// Serves until the file system is gone.
fn serve(device: &mut File, shared: &Shared) {
    let mut request = vec![0; 1 << 17];
    while let Ok(bytes) = device.read(&mut request) {
        if bytes < 40 {
            return;
        }
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(request[at..at + 8].try_into().expect("eight"));
        let (opcode, unique, node) = (word(4), long(8), long(16));
        match opcode {
            INIT => {
                let mut body = [7, 31, 0, 0].map(u32::to_le_bytes).concat();
                body.extend([16, 12].map(u16::to_le_bytes).concat());
                body.extend([4096, 1].map(u32::to_le_bytes).concat());
                body.resize(64, 0);
                reply(device, unique, 0, &body);
            }
            LOOKUP => {
                let mut body = [FILE_NODE, 0, 60, 60, 0].map(u64::to_le_bytes).concat();
                body.extend(attributes(FILE_NODE));
                reply(device, unique, 0, &body);
            }
            GETATTR => {
                let mut body = [60, 0].map(u64::to_le_bytes).concat();
                body.extend(attributes(node));
                reply(device, unique, 0, &body);
            }
            OPEN => reply(device, unique, 0, &[0; 16]),
            RELEASE => reply(device, unique, 0, &[]),
            FLUSH => {
                let mut waiting = shared.waiting.lock().expect("the test's list");
                shared.flushes.fetch_add(1, Ordering::Relaxed);
                match shared.answers.load(Ordering::Relaxed) {
                    true => reply(device, unique, 0, &[]),
                    false => waiting.push(unique),
                }
            }
            FORGET | BATCH_FORGET | INTERRUPT | POLL => {}
            _ => reply(device, unique, NO_SUCH_CALL, &[]),
        }
    }
}
