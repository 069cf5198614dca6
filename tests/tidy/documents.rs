//! What the documents must say of the code. (`tests/docs.rs` compares the error codes.)

use std::fs;

use super::none;
use super::source::root;

/// A limit as `src/proto/limits.rs` defines it.
struct Limit {
    name: String,
    value: u64,
    documented: bool,
}

fn limits() -> Vec<Limit> {
    let text = fs::read_to_string(root().join("src/proto/limits.rs")).unwrap();
    let mut limits = Vec::new();
    let mut documented = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub const ") {
            let (name, value) = rest.split_once(':').unwrap();
            let value = value.split_once('=').unwrap().1.trim().trim_end_matches(';');
            limits.push(Limit { name: name.to_owned(), value: product(value), documented });
        }
        documented = line.starts_with("///");
    }
    assert!(limits.len() > 30, "only {} limits found: the check sees too little", limits.len());
    limits
}

/// The value of `a * b * ...`.
fn product(text: &str) -> u64 {
    text.split('*').map(|factor| factor.trim().replace('_', "").parse::<u64>().unwrap()).product()
}

#[test]
fn every_limit_is_documented_with_its_value() {
    let page = fs::read_to_string(root().join("docs/LIMITS.md")).unwrap();
    let mut findings = Vec::new();
    for Limit { name, value, documented } in limits() {
        if !documented {
            findings.push(format!("{name}: no doc comment in src/proto/limits.rs"));
        }
        let row = format!("| `{name}` | {value} |");
        if !page.lines().any(|line| line.starts_with(&row)) {
            findings.push(format!("{name}: docs/LIMITS.md has no row {row}"));
        }
    }
    let known: Vec<String> = limits().into_iter().map(|limit| limit.name).collect();
    let named = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let stale = named.filter(|(name, _)| !known.iter().any(|known| known == name));
    findings.extend(stale.map(|(name, _)| format!("docs/LIMITS.md: {name} is no limit")));
    none("limits and docs/LIMITS.md", findings);
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let mut findings = Vec::new();
    for file in super::source::files(&[".md"]) {
        let folder = root().join(&file.path).parent().unwrap().to_owned();
        for (_, rest) in file.text.match_indices("](").map(|(at, _)| file.text.split_at(at + 2)) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            let elsewhere = target.is_empty() || target.contains("://");
            if !elsewhere && !folder.join(target).exists() {
                findings.push(format!("{}: {target}", file.path));
            }
        }
    }
    none("links to nothing", findings);
}
