//! The device's side of the socket: who connects, what they start, and how it ends.
//!
//! A *connection* is one thread that reads START records and answers each; a stream is one more
//! thread. What always holds: a connection's end stops its streams and joins them, and nothing a
//! client sends costs another client anything but the CPU time of its own threads.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};

use super::pages::Pages;
use super::protocol::{FDS_MAX, MESSAGE_BYTES_MAX, Reply, Stream};
use super::stream;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::host::clock;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 256;
/// Streams that run at a time on one connection.
pub const STREAMS_MAX: usize = 64;
const BACKLOG: i32 = 64;

/// A software device that listens.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
}

impl Server {
    /// Listens at `path`, for processes of this user. A socket left there by a dead device is
    /// taken over once a connect has shown that nobody listens.
    ///
    /// # Errors
    /// `SocketInUse` or `SocketUnavailable`.
    pub fn bind(path: &Path) -> Result<Server> {
        let unavailable = |what: &str, errno: Errno| {
            let text = format!("{}: {what}: {errno}", path.display());
            Error::new(ErrorCode::SocketUnavailable, text)
        };
        let address = SocketAddrUnix::new(path).map_err(|errno| unavailable("address", errno))?;
        let listener = socket().map_err(|errno| unavailable("socket", errno))?;
        // A socket's file takes its mode from the inode of the unbound socket.
        rustix::fs::fchmod(&listener, rustix::fs::Mode::from_raw_mode(0o600))
            .map_err(|errno| unavailable("fchmod", errno))?;
        let mut bound = rustix::net::bind(&listener, &address);
        if bound == Err(Errno::ADDRINUSE) {
            let probe = socket().map_err(|errno| unavailable("socket", errno))?;
            if rustix::net::connect(&probe, &address) != Err(Errno::CONNREFUSED) {
                let text = format!("{}: another device listens there", path.display());
                return Err(Error::new(ErrorCode::SocketInUse, text));
            }
            rustix::fs::unlink(path).map_err(|errno| unavailable("unlink", errno))?;
            bound = rustix::net::bind(&listener, &address);
        }
        bound.map_err(|errno| unavailable("bind", errno))?;
        rustix::net::listen(&listener, BACKLOG).map_err(|errno| unavailable("listen", errno))?;
        Ok(Server { listener, path: path.to_owned() })
    }

    /// Serves connections until accepting them fails for good.
    pub fn run(&self) -> Error {
        // Counts the connections: each holds a clone.
        let token = Arc::new(());
        loop {
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let result = admit(socket, &token);
                    if let Err(error) = result {
                        eprintln!("software device: {error}");
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Short of fds or memory: those of closing connections come back.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(errno) => {
                    let text = format!("{}: accept: {errno}", self.path.display());
                    return Error::new(ErrorCode::SystemFailed, text);
                }
            }
        }
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Gives a connection its thread, or its refusal.
fn admit(socket: OwnedFd, token: &Arc<()>) -> Result<()> {
    if Arc::strong_count(token) > CONNECTIONS_MAX {
        let text = format!("connections: {CONNECTIONS_MAX} are open, the limit");
        let refusal = Error::new(ErrorCode::LimitExceeded, text);
        // To a peer that may have gone already.
        let _ = send(&socket, &Err(refusal), SendFlags::DONTWAIT);
        return Ok(());
    }
    let held = Arc::clone(token);
    spawn("connection", move || {
        Connection { socket, stop: Arc::default(), streams: Vec::new() }.serve();
        drop(held);
    })
    .map(drop)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let builder = thread::Builder::new().name(name.into());
    let failed = |error: io::Error| Error::new(ErrorCode::SystemFailed, format!("thread: {error}"));
    builder.spawn(run).map_err(failed)
}

fn send(socket: &OwnedFd, outcome: &Result<MonoNs>, flags: SendFlags) -> rustix::io::Result<()> {
    rustix::net::send(socket, &Reply::encode(outcome), flags | SendFlags::NOSIGNAL).map(drop)
}

struct Connection {
    socket: OwnedFd,
    stop: Arc<AtomicBool>,
    streams: Vec<JoinHandle<()>>,
}

impl Connection {
    fn serve(&mut self) {
        while let Some(received) = receive(&self.socket) {
            let outcome = received.and_then(|start| self.start(start));
            if send(&self.socket, &outcome, SendFlags::empty()).is_err() {
                break;
            }
        }
    }

    fn start(&mut self, received: Received) -> Result<MonoNs> {
        let stream = Stream::parse(&received.record)?;
        self.streams.retain(|running| !running.is_finished());
        if self.streams.len() >= STREAMS_MAX {
            let text = format!("START: {STREAMS_MAX} streams run, the limit");
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        }
        let pages = Pages::map(&stream, received.fds)?;
        let stop = Arc::clone(&self.stop);
        let t0 = clock::now().max(stream.start);
        self.streams.push(spawn("stream", move || stream::run(&stream, t0, &pages, &stop))?);
        Ok(t0)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for stream in self.streams.drain(..) {
            // A stream has nothing to report.
            let _ = stream.join();
        }
    }
}

/// One record as it came.
struct Received {
    record: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// The next record and its fds; `None` when the connection has ended. A record that is too long,
/// or came with too many fds, is an error; its fds are closed.
fn receive(socket: &OwnedFd) -> Option<Result<Received>> {
    let mut record = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut parts = [io::IoSliceMut::new(&mut record)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(_) => return None,
            Ok(message) => break message,
        }
    };
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if message.bytes == 0 {
        return None;
    }
    if message.flags.contains(ReturnFlags::CTRUNC) || fds.len() > FDS_MAX {
        let text = format!("START: more than {FDS_MAX} file descriptors");
        return Some(Err(Error::new(ErrorCode::TooManyFds, text)));
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        let text = format!("soft: a message of more than {MESSAGE_BYTES_MAX} bytes");
        return Some(Err(Error::new(ErrorCode::BadMessage, text)));
    }
    record.truncate(message.bytes);
    Some(Ok(Received { record, fds }))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
