//! Hands libFuzzer's inputs to the target `config`.
#![no_main]

#[path = "../targets/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::run(bytes));
