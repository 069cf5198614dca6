//! parkctl: asks a running daemon, and shows what it found.

pub mod cli;
pub mod drain;
pub mod status;
pub mod wait;
