//! What a ticket does not cost: on its way FILL allocates nothing, and makes next to no system
//! calls.

#[path = "../support/mod.rs"]
pub mod support;

mod counted;
mod traced;
