//! The settings of the daemon under test: the shipped configuration, and what rows with a suffix
//! change in it.

use std::path::Path;

use super::Result;

/// The configuration as it is shipped.
const SHIPPED: &str = include_str!("../../../config/parkd.toml");

/// What is changed in one line of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key's value.
    Set(&'static str, &'static str),
    /// The end of the key's text.
    Append(&'static str, &'static str),
}

/// A variant of a contender: its row has a suffix.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Whose.
    pub of: &'static str,
    /// What its name ends in, after a slash.
    pub suffix: &'static str,
    /// What differs from the shipped configuration.
    pub changes: &'static [Change],
    /// Whether the producer rings the bell, as one on a CPU does.
    pub rings: bool,
    /// Whether its daemon may run only while it is measured: it holds something that all feel.
    pub alone: bool,
    /// Whether it is part of `--quick`.
    pub quick: bool,
}

const NONE: Variant = Variant {
    of: "parkd-futex",
    suffix: "",
    changes: &[],
    rings: false,
    alone: false,
    quick: true,
};

/// All of them.
pub const VARIANTS: &[Variant] = &[
    Variant { suffix: "never", changes: &[Change::Set("pm_qos", "\"never\"")], ..NONE },
    Variant { suffix: "early", changes: &[Change::Append("default", ",wake=early")], ..NONE },
    Variant { suffix: "bell", rings: true, ..NONE },
    Variant { suffix: "hot", changes: &[Change::Set("pm_qos", "\"hot\"")], quick: false, ..NONE },
    Variant {
        suffix: "always",
        changes: &[Change::Set("pm_qos", "\"always\"")],
        alone: true,
        quick: false,
        ..NONE
    },
    Variant {
        suffix: "min",
        changes: &[Change::Set("estimator", "\"min\"")],
        quick: false,
        ..NONE
    },
    Variant {
        suffix: "adaptive",
        changes: &[Change::Set("estimator", "\"adaptive\"")],
        quick: false,
        ..NONE
    },
];

/// What throughput is measured with: the shipped rates are there to stop what that does.
pub const UNLIMITED: &[Change] = &[Change::Set("submits_per_second", "100000000")];

/// The shipped configuration with these changes and another socket.
///
/// # Errors
/// Where a key does not stand in it exactly once.
pub fn config(socket: &Path, changes: &[Change]) -> Result<String> {
    let mut text = set(SHIPPED, "socket", |_| format!("{socket:?}"))?;
    for change in changes {
        text = match *change {
            Change::Set(key, value) => set(&text, key, |_| value.to_owned())?,
            Change::Append(key, end) => set(&text, key, |old| {
                let body = old.strip_suffix('"').unwrap_or(old);
                format!("{body}{end}\"")
            })?,
        };
    }
    Ok(text)
}

/// The text with another value of a key.
fn set(text: &str, key: &str, value: impl Fn(&str) -> String) -> Result<String> {
    let head = format!("{key} = ");
    let found = text.lines().filter(|line| line.starts_with(&head)).count();
    if found != 1 {
        return Err(format!("config/parkd.toml has {found} lines of the key {key}"));
    }
    let line = |line: &str| match line.strip_prefix(&head) {
        Some(old) => format!("{head}{}\n", value(old)),
        None => format!("{line}\n"),
    };
    Ok(text.lines().map(line).collect())
}
