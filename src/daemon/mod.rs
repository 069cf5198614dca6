//! The daemon: desk, FILL and what they run on: glue between host and engine.

pub mod allow;
pub mod cli;
pub mod config;
pub mod listen;
pub mod log;
