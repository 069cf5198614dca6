//! The comparison's members with iceoryx2's events as one more way of waiting and waking. Started
//! by `cargo bench --bench compare`, which has built it.

#[path = "../../compare/harness/mod.rs"]
mod harness;
mod iceoryx;
pub mod support;

fn main() -> std::process::ExitCode {
    harness::main(std::env::args().collect(), Some(&iceoryx::Iceoryx))
}
