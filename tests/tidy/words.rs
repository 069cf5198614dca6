//! `core` and `engine` name no system and no vendor.

use super::source::files;
use super::{Allowed, less, none};

/// Words of systems and vendors: one or two parts of a name, in small letters. A part of five
/// letters or more also stands for what it begins.
const NAMES: &str = "\
    linux, darwin, macos, windows, posix, systemd, futex, epoll, kqueue, uring, eventfd, timerfd, \
    pidfd, memfd, sync file, mmap, ioctl, seccomp, libc, rustix, umwait, mwaitx, cuda, nvidia, \
    hip, rocm, metal, opencl, vulkan";

/// What may name them all the same.
const MAY_NAME: &[Allowed] = &[
    ("src/core/error.rs", "UMWAIT, MWAITX or WFE", REMEDY),
    ("src/core/error.rs", "a seccomp profile", REMEDY),
    ("src/core/error.rs", "io-uring, gpu-reactor", REMEDY),
    ("src/core/error.rs", "eventfd", REMEDY),
    ("src/core/error.rs", "systemd-sysusers", REMEDY),
    ("src/core/error.rs", "seccomp are the usual causes", REMEDY),
    ("src/core/error.rs", "PidfdUnavailable", REMEDY),
    ("src/core/error.rs", "pidfd", REMEDY),
];

const REMEDY: &str = "the registry's texts tell people what to allow, install or send";

/// The line in small letters, its names cut into their parts: `WakeFutex` is `wake futex`.
fn parts(line: &str) -> String {
    let mut parts = String::from(" ");
    let mut before = ' ';
    for c in line.chars() {
        if c.is_uppercase() && before.is_lowercase() || !c.is_alphanumeric() {
            parts.push(' ');
        }
        if c.is_alphanumeric() {
            parts.extend(c.to_lowercase());
        }
        before = c;
    }
    parts.push(' ');
    while parts.contains("  ") {
        parts = parts.replace("  ", " ");
    }
    parts
}

fn named(line: &str) -> bool {
    let parts = parts(line);
    NAMES.split(", ").any(|name| {
        let long = name.len() >= 5;
        parts.contains(&if long { format!(" {name}") } else { format!(" {name} ") })
    })
}

#[test]
fn core_and_engine_name_no_system_and_no_vendor() {
    let mut found = Vec::new();
    for file in files(&[".rs"]) {
        if ["src/core/", "src/engine/"].iter().any(|folder| file.path.starts_with(folder)) {
            let lines = file.text.lines().enumerate().filter(|(_, line)| named(line));
            found.extend(lines.map(|(at, line)| (file.path.clone(), at + 1, line.to_owned())));
        }
    }
    none("a name that belongs in host or gpu", less(found, MAY_NAME));
}

#[test]
fn names_are_found_in_parts_of_words_and_not_inside_them() {
    for line in ["WakeFutex", "futex_wakes", "FUTEXES", "io-uring", "a sync_file's", "Hip::new"] {
        assert!(named(line), "{line}");
    }
    for line in ["ship", "relationship", "metalwork2", "an event, fds", "level: zero-based"] {
        assert_eq!(named(line), line.starts_with("metal"), "{line}");
    }
}
