//! `parkd check-config` and `parkctl config`, as an operator meets them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

struct File(PathBuf);

impl File {
    fn new(bytes: &[u8]) -> File {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("parkd-config-{}-{count}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn check(path: &Path) -> Output {
    let parkd = env!("CARGO_BIN_EXE_parkd");
    Command::new(parkd).arg("check-config").arg(path).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Checks that the first mistake of a file is at this place, of this key, and said in these words.
fn refused(text: &str, line: u32, column: u32, key: &str, words: &[&str]) {
    let file = File::new(text.as_bytes());
    let output = check(&file.0);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}\n{said}");
    let start = format!("{}:{line}:{column}: {key}: ", file.0.display());
    let first = said.lines().next().unwrap();
    assert!(first.starts_with(&start), "{text}\nexpected {start}\n{said}");
    for word in words {
        assert!(first.contains(word), "{text}\nexpected {word}\n{said}");
    }
    assert!(said.contains("ConfigInvalid (51)"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_shipped_file_is_valid() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/parkd.toml");
    let output = check(&shipped);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stderr.is_empty());
}

#[test]
fn parkctl_prints_the_shipped_file() {
    let output = Command::new(env!("CARGO_BIN_EXE_parkctl")).arg("config").output().unwrap();
    let shipped = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/parkd.toml"));
    assert!(output.status.success());
    assert_eq!(output.stdout, shipped.unwrap());
}

#[test]
fn small_files_are_valid() {
    for text in ["", "# nothing\n", "[park]\n", "[park]\npark_us = 5000\n", "limits.sessions = 9"] {
        let file = File::new(text.as_bytes());
        let output = check(&file.0);
        assert_eq!(output.status.code(), Some(0), "{text}\n{}", stderr(&output));
    }
}

#[test]
fn wrong_keys() {
    refused("[parks]\n", 1, 2, "parks", &["unknown table", "daemon, park, predict"]);
    refused("socket = '/x'\n", 1, 1, "socket", &["unknown key"]);
    refused("[park]\nspin = 1\n", 2, 1, "park.spin", &["spin_us is meant"]);
    refused("[park]\n\npark_ms = 1\n", 3, 1, "park.park_ms", &["park_us is meant"]);
    refused("[park]\nx = 1\n", 2, 1, "park.x", &["unknown key", "one of park_us, backstop_us"]);
    refused("[park.deep]\n", 1, 7, "park.deep", &["unknown table"]);
    refused("park = { x = 1 }\n", 1, 10, "park.x", &["unknown key"]);
    refused("[[device]]\nname = 'a'\nid = 1\n", 3, 1, "device.id", &["one of name, kind, plan"]);
    refused("[daemon]\n\"\\u001b[31m\" = 1\n", 2, 1, "daemon.\\u{1b}[31m", &["unknown key"]);
}

#[test]
fn wrong_types() {
    refused("park = 5\n", 1, 8, "park", &["5", "[park]"]);
    refused("[daemon]\nsocket = 5\n", 2, 10, "daemon.socket", &["5", "an absolute path"]);
    refused("[daemon]\nstrict = \"yes\"\n", 2, 10, "daemon.strict", &["(a string)", "true or"]);
    refused("[daemon]\ncpu = true\n", 2, 7, "daemon.cpu", &["(a boolean)", "\"auto\""]);
    refused("[park]\npark_us = [1]\n", 2, 11, "park.park_us", &["(an array)", "an integer"]);
    refused("[park]\npark_us = 1.5\n", 2, 11, "park.park_us", &["1.5 (a float)"]);
    refused("[park]\npark_us = 1979-05-27\n", 2, 11, "park.park_us", &["(a date-time)"]);
    refused("[allow]\nuids = 5\n", 2, 8, "allow.uids", &["a list of"]);
    refused("[allow]\nuids = [5, \"me\"]\n", 2, 12, "allow.uids", &["\"me\"", "user numbers"]);
    refused("[allow]\ngroups = [5]\n", 2, 11, "allow.groups", &["group names"]);
    refused("[device]\nname = 'a'\n", 1, 1, "device", &["[[device]]"]);
    refused("device = [1]\n", 1, 11, "device", &["[[device]]"]);
    refused("[plans]\nx = 1\n", 2, 5, "plans.x", &["a plan's text"]);
}

#[test]
fn wrong_units() {
    refused("[park]\npark_us = \"50us\"\n", 2, 11, "park.park_us", &["microseconds", "unit: 50"]);
    refused("[park]\npark_us = 50us\n", 2, 11, "park.park_us", &["microseconds", "unit: 50"]);
    refused("[park]\nspin_us = '1.5 ms'\n", 2, 11, "park.spin_us", &["unit: 1500"]);
    refused("[park]\nspin_us = '50'\n", 2, 11, "park.spin_us", &["without quotes", ": 50"]);
    refused(
        "[park]\nspin_budget_percent = '5%'\n",
        2,
        23,
        "park.spin_budget_percent",
        &["percent", "without quotes or a unit"],
    );
}

#[test]
fn wrong_values() {
    refused("[daemon]\nsocket = 'p.sock'\n", 2, 10, "daemon.socket", &["an absolute path"]);
    let long = format!("[daemon]\nsocket = '/{}'\n", "x".repeat(103));
    refused(&long, 2, 10, "daemon.socket", &["at most 103 bytes", "..."]);
    refused("[daemon]\ncpu = \"any\"\n", 2, 7, "daemon.cpu", &["\"auto\"", "0 to 1023"]);
    refused("[daemon]\ncpu = 1024\n", 2, 7, "daemon.cpu", &["1024", "0 to 1023"]);
    refused("[daemon]\ncpu = -1\n", 2, 7, "daemon.cpu", &["-1", "0 to 1023"]);
    refused(
        "[daemon]\nexecutor = 'uring'\n",
        2,
        12,
        "daemon.executor",
        &["\"io-uring\", \"gpu-reactor\", \"naive\""],
    );
    refused("[daemon]\nbell = 'gong'\n", 2, 8, "daemon.bell", &["\"auto\", \"futex\""]);
    let both = "[daemon]\nbell = 'futex'\nexecutor = 'gpu-reactor'\n";
    refused(both, 2, 8, "daemon.bell", &["\"eventfd\" where executor = \"gpu-reactor\""]);
    refused("[park]\npm_qos = 'auto'\n", 2, 10, "park.pm_qos", &["\"hot\"", "\"never\""]);
    refused("[predict]\nestimator = 'max'\n", 2, 13, "predict.estimator", &["\"min\""]);
    refused("[allow]\nuids = [4294967295]\n", 2, 9, "allow.uids", &["0 to 4294967294"]);
    refused("[allow]\ngroups = ['']\n", 2, 11, "allow.groups", &["group names"]);
    refused("[[device]]\nkind = 'gpu'\n", 2, 8, "device.kind", &["\"cuda\"", "\"other\""]);
    refused("[[device]]\nname = 'a b'\n", 2, 8, "device.name", &["1 to 32"]);
    let twice = "[[device]]\nname = 'a'\n[[device]]\nname = 'a'\n";
    refused(twice, 4, 8, "device.name", &["again", "once"]);
    refused("[[device]]\n[[device]]\n", 2, 1, "device.name", &["no name, which means \"default\""]);
}

#[test]
fn wrong_ranges() {
    refused("[park]\npark_us = 0\n", 2, 11, "park.park_us", &["0: ", "from 1 to 10000"]);
    refused("[park]\npark_us = 10001\n", 2, 11, "park.park_us", &["from 1 to 10000"]);
    refused("[park]\npark_us = -1\n", 2, 11, "park.park_us", &["-1: "]);
    let huge = "[park]\npark_us = 99999999999999999999999999\n";
    refused(huge, 2, 11, "park.park_us", &["from 1 to 10000"]);
    refused(
        "[park]\npark_us = 9\nbackstop_us = 8\n",
        3,
        15,
        "park.backstop_us",
        &["at least park_us, which is 9"],
    );
    refused(
        "[predict]\nmax_sleep_us = 8\nmin_sleep_us = 9\n",
        2,
        16,
        "predict.max_sleep_us",
        &["at least min_sleep_us, which is 9"],
    );
    refused("[predict]\nwindow = 17\n", 2, 10, "predict.window", &["from 1 to 16", "samples"]);
    refused("[limits]\nsessions = 1025\n", 2, 12, "limits.sessions", &["from 1 to 1024"]);
}

#[test]
fn wrong_plans() {
    let text = "[plans]\nx = \"flag:park_us=0,backstop_us=1\"\n";
    refused(text, 2, 19, "plans.x", &["park_us = 0", "1..=10000"]);
    refused("[plans]\ndefault = 'sleep'\n", 2, 12, "plans.default", &["block, poll or flag:"]);
    refused("[plans]\npoll = 'block'\n", 2, 1, "plans.poll", &["no name for a plan"]);
    refused("[plans]\n\"a:b\" = 'block'\n", 2, 1, "plans.a:b", &["no name for a plan"]);
    refused("[[device]]\nplan = 'slow'\n", 2, 8, "device.plan", &["[plans]: default"]);
    refused("[[device]]\nplan = 'flag:x'\n", 2, 14, "device.plan", &["key = x"]);
    refused("[[device]]\nplan = ''\n", 2, 8, "device.plan", &["park"]);
}

#[test]
fn wrong_toml() {
    refused("[park]\npark_us = \n", 2, 11, "park.park_us", &[]);
    refused("[daemon]\nsocket = /x\n", 2, 10, "daemon.socket", &["must be quoted"]);
    refused("[park]\npark_us = 1\npark_us = 2\n", 3, 1, "park_us", &["duplicate key", "once"]);
    refused("[park]\n[daemon]\n[park]\n", 3, 2, "park", &["duplicate key"]);
    refused("[park\n", 1, 6, "park", &["unclosed table", "`]`"]);
    refused("park_us\n", 1, 8, "syntax", &["key with no value"]);
    refused("[daemon]\nsocket = \u{1b}[31m\n", 2, 10, "daemon.socket", &["\\u{1b} "]);
    refused("[daemon]\nsocket = \"x\n", 2, 12, "daemon.socket", &["invalid basic string"]);
    refused("# h\u{e9}llo\n\u{e9} = 1\n", 2, 1, "\u{e9}", &["unknown key"]);
}

#[test]
fn files_that_are_no_text() {
    let file = File::new(b"[park]\nspin_us = \xff\n");
    let said = stderr(&check(&file.0));
    assert!(said.starts_with(&format!("{}:2:11: file: ", file.0.display())), "{said}");

    let file = File::new(&vec![b'#'; 1024 * 1024 + 1]);
    let output = check(&file.0);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("at most 1048576 bytes"));

    for path in ["/nonexistent/parkd.toml", "/"] {
        let output = check(Path::new(path));
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.starts_with(&format!("{path}: cannot be read: ")), "{said}");
        assert!(said.contains("ConfigUnreadable (77): Check the path"), "{said}");
    }
}
