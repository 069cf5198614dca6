//! Which configuration serves, and how a command ends.

use super::*;

fn serve(config: Option<&str>) -> ServeArgs {
    ServeArgs { config: config.map(PathBuf::from) }
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("parkd-cli-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_named_file_goes_before_the_systems_and_that_before_the_defaults() {
    let absent = Path::new("/nonexistent/parkd.toml");
    assert_eq!(serve(None).load_from(absent, None).unwrap(), Config::default());

    let system = file("system", "park.park_us = 11");
    assert_eq!(serve(None).load_from(&system, None).unwrap().park.park_us, 11);

    let named = file("named", "park.park_us = 12");
    let config = serve(named.to_str()).load_from(&system, None).unwrap();
    assert_eq!(config.park.park_us, 12);

    std::fs::write(&system, "park_us = 11").unwrap();
    let error = serve(None).load_from(&system, None).unwrap_err();
    assert_eq!((error.code, exit_status(&error)), (ErrorCode::ConfigInvalid, 2));
    let error = serve(Some("/nonexistent/parkd.toml")).load_from(&system, None).unwrap_err();
    assert_eq!(exit_status(&error), 2);
    for path in [system, named] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_command_lines_socket_goes_before_the_files() {
    let absent = Path::new("/nonexistent/parkd.toml");
    let config = serve(None).load_from(absent, Some(PathBuf::from("x.sock"))).unwrap();
    assert_eq!(config.daemon.socket, Path::new("x.sock"));
}

#[test]
fn last_words_name_the_code_and_the_remedy() {
    let error = Error::new(ErrorCode::SocketInUse, "/p: another daemon listens there");
    assert_eq!(exit_status(&error), 1);
    assert_eq!(
        last_words(&error),
        "parkd: SocketInUse (52): /p: another daemon listens there\n\
         parkd: Stop the other daemon, or configure another socket."
    );
    let error = Error::new(ErrorCode::ConfigInvalid, "f:1:2: k: found: allowed");
    let words = last_words(&error);
    assert!(words.starts_with("f:1:2: k: found: allowed\nparkd: ConfigInvalid (51): "), "{words}");
}

#[test]
fn only_a_short_life_under_a_service_manager_lingers() {
    let second = Duration::from_secs(1);
    assert_eq!(time_to_linger(Duration::ZERO, true), second);
    assert_eq!(time_to_linger(Duration::from_millis(400), true), Duration::from_millis(600));
    assert_eq!(time_to_linger(2 * second, true), Duration::ZERO);
    assert_eq!(time_to_linger(Duration::ZERO, false), Duration::ZERO);
}
