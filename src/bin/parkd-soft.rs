//! parkd-soft
fn main() {}
