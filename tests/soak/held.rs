//! What a process holds.

use std::fs;

use rustix::process::Pid;

/// Memory and fds of a process.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    rss_bytes: u64,
    fds: usize,
}

/// How much more is held than was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    /// Resident memory.
    pub rss_bytes: i64,
    /// Open fds.
    pub fds: i64,
}

impl Held {
    /// What `pid` holds now.
    pub fn by(pid: Pid) -> Held {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        let pages = fs::read_to_string(format!("{proc}/statm")).expect("the daemon's memory");
        let pages = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        let fds = fs::read_dir(format!("{proc}/fd")).expect("the daemon's fds").count();
        let rss_bytes = pages.expect("pages") * rustix::param::page_size() as u64;
        Held { rss_bytes, fds }
    }

    /// From what was held `before` to this.
    pub fn since(&self, before: &Held) -> Growth {
        let rss_bytes = self.rss_bytes as i64 - before.rss_bytes as i64;
        Growth { rss_bytes, fds: self.fds as i64 - before.fds as i64 }
    }
}

impl Growth {
    /// The larger of each.
    pub fn max(self, other: Growth) -> Growth {
        let rss_bytes = self.rss_bytes.max(other.rss_bytes);
        Growth { rss_bytes, fds: self.fds.max(other.fds) }
    }
}
