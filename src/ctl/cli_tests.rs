//! What the command line is understood as.

use clap::CommandFactory;
use clap::Parser;

use super::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_socket_may_stand_before_and_after_the_subcommand() {
    let socket = |line: &str| Cli::parse_from(line.split(' ')).socket;
    assert_eq!(socket("parkctl config"), None);
    assert_eq!(socket("parkctl --socket /a config"), Some(PathBuf::from("/a")));
    assert_eq!(socket("parkctl config --socket /a"), Some(PathBuf::from("/a")));
}
