//! Eventfds of peers, without io_uring.
//!
//! A peer holds the same open file as the daemon does, so it can clear O_NONBLOCK and fill the
//! counter, between our look and our write if it likes: then a write blocks. What never blocks is
//! the kernel's own signal at the end of an asynchronous read (io_submit with IOCB_FLAG_RESFD): it
//! adds 1, or nothing where nothing fits. So to *ring* is to look for room, and then to read
//! nothing (/dev/null) with the peer's eventfd as the one to signal.
//!
//! Where asynchronous reads cannot be had ([`Ringer::probe`] says why) a ring is a look and a
//! write, with that window between them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use rustix::fs::{Mode, OFlags};

/// Reads that may wait to be reaped. The kernel makes room for as many and more.
const UNREAPED_MAX: u32 = 32;

/// IOCB_CMD_PREAD of the kernel's aio_abi.h.
const READ: u16 = 0;

/// IOCB_FLAG_RESFD of the kernel's aio_abi.h.
const SIGNAL_EVENTFD: u32 = 1;

/// Rings eventfds of peers. Made on the thread that uses it.
pub(crate) struct Ringer {
    reads: Option<Reads>,
}

impl Ringer {
    /// One that never blocks, where that can be had.
    pub(crate) fn new() -> Ringer {
        Ringer { reads: Reads::new().ok() }
    }

    /// Whether one that never blocks can be had.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn probe() -> io::Result<()> {
        Reads::new().map(drop)
    }

    /// Adds 1 to the counter: 8, or a negative errno. -EAGAIN: the counter is full, and so
    /// readable.
    pub(crate) fn ring(&mut self, fd: RawFd) -> i32 {
        if !has_room(fd) {
            return why_no_room(fd);
        }
        match &mut self.reads {
            Some(reads) => reads.signal(fd),
            None => write_one(fd),
        }
    }
}

/// Asynchronous reads of nothing.
struct Reads {
    context: libc::c_ulong,
    nothing: OwnedFd,
    unreaped: u32,
}

impl Drop for Reads {
    fn drop(&mut self) {
        let context = self.context;
        let destroy = move || {
            // SAFETY: the context is ours, nobody uses it any more, and every read in it is over:
            // none outlives its submission.
            unsafe { libc::syscall(libc::SYS_io_destroy, context) };
        };
        // The kernel takes tens of milliseconds for it, which no daemon's start is to wait for.
        let thread = std::thread::Builder::new().name("parkd-destroy".to_owned());
        if thread.spawn(destroy).is_err() {
            destroy();
        }
    }
}

impl Reads {
    fn new() -> io::Result<Reads> {
        let nothing =
            rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut context: libc::c_ulong = 0;
        let at = &raw mut context;
        // SAFETY: the kernel writes one word, which lives through the call and is 0 as it asks.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, UNREAPED_MAX, at) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Reads { context, nothing, unreaped: 0 })
    }

    /// Reads nothing, and has the kernel add 1 to `fd`: 8, or a negative errno.
    fn signal(&mut self, fd: RawFd) -> i32 {
        self.reap();
        // SAFETY: all-zero is a valid value of this plain record of numbers.
        let mut read: libc::iocb = unsafe { MaybeUninit::zeroed().assume_init() };
        read.aio_lio_opcode = READ;
        read.aio_fildes = self.nothing.as_raw_fd() as u32;
        read.aio_flags = SIGNAL_EVENTFD;
        read.aio_resfd = fd as u32;
        let mut list = [&raw mut read];
        let list = list.as_mut_ptr();
        // SAFETY: the kernel copies the one control block, which lives through the call, and reads
        // 0 bytes to address 0.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1_usize, list) };
        if taken == 1 {
            self.unreaped += 1;
            return size_of::<u64>() as i32;
        }
        -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
    }

    /// Takes what is over out of the kernel's list before that is full.
    fn reap(&mut self) {
        if self.unreaped < UNREAPED_MAX {
            return;
        }
        let mut over = [MaybeUninit::<[u64; 4]>::uninit(); UNREAPED_MAX as usize];
        let (least, most, at) = (0_isize, over.len() as isize, over.as_mut_ptr());
        let forever = null_mut::<libc::timespec>();
        let context = self.context;
        // SAFETY: the kernel writes at most `most` records of 32 bytes, which live through the
        // call, and waits for none.
        unsafe { libc::syscall(libc::SYS_io_getevents, context, least, most, at, forever) };
        self.unreaped = 0;
    }
}

/// Whether a write of 1 would find room now. False for what is no open fd.
pub(crate) fn has_room(fd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll(2) reads and writes the one pollfd, which lives through the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready == 1 && poll.revents & libc::POLLOUT != 0
}

fn write_one(fd: RawFd) -> i32 {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: write(2) reads the 8 bytes, which live through the call.
    let result = unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    match io::Error::last_os_error().raw_os_error() {
        _ if result >= 0 => result as i32,
        // Interrupted while it blocked: the counter was full.
        Some(libc::EINTR) | None => -libc::EAGAIN,
        Some(errno) => -errno,
    }
}

fn why_no_room(fd: RawFd) -> i32 {
    // SAFETY: F_GETFD takes no argument and looks at the fd table alone.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 { -libc::EBADF } else { -libc::EAGAIN }
}

#[cfg(test)]
#[path = "eventfd_tests.rs"]
mod tests;
