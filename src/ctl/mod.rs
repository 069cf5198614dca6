//! parkctl: asks a running daemon, and shows what it found.

pub mod cli;
