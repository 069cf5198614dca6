use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("parkd-boot-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn note(&self) -> BootNote {
        BootNote::beside(&self.0.join("socket")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn doubtful() -> Known {
    Known::Doubtful("1 of 9 futex wakes were lost".to_owned())
}

#[test]
fn what_is_written_is_known_to_the_next() {
    let folder = Folder::new();
    assert_eq!(folder.note().read(), None);
    for known in [doubtful(), Known::Sound] {
        folder.note().write(&known).unwrap();
        assert_eq!(folder.note().read(), Some(known));
    }
    let names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["socket.trial"]);
}

#[test]
fn another_boot_or_kernel_knows_nothing() {
    let folder = Folder::new();
    let note = folder.note();
    note.write(&doubtful()).unwrap();
    let text = fs::read_to_string(&note.path).unwrap();
    let boot = text.split(' ').nth(2).unwrap();
    let kernel = text.split(' ').nth(3).unwrap();
    for other in [head("0b", kernel), head(boot, "6.1"), head(boot, "")] {
        let other = BootNote { path: note.path.clone(), head: other };
        assert_eq!(other.read(), None, "{}", other.head);
    }
    assert_eq!(note.read(), Some(doubtful()));
}

#[test]
fn garbage_is_nothing() {
    let folder = Folder::new();
    let note = folder.note();
    let head = note.head.clone();
    let long = format!("{head} doubtful {}\n", "x".repeat(BYTES_MAX));
    let texts = [
        String::new(),
        "\n".to_owned(),
        head.clone(),
        format!("{head}\n"),
        format!("{head} sound"),
        format!("{head} sound \n"),
        format!("{head} sound\nsound\n"),
        format!("{head}x sound\n"),
        format!("{head} doubtful\n"),
        format!("{head} doubtful \n"),
        format!("{head} doubtful \u{1b}[31m\n"),
        format!(" {head} sound\n"),
        long,
    ];
    for text in texts {
        fs::write(&note.path, &text).unwrap();
        assert_eq!(note.read(), None, "{text:?}");
    }
    fs::write(&note.path, [head.as_bytes(), b" doubtful \xff\n"].concat()).unwrap();
    assert_eq!(note.read(), None);
    note.write(&Known::Sound).unwrap();
    assert_eq!(note.read(), Some(Known::Sound));
}

#[test]
fn what_others_could_have_written_is_nothing() {
    let folder = Folder::new();
    let note = folder.note();
    note.write(&Known::Sound).unwrap();
    for mode in [0o620, 0o602] {
        fs::set_permissions(&note.path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(note.read(), None, "{mode:o}");
    }
    fs::set_permissions(&note.path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(note.read(), Some(Known::Sound));
    let elsewhere = folder.0.join("elsewhere");
    fs::rename(&note.path, &elsewhere).unwrap();
    symlink(&elsewhere, &note.path).unwrap();
    assert_eq!(note.read(), None);
    // The link is replaced; what it leads to is not touched.
    note.write(&doubtful()).unwrap();
    assert_eq!(note.read(), Some(doubtful()));
    assert!(fs::read_to_string(elsewhere).unwrap().ends_with(" sound\n"));
    fs::remove_file(&note.path).unwrap();
    fs::create_dir(&note.path).unwrap();
    assert_eq!(note.read(), None);
    assert!(note.write(&Known::Sound).is_err());
}
