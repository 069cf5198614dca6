//! The daemon: glue between the host and the engine.

pub mod command;
pub mod fill;
pub mod memory;
