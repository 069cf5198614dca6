//! io_uring taken away by the sysctl, which is the whole machine's: rings that exist go on, and
//! nobody else can make one meanwhile. So this is skipped unless PARKD_SYSCTL=1 says that nothing
//! else runs here; the value is put back in the end.

pub mod support;

mod forbidding;

use std::fs;

use support::skipped;

const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// The sysctl, to be put back as it was.
struct Sysctl(String);

impl Sysctl {
    fn set(value: &str) -> std::io::Result<Sysctl> {
        let before = fs::read_to_string(SYSCTL)?;
        fs::write(SYSCTL, value)?;
        Ok(Sysctl(before))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SYSCTL, &self.0) {
            eprintln!("{SYSCTL} cannot be put back to {}: {error}", self.0.trim());
        }
    }
}

#[test]
fn the_sysctl_takes_the_ring_away() {
    if std::env::var_os("PARKD_SYSCTL").is_none_or(|value| value != "1") {
        return skipped("kernel.io_uring_disabled: set PARKD_SYSCTL=1 where nothing else runs");
    }
    let cases = [
        ("2", "unprivileged", "kernel.io_uring_disabled is 2"),
        (
            "1",
            "unprivileged",
            "kernel.io_uring_disabled is 1 and this process is not in kernel.io_uring_group",
        ),
    ];
    for (value, how, why) in cases {
        match Sysctl::set(value) {
            Ok(_restored) => forbidding::without(how, why),
            Err(error) => return skipped(&format!("{SYSCTL} cannot be written: {error}")),
        }
    }
}
