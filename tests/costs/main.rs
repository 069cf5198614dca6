//! What a ticket does not cost: on its way FILL allocates nothing, and neither FILL nor its client
//! makes system calls to speak of.

#[path = "../support/mod.rs"]
pub mod support;

mod counted;
mod submitting;
mod traced;
