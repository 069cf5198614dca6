//! What is known of a lane: the numbers that were in it, and what its session did with it.

use parkd::core::line::Width;

/// Where a lane comes from that was redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its owner's serial.
    pub owner: u32,
    pub lane: u32,
    pub capability: u128,
}

/// Why no number of a redeemed lane comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Died,
    Revoked,
}

/// A lane.
#[derive(Clone, Debug)]
pub struct LaneBook {
    pub open: bool,
    /// Whether the daemon has been asked to close it.
    pub closing: bool,
    pub width: Width,
    pub device: u32,
    /// The code with which its tickets fail.
    pub failed: Option<u32>,
    /// Codes that its producers have posted.
    pub codes: Vec<u32>,
    pub word: u64,
    /// What shares it.
    pub shared: Option<u128>,
    /// Whether the daemon has been asked to revoke that.
    pub revoking: bool,
    /// Where it comes from, if it was redeemed.
    pub origin: Option<Origin>,
    pub ended: Option<Ending>,
    /// The number of the session's own lane, while a redeemed one has its index.
    own: u64,
    /// Whether a lower number was stored after a higher one: then tickets behind others may be
    /// found late, since a lane's numbers are promised to rise.
    pub fell: bool,
    held: Vec<u64>,
}

impl Default for LaneBook {
    fn default() -> LaneBook {
        LaneBook {
            open: false,
            closing: false,
            width: Width::W64,
            device: 0,
            failed: None,
            codes: Vec::new(),
            word: 0,
            shared: None,
            revoking: false,
            origin: None,
            ended: None,
            own: 0,
            fell: false,
            held: vec![0],
        }
    }
}

/// Whether a lane that holds `word` has come to `target`, told in another way than the daemon does:
/// at or past it, less than half the range away.
pub fn is_there(width: Width, word: u64, target: u64) -> bool {
    ahead(width, target, word) <= u64::MAX >> (65 - width.bits())
}

/// How far `to` lies ahead of `from`, upwards and around the end of the range.
pub fn ahead(width: Width, from: u64, to: u64) -> u64 {
    let range = 1u128 << width.bits();
    ((u128::from(to) + range - u128::from(from) % range) % range) as u64
}

impl LaneBook {
    /// The lane is open from here on.
    pub fn open(&mut self, width: Width, device: u32) {
        (self.width, self.device) = (width, device);
        (self.open, self.closing, self.failed) = (true, false, None);
    }

    /// The lane is open from here on, and its number is another session's.
    pub fn redeem(&mut self, origin: Origin, theirs: &LaneBook) {
        let own = self.word;
        *self = theirs.clone();
        (self.own, self.origin) = (own, Some(origin));
        (self.closing, self.shared, self.revoking) = (false, None, false);
    }

    /// The lane is closed from here on.
    pub fn close(&mut self) {
        if self.origin.take().is_some() {
            self.word = self.own;
            self.held.push(self.own);
        }
        (self.open, self.closing, self.failed) = (false, false, None);
        (self.shared, self.revoking, self.ended) = (None, false, None);
    }

    /// A number is stored; answers whether it has passed the end of the range.
    pub fn store(&mut self, word: u64) -> bool {
        self.fell |= !is_there(self.width, word, self.word);
        let wrapped = match self.width {
            Width::W64 => word < self.word,
            Width::W32 => (word as u32) < self.word as u32,
        };
        self.word = word;
        self.held.push(word);
        wrapped && !self.fell
    }

    /// Whether this number has ever been in the lane.
    pub fn has_held(&self, word: u64) -> bool {
        self.held.iter().rev().any(|&held| held == word)
    }
}
