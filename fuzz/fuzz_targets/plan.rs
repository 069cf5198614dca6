//! Hands libFuzzer's inputs to the target `plan`.
#![no_main]

#[path = "../targets/plan.rs"]
mod plan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plan::run(bytes));
