//! What a waiter and its wakers share: the words that are waited on, and the mail that goes back.
//!
//! Two sealed memfds, as sessions have them. The *words* are raised by wakers and mapped read-only
//! by the waiter; each lies on a line of its own. The *mail* has the last few *acts* of the waiter
//! on each word: which count it acted on, when, and for how long in all the scheduler had kept it
//! from running by then.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use parkd::core::error::Result;
use parkd::core::time::MonoNs;
use parkd::host::futex::FutexAddr;
use parkd::shm::area::Area;
use parkd::shm::region::{Access, ReadOnly, ReadWrite, Region};
use parkd::shm::words::{ReadWords, WriteWords};

const LINE: usize = 64;

/// Where the mail's own words lie: whether the waiter has armed its waits, whether it is to end.
const READY: usize = 0;
const STOP: usize = 4;

/// A word's mail: how many acts there were, then the last of them.
const BOX: usize = 512;
const ACTS: usize = 0;
const KEPT: u32 = 16;

/// Where an act's parts lie.
const ACT: usize = 24;
const COUNT: usize = 0;
const AT: usize = 8;
const HELD_NS: usize = 16;

const _: () = assert!(8 + KEPT as usize * ACT <= BOX);

/// What the waiter did about a word.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it saw the count.
    pub at: MonoNs,
    /// How long it had been ready to run and did not, in all, by then.
    pub held_ns: u64,
}

/// Whether the waiter has acted on a count.
#[derive(Clone, Copy, Debug)]
pub enum Acted {
    NotYet,
    /// It has, and this was the first time.
    First(Seen),
    /// It has, too long ago to know when.
    Forgotten,
}

/// The two areas, for who makes them.
pub struct Pit {
    words: Area,
    mail: Area,
    pub count: u32,
}

impl Pit {
    pub fn new(count: u32) -> Result<Pit> {
        let bytes = |each| (count as usize + 1) * each;
        Ok(Pit { words: Area::table(bytes(LINE))?, mail: Area::table(bytes(BOX))?, count })
    }

    /// Where another process of this user can open them, and how many words there are.
    pub fn paths(&self) -> [String; 3] {
        use std::os::fd::AsFd;
        let path =
            |area: &Area| format!("/proc/{}/fd/{}", std::process::id(), area.as_fd().as_raw_fd());
        [path(&self.words), path(&self.mail), self.count.to_string()]
    }

    pub fn waker(&self) -> Result<WakerSide> {
        let words: Region<ReadWrite> = self.words.map()?;
        Ok(WakerSide { readonly: self.words.map()?, words, mail: self.mail.map()? })
    }
}

fn open<A: Access>(path: &str) -> std::io::Result<Region<A>> {
    let file = File::options().read(true).write(A::WRITE).open(path)?;
    let area = Area::from_fd(file.into()).map_err(std::io::Error::other)?;
    area.map().map_err(std::io::Error::other)
}

fn line(word: u32) -> usize {
    (word as usize + 1) * LINE
}

fn mailbox(word: u32) -> usize {
    (word as usize + 1) * BOX
}

/// Where a word's act of this number lies.
fn act(word: u32, number: u32) -> usize {
    mailbox(word) + 8 + (number % KEPT) as usize * ACT
}

/// The waiter's side: it cannot write what it waits on.
pub struct WaiterSide {
    words: Region<ReadOnly>,
    mail: Region<ReadWrite>,
}

impl WaiterSide {
    pub fn open(words: &str, mail: &str) -> std::io::Result<WaiterSide> {
        Ok(WaiterSide { words: open(words)?, mail: open(mail)? })
    }

    pub fn address(&self, word: u32) -> FutexAddr {
        FutexAddr::new(self.words.address(line(word)))
    }

    pub fn count(&self, word: u32) -> u32 {
        let count = self.words.load32(line(word));
        fence(Ordering::Acquire);
        count
    }

    pub fn say_ready(&self) {
        self.mail.store32(READY, 1);
    }

    pub fn is_to_stop(&self) -> bool {
        self.mail.load32(STOP) != 0
    }

    /// Tells the wakers what count was acted on.
    pub fn acted_on(&self, word: u32, count: u32, seen: Seen) {
        let number = self.mail.load32(mailbox(word) + ACTS);
        let act = act(word, number);
        self.mail.store32(act + COUNT, count);
        self.mail.store64(act + AT, seen.at.0);
        self.mail.store64(act + HELD_NS, seen.held_ns);
        fence(Ordering::Release);
        self.mail.store32(mailbox(word) + ACTS, number.wrapping_add(1));
    }
}

/// A waker's side.
pub struct WakerSide {
    words: Region<ReadWrite>,
    readonly: Region<ReadOnly>,
    mail: Region<ReadWrite>,
}

impl WakerSide {
    pub fn open(words: &str, mail: &str) -> std::io::Result<WakerSide> {
        Ok(WakerSide { words: open(words)?, readonly: open(words)?, mail: open(mail)? })
    }

    /// Raises a word and answers the new count.
    pub fn raise(&self, word: u32) -> u32 {
        let count = self.words.fetch_add32(line(word), 1).wrapping_add(1);
        fence(Ordering::SeqCst);
        count
    }

    /// The word in the mapping that can be written, or in the one that cannot.
    pub fn address(&self, word: u32, readonly: bool) -> FutexAddr {
        let at = line(word);
        FutexAddr::new(if readonly { self.readonly.address(at) } else { self.words.address(at) })
    }

    /// What the waiter did about a count.
    pub fn acted(&self, word: u32, count: u32) -> Acted {
        let acts = self.mail.load32(mailbox(word) + ACTS);
        fence(Ordering::Acquire);
        let mut first = Acted::NotYet;
        // One act less than are kept: the oldest may just be written over.
        for back in 1..KEPT.min(acts + 1) {
            let act = act(word, acts - back);
            if (self.mail.load32(act + COUNT).wrapping_sub(count) as i32) < 0 {
                return first;
            }
            let at = MonoNs(self.mail.load64(act + AT));
            first = Acted::First(Seen { at, held_ns: self.mail.load64(act + HELD_NS) });
        }
        if acts < KEPT { first } else { Acted::Forgotten }
    }

    /// Waits until the waiter has armed its waits; false if that takes too long.
    pub fn ready(&self) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while self.mail.load32(READY) == 0 {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }

    /// Tells the waiter to end.
    pub fn stop(&self) -> std::io::Result<()> {
        self.mail.store32(STOP, 1);
        self.raise(0);
        parkd::host::futex::wake_one(self.address(0, false)).map(|_| ())
    }
}
