//! The daemon: desk, FILL and what they run on: glue between host and engine.

pub mod allow;
pub mod boot;
pub mod cli;
pub mod command;
pub mod config;
pub mod desk;
pub mod fill;
pub mod listen;
pub mod log;
pub mod memory;
mod serve;
pub mod store;
pub mod trial;
mod wakes;

pub use serve::serve;
