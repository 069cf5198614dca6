//! A *mistake* is one thing wrong in the file, at one place of it: key, found, allowed.
//!
//! It is written `FILE:LINE:COLUMN: KEY: FOUND: ALLOWED`, line and column counted from 1 and the
//! column in characters, as editors jump to. What the file says is shown as it stands there, but
//! for control characters, so that no text of a file can steer a terminal.

use std::ops::Range;
use std::path::Path;

use crate::core::error::{Error, ErrorCode};

/// Characters of the file's text that a mistake repeats.
const SHOWN_CHARS: usize = 48;

/// One thing wrong in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Where in the text, in bytes.
    pub(super) at: usize,
    /// The key's full name.
    pub(super) key: String,
    /// What stands there.
    pub(super) found: String,
    /// What may stand there.
    pub(super) allowed: String,
}

/// All of a file's mistakes as one coded error, a line for each in the order of the file.
pub(super) fn refusal(file: &Path, text: &str, mut mistakes: Vec<Mistake>) -> Error {
    mistakes.sort_by_key(|mistake| mistake.at);
    let lines: Vec<String> = mistakes
        .iter()
        .map(|Mistake { at, key, found, allowed }| {
            let (line, column) = position(text, *at);
            format!("{}:{line}:{column}: {key}: {found}: {allowed}", file.display())
        })
        .collect();
    Error::new(ErrorCode::ConfigInvalid, lines.join("\n"))
}

/// Line and column of a byte offset, both from 1.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The text of a span, its first line only, cut where it grows long.
pub(super) fn shown(text: &str, span: &Range<usize>) -> String {
    let whole = text.get(span.clone()).unwrap_or_default();
    let line = whole.lines().next().unwrap_or_default();
    let start: String = line.chars().take(SHOWN_CHARS).collect();
    let end = if start.len() < whole.len() { "..." } else { "" };
    start
        .chars()
        .map(|c| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() })
        .chain([end.to_owned()])
        .collect()
}
