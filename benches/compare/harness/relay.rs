//! The relay: a process that hears of every store over a Unix socket and passes it on to the
//! waiter that it is for, as message brokers do.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::member::Post;
use super::orders::{Answer, Done, Run};
use super::{Doing, Result};

/// The name under which the producer connects; waiters do under their place among all.
pub const PRODUCER: u32 = u32::MAX;

/// Connects under this name.
pub fn connect(path: &Path, name: u32) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(path).doing("relay")?;
    stream.write_all(&name.to_ne_bytes()).doing("relay")?;
    Ok(stream)
}

/// What the producer says: this waiter's word has this number now.
pub fn news(waiter: u32, number: u64) -> [u8; 16] {
    let mut news = [0; 16];
    news[..8].copy_from_slice(&u64::from(waiter).to_ne_bytes());
    news[8..].copy_from_slice(&number.to_ne_bytes());
    news
}

/// Is the relay of a run, until its producer hangs up.
pub fn be(post: &Post, run: &Run) -> Result<()> {
    let path = run.relay.as_ref().ok_or("no relay")?;
    let listener = UnixListener::bind(path).doing(&path.to_string_lossy())?;
    post.ready(&[])?;
    let mut waiters: Vec<Option<UnixStream>> = (0..run.waiters).map(|_| None).collect();
    let mut producer = None;
    while producer.is_none() || waiters.iter().any(Option::is_none) {
        let (mut stream, _) = listener.accept().doing("accept")?;
        let mut name = [0; 4];
        stream.read_exact(&mut name).doing("a name")?;
        match u32::from_ne_bytes(name) {
            PRODUCER => producer = Some(stream),
            name => *waiters.get_mut(name as usize).ok_or("a name")? = Some(stream),
        }
    }
    let _ = std::fs::remove_file(path);
    let mut waiters: Vec<UnixStream> = waiters.into_iter().flatten().collect();
    let mut producer = producer.ok_or("no producer")?;
    let mut news = [0; 16];
    loop {
        match producer.read_exact(&mut news) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            read => read.doing("news")?,
        }
        let (waiter, number) = news.split_at(8);
        let waiter = u64::from_ne_bytes(waiter.try_into().doing("news")?);
        let waiter = waiters.get_mut(waiter as usize).ok_or("a waiter")?;
        // One that has seen its last number may have gone.
        let _ = waiter.write_all(number);
    }
    post.answer(&Answer::Done(Done::default()))
}
