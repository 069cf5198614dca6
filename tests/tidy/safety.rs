//! Where `unsafe` and panics may stand, and what is never committed.

use super::source::{Rust, line_of, rust};
use super::{Allowed, less, none};

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &["src/shm/", "src/host/", "src/gpu/", "capi/"];

const MAY_BE_UNSAFE: &[Allowed] = &[(
    "tests/loom/memory.rs",
    "word.unsync_load()",
    "the model checker's load that fails the model where a store may run beside it",
)];

/// Folders that other processes rely on: what goes wrong there is an error with a code, never a
/// panic.
const NO_PANIC: &[&str] = &[
    "src/client/",
    "src/daemon/",
    "src/engine/",
    "src/host/",
    "src/proto/",
    "src/shm/",
    "src/soft/",
    "capi/",
];

const PANICS: &[&str] = &["unwrap", "expect", "panic", "unreachable"];

const MAY_PANIC: &[Allowed] = &[(
    "src/engine/session.rs",
    "a table's bytes shrank",
    "the type of the bytes would have to change their length under us",
)];

const MAY_SLEEP: &[Allowed] = &[(
    "tests/support/mod.rs",
    "std::thread::sleep(Duration::from_millis(1));",
    "between two looks, to a deadline, at what tells nobody that it changed",
)];

/// Every place in `text` where `found` says so: (path, line, its text).
fn places(file: &Rust, at: impl IntoIterator<Item = usize>) -> Vec<(String, usize, String)> {
    let line = |at| line_of(&file.code, at);
    let text = |number: usize| file.text.lines().nth(number - 1).unwrap_or_default().to_owned();
    at.into_iter().map(|at| (file.path.clone(), line(at), text(line(at)))).collect()
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let outside = rust(&[""]).into_iter();
    let outside = outside.filter(|file| !UNSAFE.iter().any(|folder| file.path.starts_with(folder)));
    let found = outside.flat_map(|file| places(&file, Rust::words(&file.code, "unsafe"))).collect();
    none("unsafe outside its folders", less(found, MAY_BE_UNSAFE));
}

#[test]
fn every_unsafe_site_says_why_it_is_sound() {
    let mut findings = Vec::new();
    for file in rust(&[""]) {
        let lines: Vec<&str> = file.text.lines().collect();
        let code: Vec<&str> = file.code.lines().collect();
        for at in Rust::words(&file.code, "unsafe") {
            let site = line_of(&file.code, at) - 1;
            let declares = file.code[at..].split_whitespace().nth(1);
            let label = match declares {
                Some("fn" | "trait" | "extern") => "# Safety",
                _ => "SAFETY:",
            };
            if !explained(&lines, &code, site, label) {
                findings.push(format!("{}:{}: no {label}", file.path, site + 1));
            }
        }
    }
    none("unsafe without its contract", findings);
}

/// Whether `label` stands in the comment on the line, or in the one above its statement.
fn explained(lines: &[&str], code: &[&str], site: usize, label: &str) -> bool {
    if lines[site].contains(&format!("// {label}")) {
        return true;
    }
    let mut in_comment = false;
    for at in (0..site).rev() {
        let (line, code) = (lines[at].trim(), code[at].trim());
        if line.starts_with("//") {
            in_comment = true;
            if line.contains(label) {
                return true;
            }
        } else if in_comment || (!code.starts_with("#[") && code.ends_with([';', '{', '}'])) {
            return false;
        }
    }
    false
}

#[test]
fn what_others_rely_on_does_not_panic() {
    let calls = |file: &Rust, word: &'static str| {
        let found = Rust::words(&file.product, word).into_iter();
        let called: Vec<usize> = found
            .filter(|at| {
                let after = &file.product[at + word.len()..];
                after.starts_with('!')
                    || after.starts_with('(') && file.product[..*at].ends_with('.')
            })
            .collect();
        called
    };
    let files = rust(NO_PANIC).into_iter().filter(|file| !file.is_test());
    let found = files
        .flat_map(|file| {
            let at: Vec<usize> = PANICS.iter().flat_map(|&word| calls(&file, word)).collect();
            places(&file, at)
        })
        .collect();
    none("a panic where an error belongs", less(found, MAY_PANIC));
}

#[test]
fn nothing_is_left_open_or_switched_off() {
    const NEVER: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore", "#[should_panic]"];
    const LINTS: &[&str] = &["dead_code", "unused", "unused_variables", "unused_imports"];
    let found = rust(&[""])
        .into_iter()
        .flat_map(|file| {
            let never = NEVER.iter().flat_map(|text| file.code.match_indices(text));
            let mut at: Vec<usize> = never.map(|(at, _)| at).collect();
            for (allow, _) in file.code.match_indices("allow(") {
                let end = file.code[allow..].find(')').map_or(file.code.len(), |end| allow + end);
                let lints = &file.code[allow..end];
                at.extend(LINTS.iter().any(|l| !Rust::words(lints, l).is_empty()).then_some(allow));
            }
            places(&file, at)
        })
        .collect();
    none("unfinished, or switched off", less(found, &[]));
}

#[test]
fn no_test_waits_for_time() {
    let found = rust(&["src/", "tests/"])
        .into_iter()
        .filter(|file| file.is_test() || file.code != file.product)
        .flat_map(|file| {
            let sleeps = Rust::words(&file.code, "sleep").into_iter();
            let of_thread = |at: &usize| {
                let before = &file.code[..*at];
                before.ends_with("thread::") || before.ends_with("time::")
            };
            let in_test = |at: &usize| file.is_test() || file.product[*at..].starts_with(' ');
            let at: Vec<usize> = sleeps.filter(of_thread).filter(in_test).collect();
            places(&file, at)
        })
        .collect();
    none("a test that waits for time, not for an event", less(found, MAY_SLEEP));
}
