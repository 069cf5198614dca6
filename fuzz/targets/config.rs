//! A configuration's text: what is taken keeps what the daemon relies on; what is refused is
//! refused with a place for every mistake.

use std::path::Path;

use parkd::core::error::{Error, ErrorCode};
use parkd::daemon::config::{Config, defaults};
use parkd::proto::limits::{
    CONFIG_PLANS_MAX, DEVICE_NAME_BYTES, DEVICES_MAX, SESSION_TICKETS_MAX, TICKETS_MAX,
};

const FILE: &str = "parkd.toml";

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(Path::new(FILE), text) {
        Ok(config) => taken(&config),
        Err(error) => refused(&error),
    }
}

fn taken(config: &Config) {
    assert!(config.daemon.socket.is_absolute());
    assert!(config.park.park_us >= 1 && config.park.park_us <= config.park.backstop_us);
    assert!(config.predict.min_sleep_us <= config.predict.max_sleep_us);
    assert!(config.plans.contains_key(defaults::PLAN));
    assert!(config.plans.len() <= CONFIG_PLANS_MAX as usize + 1);
    assert!(config.limits.tickets <= TICKETS_MAX);
    assert!(config.limits.session_tickets <= SESSION_TICKETS_MAX);
    assert!((1..=DEVICES_MAX as usize).contains(&config.devices.len()));
    for (at, device) in config.devices.iter().enumerate() {
        assert!((1..=DEVICE_NAME_BYTES).contains(&device.name.len()));
        assert!(!config.devices[..at].iter().any(|other| other.name == device.name));
    }
}

/// `FILE:LINE:COLUMN: KEY: FOUND: ALLOWED`, a line for each, and nothing that steers a terminal.
fn refused(error: &Error) {
    assert_eq!(error.code, ErrorCode::ConfigInvalid);
    assert!(!error.detail.is_empty());
    for line in error.detail.lines() {
        let mut parts = line.splitn(4, ':');
        assert_eq!(parts.next(), Some(FILE), "{line:?}");
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        assert!(number() >= Some(1) && number() >= Some(1), "{line:?}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}
