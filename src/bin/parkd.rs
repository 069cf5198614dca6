//! parkd
fn main() {}
