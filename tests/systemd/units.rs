//! What systemd thinks of the units as they are installed.

use std::fs;
use std::process::{Command, Output};

use super::project;
use super::support::{Folder, skipped};

/// The most that systemd may say a service is exposed, in tenths.
const EXPOSURE_MAX: &str = "20";

fn analyze(arguments: &[&str]) -> Output {
    Command::new("systemd-analyze").args(arguments).output().expect("systemd-analyze")
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// Both units load without a word, and the service is exposed to little.
pub fn right_and_exposed_to_little() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skipped("systemd-analyze is not installed");
    }
    let folder = Folder::new();
    let units = ["parkd.service", "parkd.socket"].map(|unit| {
        let text = fs::read_to_string(project("systemd").join(unit)).expect("a unit");
        // The program is not installed here, and one that is missing is a mistake.
        let text = text.replace("/usr/bin/parkd ", concat!(env!("CARGO_BIN_EXE_parkd"), " "));
        fs::write(folder.file(unit), text).expect("a copy of a unit");
        folder.file(unit).to_str().expect("a path in UTF-8").to_owned()
    });
    let verified = analyze(&["verify", "--man=no", &units[0], &units[1]]);
    assert!(verified.status.success() && said(&verified).is_empty(), "{}", said(&verified));
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let secure = analyze(&["security", "--no-pager", "--offline=true", &threshold, &units[0]]);
    assert!(secure.status.success(), "{}", said(&secure));
}
