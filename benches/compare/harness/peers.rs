//! The program with a peer in it, from `benches/peers`: a package of its own, since what it stands
//! on is more than anybody else here needs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Doing, Result};

/// Where the package is.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers");

/// Builds it, or with `built` takes what was built before; answers the program, or why there is
/// none.
pub fn program(built: bool) -> std::result::Result<PathBuf, String> {
    let manifest = PathBuf::from(FOLDER).join("Cargo.toml");
    let program = PathBuf::from(FOLDER).join("target/release/parkd-peers");
    if !manifest.exists() {
        return Err("benches/peers is not there".into());
    }
    if !built {
        build(&manifest)?;
    }
    match program.exists() {
        true => Ok(program),
        false => Err("not built: cargo build --release in benches/peers".into()),
    }
}

fn build(manifest: &std::path::Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(manifest)
        // The package's own, whatever this build's is.
        .env("CARGO_TARGET_DIR", PathBuf::from(FOLDER).join("target"))
        .stdin(Stdio::null())
        .output()
        .doing("cargo")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find(|line| line.starts_with("error")).unwrap_or("error");
    Err(format!("it cannot be built here: {line}"))
}
