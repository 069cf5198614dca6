//! The client library over the daemon's death: with an fd store the next life goes on with its
//! session; without one the library has its lanes adopted by the next daemon and submits again what
//! has no result. Callers see nothing of either.

pub mod load;
#[path = "../supervisor/mod.rs"]
pub mod supervisor;
#[path = "../support/mod.rs"]
pub mod support;
mod with_store;
mod without_store;
