//! Hands libFuzzer's inputs to the target `recovery`.
#![no_main]

#[path = "../targets/recovery.rs"]
mod recovery;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recovery::run(bytes));
