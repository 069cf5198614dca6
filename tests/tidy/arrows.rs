//! Folders use one another one way.

use super::none;
use super::source::{Rust, rust};

/// Each folder of `src`, and the C library, and what it may use, from the ground up: a folder is
/// used only by those below it in this list. `docs/ARCHITECTURE.md` shows the same table.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("proto", &["core"]),
    ("engine", &["core", "proto"]),
    ("shm", &["core", "proto"]),
    ("host", &["core", "shm"]),
    ("gpu", &["core", "shm"]),
    ("client", &["core", "proto", "shm", "host", "gpu"]),
    // Clocks and futexes are the host's; the page layout is the protocol's.
    ("soft", &["core", "proto", "shm", "host"]),
    ("daemon", &["core", "proto", "engine", "shm", "host", "gpu"]),
    ("agent", &["core", "proto", "host", "client"]),
    ("ctl", &["core", "proto", "host", "client"]),
    // It plays every part of a machine but the daemon's, and measures the others beside it.
    ("demo", &["core", "proto", "shm", "host", "client", "soft", "daemon"]),
    ("bin", &["core", "client", "soft", "daemon", "agent", "ctl", "demo"]),
    ("capi", &["core", "client"]),
];

/// Folders that unit tests may use beside those: the layouts that a test writes into memory, and
/// the calls that a peer would make.
const TESTS_MAY_USE: &[(&str, &[&str])] = &[("host", &["proto"]), ("shm", &["host"])];

fn named<'a>(table: &'a [(&str, &'a [&'a str])], folder: &str) -> &'a [&'a str] {
    table.iter().find(|(name, _)| *name == folder).map_or(&[], |(_, used)| used)
}

/// The folder of `src` that a file is in, or `capi`; none for `lib.rs`.
fn folder(file: &Rust) -> Option<&str> {
    if file.path.starts_with("capi/src/") {
        return Some("capi");
    }
    file.path.strip_prefix("src/")?.split_once('/').map(|(folder, _)| folder)
}

/// Paths that start at the crate's root, by their first name: (byte offset, name).
fn from_root(file: &Rust) -> Vec<(usize, String)> {
    let path = file.path.trim_start_matches("capi/").trim_end_matches("/mod.rs");
    let depth = path.matches('/').count();
    let depth = depth + usize::from(file.is_test());
    let climbing = "super::".repeat(depth);
    let mut paths = Vec::new();
    for root in ["crate::", "parkd::", &climbing].into_iter().filter(|root| !root.is_empty()) {
        for (at, _) in file.code.match_indices(root) {
            let rest = file.code[at + root.len()..].trim_start_matches("super::");
            paths.extend(first_names(rest).into_iter().map(|name| (at, name)));
        }
    }
    paths
}

/// The first names of the paths that begin here: one, or those of a group at its own level.
fn first_names(rest: &str) -> Vec<String> {
    let name = |path: &str| {
        let path = path.trim_start().chars();
        path.take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut names, mut depth) = (vec![name(group)], 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(&group[at + 1..])),
            _ => {}
        }
    }
    names
}

#[test]
fn groups_have_the_names_of_their_own_level() {
    let names = |text| first_names(text).join(" ");
    assert_eq!(names("core::error::Error;"), "core");
    assert_eq!(names("{core::{a::{b, c}, d}, proto, shm::area::{self}};"), "core proto shm");
    assert_eq!(names("{\n    engine::x,\n    host,\n}; use y::{z, w}"), "engine host ");
}

#[test]
fn arrows_between_folders_run_one_way() {
    let known = |name: &str| MAY_USE.iter().any(|(folder, _)| *folder == name);
    let mut findings = Vec::new();
    for file in rust(&["src/", "capi/src/"]) {
        let Some(own) = folder(&file) else { continue };
        if !known(own) {
            findings.push(format!("{}: the folder {own} is not in the table", file.path));
        }
        for (at, used) in from_root(&file) {
            let in_test = file.is_test() || file.product[at..].starts_with(' ');
            let allowed = used == own
                || !known(&used)
                || named(MAY_USE, own).contains(&used.as_str())
                || in_test && named(TESTS_MAY_USE, own).contains(&used.as_str());
            if !allowed {
                let line = super::source::line_of(&file.code, at);
                findings.push(format!("{}:{line}: {own} may not use {used}", file.path));
            }
        }
    }
    none("imports against the arrows", findings);
}

#[test]
fn the_architecture_shows_the_same_arrows() {
    let path = super::source::root().join("docs/ARCHITECTURE.md");
    let page = std::fs::read_to_string(path).unwrap();
    let house = page.split("\n## ").find(|section| section.starts_with("The house")).unwrap();
    let rows = house.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").collect();
        (cells[0].trim_matches(['|', ' ', '`']).to_owned(), cells[cells.len() - 1].to_owned())
    });
    let quoted = |used: &[&str]| used.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let shown =
        MAY_USE.iter().map(|(folder, used)| ((*folder).to_owned(), quoted(used).join(", ")));
    assert_eq!(rows.collect::<Vec<_>>(), shown.collect::<Vec<_>>());
}

#[test]
fn the_table_of_arrows_has_no_cycle() {
    let place = |name: &str| MAY_USE.iter().position(|(folder, _)| *folder == name);
    for (at, (folder, used)) in MAY_USE.iter().enumerate() {
        for name in *used {
            assert!(place(name).is_some_and(|other| other < at), "{folder} -> {name}");
        }
    }
}
