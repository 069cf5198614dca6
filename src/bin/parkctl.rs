//! parkctl
fn main() {}
