//! What a reviewer would otherwise check by eye, file by file.
//!
//! A *finding* is a place and what is wrong with it; a test fails with all of its findings. What a
//! check lets pass is listed here with its reason, and an entry that nothing needs any more is a
//! finding too.

#[path = "tidy/source.rs"]
mod source;

#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/executors.rs"]
mod executors;
#[path = "tidy/safety.rs"]
mod safety;
#[path = "tidy/text.rs"]
mod text;
#[path = "tidy/words.rs"]
mod words;

/// Fails with the findings, if there are any.
#[track_caller]
fn none(what: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}

/// A place that a check lets pass: a file, a part of the line, and why.
type Allowed = (&'static str, &'static str, &'static str);

/// Takes out of `found` (path, line number, line) what `allowed` lets pass; the rest as findings,
/// with the entries of `allowed` that let nothing pass.
fn less(found: Vec<(String, usize, String)>, allowed: &[Allowed]) -> Vec<String> {
    let passes = |(path, _, line): &(String, usize, String), (file, part, _): &Allowed| {
        path == file && line.contains(part)
    };
    let stale = allowed.iter().filter(|entry| !found.iter().any(|place| passes(place, entry)));
    let stale =
        stale.map(|(file, part, _)| format!("{file}: nothing needs the exception {part:?}"));
    let wrong = found.iter().filter(|place| !allowed.iter().any(|entry| passes(place, entry)));
    let wrong = wrong.map(|(path, number, line)| format!("{path}:{number}: {}", line.trim()));
    wrong.chain(stale).collect()
}
