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

#[test]
fn a_drain_that_would_last_longer_than_can_be_said_is_refused() {
    let timeout = |text: &str| {
        let line = ["parkctl", "drain", "--timeout", text];
        Cli::try_parse_from(line).map(|cli| match cli.command {
            Command::Drain(args) => args.timeout,
            other => panic!("{other:?}"),
        })
    };
    let most = "4294967.295";
    assert_eq!(timeout(most).unwrap(), Duration::from_millis(u32::MAX.into()));
    let refused = timeout("1e9").unwrap_err();
    assert_eq!(refused.exit_code(), 2);
    let said = refused.to_string();
    for part in ["InvalidArgument (", "1000000000s", "0..=4294967.295s"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(timeout("4294967.296").is_err());
}
