//! Every input of the fuzz targets' corpus, on stable: the seeds, and whatever was once a finding.
//!
//! `fuzz/targets` holds the targets' bodies, `fuzz/fuzz_targets` hands them to libFuzzer.

// Each target is a program of its own there, and takes what it needs along.
#![allow(clippy::duplicate_mod)]

#[path = "../fuzz/targets/config.rs"]
mod config;
#[path = "../fuzz/targets/entry.rs"]
mod entry;
#[path = "../fuzz/targets/message.rs"]
mod message;
#[path = "../fuzz/targets/plan.rs"]
mod plan;
#[path = "../fuzz/targets/recovery.rs"]
mod recovery;

use std::fs;
use std::path::Path;

/// Bytes of one target's corpus: a test that runs with every change, and a folder that people read.
const CORPUS_BYTES_MAX: usize = 16 * 1024;

/// Runs every input of a target's corpus, and each cut off at every length.
fn replay(target: &str, least: usize, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut bytes = 0;
    let mut inputs = 0;
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let input = fs::read(file.path()).unwrap();
        let name = file.file_name();
        for end in 0..=input.len() {
            // What is printed before a panic names the input.
            println!("{target}: {}: {end} bytes", name.display());
            run(&input[..end]);
        }
        bytes += input.len();
        inputs += 1;
    }
    assert!(inputs >= least, "{target}: only {inputs} inputs: the corpus has gone");
    assert!(bytes <= CORPUS_BYTES_MAX, "{target}: {bytes} bytes of corpus");
}

#[test]
fn messages() {
    replay("message", 20, message::run);
}

#[test]
fn ring_entries() {
    replay("entry", 10, entry::run);
}

#[test]
fn plans() {
    replay("plan", 10, plan::run);
}

#[test]
fn configurations() {
    replay("config", 5, config::run);
}

#[test]
fn recoveries() {
    replay("recovery", 10, recovery::run);
}
