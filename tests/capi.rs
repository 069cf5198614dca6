//! The C ABI: a C program against `include/parkd.h`, `libparkd.so` and a real daemon; and that
//! header, library and registry say the same.
//!
//! The library is a package of its own, which cargo builds here. What needs a C compiler, nm or
//! valgrind is skipped without: the package's own unit tests need none of them.

pub mod support;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use parkd::client::{Status, Waited};
use parkd::core::error::ErrorCode;

use support::{Daemon, Executor, skipped};

for_each_executor! {
    a_c_program_waits,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program to its end; none, and the test is skipped, where there is no such program.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(&format!("{}: {error}", command.get_program().display()));
            None
        }
    }
}

/// The library, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
        let mut build = Command::new(cargo);
        build.current_dir(root()).args(["build", "--package", "parkd-capi"]);
        build.args(["--locked", "--message-format", "json-render-diagnostics"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built = build.output().expect("cargo");
        assert!(built.status.success(), "{}", text(&built.stderr));
        let said = text(&built.stdout);
        let artifact = said.lines().find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let files = message["filenames"].as_array()?.iter();
            let mut files = files.filter_map(|file| file.as_str());
            files.find(|file| file.ends_with("/libparkd.so")).map(PathBuf::from)
        });
        artifact.expect("libparkd.so among what cargo built")
    })
}

/// The C program, built once; none where there is no C compiler.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi-roundtrip");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread"]);
        cc.arg("-I").arg(root().join("include"));
        cc.arg(root().join("capi/tests/roundtrip.c")).arg("-o").arg(&program);
        cc.arg("-L").arg(library().parent()?).arg("-lparkd");
        let built = run(&mut cc)?;
        assert!(built.status.success(), "{}", text(&built.stderr));
        Some(program)
    });
    built.as_deref()
}

/// Runs the C program, or one that runs it, against a daemon.
fn against(daemon: &Daemon, command: &mut Command) {
    command.env("LD_LIBRARY_PATH", library().parent().unwrap());
    command.env("PARKD_SOCKET", daemon.socket());
    if let Some(ended) = run(command) {
        assert!(ended.status.success(), "{}: {}", ended.status, text(&ended.stderr));
    }
}

fn a_c_program_waits(executor: &Executor) {
    let Some(program) = program() else { return };
    against(&Daemon::start(executor, ""), &mut Command::new(program));
}

// Once: who answers is no matter here, and valgrind is slow.
#[test]
fn a_c_program_leaks_nothing() {
    support::run(&support::IO_URING, |executor| {
        let Some(program) = program() else { return };
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--leak-check=full", "--error-exitcode=9"]).arg(program);
        against(&Daemon::start(executor, ""), &mut valgrind);
    });
}

fn header() -> String {
    fs::read_to_string(root().join("include/parkd.h")).unwrap()
}

/// The names in `code` that start with `parkd_` and that a `(` follows.
fn functions(code: &str) -> BTreeSet<String> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = code.match_indices("parkd_").map(|(at, _)| at);
    let starts = starts.filter(|&at| !code[..at].ends_with(of_name));
    let names = starts.filter_map(|at| {
        let name: String = code[at..].chars().take_while(|&c| of_name(c)).collect();
        code[at + name.len()..].starts_with('(').then_some(name)
    });
    names.collect()
}

/// C without its comments.
fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code + rest
}

#[test]
fn the_library_has_the_functions_of_the_header_and_nothing_else() {
    let Some(symbols) = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()))
    else {
        return;
    };
    assert!(symbols.status.success(), "{}", text(&symbols.stderr));
    let symbols = text(&symbols.stdout);
    let exported = symbols.lines().filter_map(|line| line.split(' ').next_back());
    let exported: BTreeSet<String> = exported.map(str::to_owned).collect();
    assert_eq!(exported, functions(&without_comments(&header())));
    assert!(exported.len() > 10, "{exported:?}");
}

/// `OneName` as `ONE_NAME`.
fn shouted(name: &str) -> String {
    let mut shouted = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !shouted.is_empty() {
            shouted.push('_');
        }
        shouted.push(c.to_ascii_uppercase());
    }
    shouted
}

/// The members of an enum of the header.
fn members(name: &str) -> Vec<String> {
    let code = without_comments(&header());
    let opening = format!("enum {name} {{");
    let (_, body) = code.split_once(&opening).unwrap_or_else(|| panic!("no {opening}"));
    let (body, _) = body.split_once('}').unwrap();
    body.split(',').map(|member| member.trim().to_owned()).collect()
}

#[test]
fn the_header_has_the_registrys_numbers() {
    let of = |code: &ErrorCode| format!("PARKD_E_{} = {}", shouted(code.name()), code.number());
    assert_eq!(members("parkd_error"), ErrorCode::ALL.iter().map(of).collect::<Vec<_>>());

    let of = |number| Status::from_number(number).map(|status| (format!("{status:?}"), number));
    let known = (0..=u8::MAX).filter_map(of);
    let known = known.map(|(name, number)| format!("PARKD_{} = {number}", shouted(&name)));
    let pending = "PARKD_PENDING = 0".to_owned();
    assert_eq!(members("parkd_status"), [pending].into_iter().chain(known).collect::<Vec<_>>());

    let found = [Waited::Immediate, Waited::Late, Waited::Parked, Waited::Blocked];
    let found = found.map(|w| format!("PARKD_{} = {}", shouted(&format!("{w:?}")), w as u8));
    let not_found = "PARKD_NOT_FOUND = 0".to_owned();
    assert_eq!(members("parkd_waited"), [not_found].into_iter().chain(found).collect::<Vec<_>>());
}
