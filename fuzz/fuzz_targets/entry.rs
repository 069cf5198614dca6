//! Hands libFuzzer's inputs to the target `entry`.
#![no_main]

#[path = "../targets/entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::run(bytes));
