//! Hands libFuzzer's inputs to the target `message`.
#![no_main]

#[path = "../targets/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| message::run(bytes));
