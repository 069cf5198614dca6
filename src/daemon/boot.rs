//! What is found out once a boot and kept: how the futex trial went.
//!
//! One line in a file beside the socket: `parkd-trial 1 BOOT KERNEL sound`, or `... doubtful WHAT`.
//! It counts for this boot of this kernel alone, so that a restart need not find it out again.
//! Whatever else is in the file, and a file of another user or that another user could write, is
//! as if there were none: then the trial is made again.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// What the file's name adds to the socket's.
const SUFFIX: &str = ".trial";
/// What its temporary name adds to that.
const TEMPORARY: &str = ".new";

/// The first words: what it is, and the version of its form.
const HEAD: &str = "parkd-trial 1";

/// Longer than any line that is written.
const BYTES_MAX: usize = 1024;

/// Permissions of others.
const OTHERS_WRITE: u32 = 0o022;

/// How the trial went in this boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Wakes are neither lost nor late.
    Sound,
    /// They are: what was seen.
    Doubtful(String),
}

/// A boot's note: the file, and which boot of which kernel this is.
#[derive(Debug)]
pub struct BootNote {
    path: PathBuf,
    head: String,
}

impl BootNote {
    /// The file beside this socket.
    ///
    /// # Errors
    /// Where the kernel does not say which boot this is: nothing can be kept then.
    pub fn beside(socket: &Path) -> io::Result<BootNote> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Ok(BootNote { path: added(socket, SUFFIX), head: head(boot.trim(), &kernel) })
    }

    /// What is known.
    pub fn read(&self) -> Option<Known> {
        let text = self.text().ok()?;
        match text.strip_suffix('\n')?.strip_prefix(&self.head)?.split_once(' ')? {
            ("", "sound") => Some(Known::Sound),
            ("", rest) => {
                let what = rest.strip_prefix("doubtful ")?;
                let plain = !what.is_empty() && what.chars().all(|c| !c.is_control());
                plain.then(|| Known::Doubtful(what.to_owned()))
            }
            _ => None,
        }
    }

    /// The file's text, where nobody else can have written it.
    fn text(&self) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.path, flags, Mode::empty())?);
        let found = file.metadata()?;
        let own = found.uid() == rustix::process::geteuid().as_raw();
        if !found.is_file() || !own || found.mode() & OTHERS_WRITE != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut text = String::new();
        file.take(BYTES_MAX as u64).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Keeps what was found out: all of it, or what was there before.
    ///
    /// # Errors
    /// Where the file cannot be written: then the next daemon finds it out again.
    pub fn write(&self, known: &Known) -> io::Result<()> {
        let line = match known {
            Known::Sound => format!("{} sound\n", self.head),
            Known::Doubtful(what) => format!("{} doubtful {what}\n", self.head),
        };
        let temporary = added(&self.path, TEMPORARY);
        let _ = std::fs::remove_file(&temporary);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::open(&temporary, flags | OFlags::CLOEXEC, mode)?;
        File::from(file).write_all(line.as_bytes())?;
        std::fs::rename(&temporary, &self.path)
    }
}

fn head(boot: &str, kernel: &str) -> String {
    format!("{HEAD} {boot} {kernel}")
}

fn added(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
#[path = "boot_tests.rs"]
mod tests;
