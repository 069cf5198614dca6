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

#[test]
fn a_timeout_is_seconds_and_may_be_a_fraction() {
    let timeout = |text: &str| {
        let line = ["parkctl", "wait", "--timeout", text];
        Cli::try_parse_from(line).ok().map(|cli| match cli.command {
            Command::Wait(args) => args.timeout,
            _ => None,
        })
    };
    assert_eq!(timeout("2"), Some(Some(Duration::from_secs(2))));
    assert_eq!(timeout("0.5"), Some(Some(Duration::from_millis(500))));
    for wrong in ["-1", "soon", "nan", "1e300"] {
        assert_eq!(timeout(wrong), None, "{wrong}");
    }
}
