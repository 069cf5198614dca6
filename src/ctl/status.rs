//! `parkctl status`: the daemon's state, for people or as it came.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::client::Control;
use crate::core::error::{Error, ErrorCode, Result};

/// What people are shown first: the label, and where it stands in the daemon's answer.
const ROWS: &[(&str, &str)] = &[
    ("executor", "/executor"),
    ("generation", "/generation"),
    ("pid", "/pid"),
    ("uptime", "/uptime_ms"),
    ("cpu", "/cpu"),
    ("bell", "/bell"),
    ("sessions", "/sessions"),
    ("tickets", "/tickets"),
];

/// The daemon's state, as text that ends in a newline: its JSON object, or a table.
///
/// # Errors
/// `SocketUnavailable` where no daemon listens at `socket`; those of [`Control::status`].
pub fn status(socket: &Path, json: bool) -> Result<String> {
    let mut text = Control::connect_to(socket)?.status()?;
    if json {
        text.push('\n');
        return Ok(text);
    }
    let value = serde_json::from_str(&text)
        .map_err(|error| Error::new(ErrorCode::BadMessage, format!("STATUS: {error}")))?;
    Ok(table(&value))
}

/// Everything in the answer that is a number or a text, one a row; then the sessions.
fn table(status: &Value) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for (label, pointer) in ROWS {
        let shown = match status.pointer(pointer) {
            Some(Value::Number(ms)) if *label == "uptime" => format!("{ms} ms"),
            Some(value) => scalar(value),
            None => "-".to_owned(),
        };
        rows.push(((*label).to_owned(), shown));
    }
    for group in ["counters", "fill"] {
        flatten(group, status.get(group).unwrap_or(&Value::Null), &mut rows);
    }
    let devices = status.get("devices").and_then(Value::as_array).into_iter().flatten();
    for device in devices {
        let part = |key| device.get(key).map_or_else(|| "-".to_owned(), scalar);
        rows.push((format!("device {}", part("name")), part("kind")));
    }
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (label, value) in rows {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{label:width$}  {value}");
    }
    sessions(status, &mut text);
    for warning in status.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        let part = |key| warning.get(key).map_or_else(|| "-".to_owned(), scalar);
        let _ = writeln!(text, "warning {} ({}): {}", part("name"), part("code"), part("detail"));
    }
    text
}

/// The scalars below `value`, each under its path with dots.
fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                flatten(&format!("{path}.{key}"), field, rows);
            }
        }
        Value::Null => {}
        value => rows.push((path.to_owned(), scalar(value))),
    }
}

/// The listed sessions, one a line under a heading of their keys.
fn sessions(status: &Value, text: &mut String) {
    let listed = status.get("session_list").and_then(Value::as_array);
    let Some((first, all)) = listed.and_then(|all| Some((all.first()?.as_object()?, all))) else {
        return;
    };
    let keys: Vec<&String> = first.keys().collect();
    let cell = |session: &Value, key: &str| session.get(key).map_or_else(String::new, scalar);
    let width = |key: &&String| {
        let cells = all.iter().map(|session| cell(session, key).len());
        cells.max().unwrap_or(0).max(key.len())
    };
    let widths: Vec<usize> = keys.iter().map(width).collect();
    text.push('\n');
    let mut line = |cells: Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(text, "{}", padded.collect::<Vec<_>>().join("  "));
    };
    line(keys.iter().map(|key| (*key).clone()).collect());
    for session in all {
        line(keys.iter().map(|key| cell(session, key)).collect());
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
