//! The shape of files: line width, length, ends, openings.

use super::none;
use super::source::{files, rust};

/// Columns of a line in any text that people edit.
const COLUMNS: usize = 100;

/// A word longer than this cannot be broken and may pass the columns.
const WORD: usize = 80;

/// Lines of the longest file of `src` (unit tests aside), of the longest file of tests, and of the
/// longest function of `src`. These only ever go down: split the file or the function.
const FILE_LINES: usize = 460;
const TEST_FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 50;

/// Lines of a main: it parses, loads, builds, runs.
const MAIN_LINES: usize = 150;

const TEXTS: &[&str] = &[".rs", ".toml", ".md", ".py", ".c", ".h", ".sh", ".ci/run", ".service"];

#[test]
fn lines_are_no_wider_than_100_columns() {
    let mut findings = Vec::new();
    for file in files(TEXTS) {
        let document = file.path.ends_with(".md");
        let mut fenced = false;
        for (at, line) in file.text.lines().enumerate() {
            fenced ^= document && line.trim_start().starts_with("```");
            let text = line.trim_start().trim_start_matches("//!").trim_start_matches("///");
            let table = text.trim_start().starts_with('|');
            let words = line.split_whitespace().map(|word| word.chars().count());
            let unbreakable = words.max().is_some_and(|longest| longest > WORD);
            let columns = line.chars().count();
            if columns > COLUMNS && !(table || unbreakable || fenced) {
                findings.push(format!("{}:{}: {columns} columns", file.path, at + 1));
            }
        }
    }
    none("lines that are too wide", findings);
}

#[test]
fn texts_end_in_one_newline_and_no_line_in_space() {
    let mut findings = Vec::new();
    for file in files(TEXTS) {
        let lines = file.text.lines().enumerate();
        let spaced = lines.filter(|(_, line)| line.ends_with(' ') || line.contains(['\t', '\r']));
        findings.extend(spaced.map(|(at, _)| format!("{}:{}: white space", file.path, at + 1)));
        if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
            findings.push(format!("{}: its end is not one newline", file.path));
        }
    }
    none("white space that is not meant", findings);
}

#[test]
fn files_stay_short() {
    let mut findings = Vec::new();
    for file in rust(&["src/", "tests/", "capi/", "benches/", "fuzz/"]) {
        let most = match (file.path.starts_with("src/bin/"), file.is_test()) {
            (true, _) => MAIN_LINES,
            (_, true) => TEST_FILE_LINES,
            (_, false) => FILE_LINES,
        };
        let lines = file.text.lines().count();
        if lines > most {
            findings.push(format!("{}: {lines} lines, at most {most}", file.path));
        }
    }
    none("files that hold more than one noun", findings);
}

#[test]
fn functions_stay_short() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in rust(&["src/", "capi/"]).iter().filter(|file| !file.is_test()) {
        for function in file.functions() {
            seen += 1;
            if function.lines > FUNCTION_LINES {
                let (name, lines) = (function.name, function.lines);
                findings.push(format!("{}:{}: {name}: {lines} lines", file.path, function.line));
            }
        }
    }
    assert!(seen > 300, "only {seen} functions found: the check sees too little");
    none(&format!("functions of more than {FUNCTION_LINES} lines"), findings);
}

#[test]
fn files_open_with_what_they_are_about() {
    let files = rust(&["src/", "tests/", "capi/", "benches/", "fuzz/"]).into_iter();
    let opens = |text: &str| text.starts_with("//! ") || text.starts_with("#!");
    let without = files.filter(|file| !file.path.ends_with("_tests.rs") && !opens(&file.text));
    none("files that open without a word", without.map(|file| file.path).collect());
}
