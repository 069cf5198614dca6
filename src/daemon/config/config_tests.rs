//! What a configuration says, and what is said of a wrong one.

use std::collections::BTreeSet;
use std::path::Path;

use super::defaults;
use super::mistake::position;
use super::*;
use crate::core::plan::Plan;

const SHIPPED: &str = include_str!("../../../config/parkd.toml");

fn parse(text: &str) -> Config {
    Config::parse(Path::new("x.toml"), text).unwrap()
}

fn refused(text: &str) -> Vec<String> {
    let error = Config::parse(Path::new("x.toml"), text).unwrap_err();
    assert_eq!(error.code, ErrorCode::ConfigInvalid);
    error.detail.lines().map(str::to_owned).collect()
}

#[test]
fn the_shipped_file_is_the_default() {
    assert_eq!(parse(SHIPPED), Config::default());
    assert_eq!(parse(""), Config::default());
}

#[test]
fn the_shipped_file_has_every_key_and_no_other() {
    let mut file = BTreeSet::new();
    let mut table = String::new();
    for line in SHIPPED.lines() {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_matches(['[', ']']).to_owned();
            file.insert(table.clone());
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert!(file.insert(format!("{table}.{key}")), "{key} twice");
        }
    }
    assert_eq!(file, Config::keys().into_iter().collect());
    assert_eq!(SHIPPED.lines().filter(|line| line.starts_with("socket")).count(), 1);
}

#[test]
fn every_key_of_the_shipped_file_is_explained() {
    let mut explained = false;
    for line in SHIPPED.lines() {
        match line {
            comment if comment.starts_with("# ") => explained = true,
            "" => explained = false,
            header if header.starts_with('[') => {}
            key => assert!(std::mem::take(&mut explained), "{key}"),
        }
    }
}

#[test]
fn a_file_of_one_key_is_valid() {
    let mut table = "";
    let mut keys = 0;
    for line in SHIPPED.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        if line.starts_with('[') {
            table = line;
            continue;
        }
        assert_eq!(parse(&format!("{table}\n{line}\n")), Config::default(), "{line}");
        keys += 1;
    }
    assert_eq!(keys + 7, Config::keys().len());
}

// The comments promise ranges: "(1 to 10000", of the key that follows.
#[test]
fn the_ranges_in_the_shipped_file_are_those_that_are_checked() {
    let (mut table, mut range, mut checked) = ("", None, 0);
    for line in SHIPPED.lines() {
        if line.starts_with('[') {
            table = line;
        } else if line.starts_with('#') {
            range = range_in(line).or(range);
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some((least, most)) = range.take()
        {
            let file = |value: i64| format!("{table}\n{key} = {value}\n");
            for value in [least, most] {
                parse(&file(value));
            }
            for value in [least - 1, most + 1] {
                let said = refused(&file(value)).remove(0);
                assert!(said.contains(&format!("from {least} to {most}")), "{key}: {said}");
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 21);
}

fn range_in(comment: &str) -> Option<(i64, i64)> {
    let (least, rest) = comment.rsplit_once('(')?.1.split_once(" to ")?;
    let most = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((least.parse().ok()?, most.parse().ok()?))
}

#[test]
fn the_default_plan_follows_park_and_predict_unless_it_is_given() {
    let text = "flag:park_us=70,backstop_us=1000\
                +predict:margin_us=5,min_sleep_us=100,max_sleep_us=50000,window=3";
    let config = parse("[park]\npark_us = 70\n[predict]\nmargin_us = 5\nwindow = 3");
    assert_eq!(config.plans[defaults::PLAN].label(), text);
    assert_eq!(config.devices[0].plan.label(), text);
    let config = parse("[park]\npark_us = 70\n[plans]\ndefault = \"poll\"");
    assert_eq!(config.devices[0].plan.label(), "poll");
}

#[test]
fn a_default_gives_way_to_what_the_file_says() {
    assert_eq!(parse("park.park_us = 5000").park.backstop_us, 5000);
    assert_eq!(parse("park.backstop_us = 20").park.park_us, 20);
    assert_eq!(parse("predict.max_sleep_us = 10").predict.min_sleep_us, 10);
    assert_eq!(parse("predict.min_sleep_us = 60000").predict.max_sleep_us, 60_000);
    for (least, most) in [(1, 1), (10_000, 10_000), (1, 1_000_000)] {
        let park = parse(&format!("park = {{ park_us = {least}, backstop_us = {most} }}")).park;
        assert_eq!((park.park_us, park.backstop_us), (least, most));
    }
}

#[test]
fn everything_that_a_file_may_say_is_read() {
    let config = parse(
        r#"
        [daemon]
        socket = "/tmp/p.sock"
        cpu = 1023
        executor = "gpu-reactor"
        strict = true
        bell = "eventfd"
        [plans]
        slow = "block"
        banded = "poll;rows>=64:block"
        [limits]
        sessions = 1
        fds_per_uid = 0
        connects_per_second = 1
        submits_per_second = 256
        [allow]
        uids = [0, 0x3E8]
        gids = [4_294_967_294]
        groups = []
        [[device]]
        name = "gpu:0"
        kind = "cuda"
        plan = "banded"
        [[device]]
        name = "gpu:1"
        kind = "hip"
        plan = "flag:park_us=1,backstop_us=2"
        [[device]]
        "#,
    );
    assert_eq!(config.daemon.socket, Path::new("/tmp/p.sock"));
    assert_eq!(config.daemon.cpu, Cpu::Number(1023));
    assert_eq!(config.daemon.executor, Executor::GpuReactor);
    assert!(config.daemon.strict);
    assert_eq!(config.daemon.bell, Some(BellKind::Eventfd));
    assert_eq!(config.plans.keys().collect::<Vec<_>>(), ["banded", "default", "slow"]);
    assert_eq!((config.limits.sessions, config.limits.fds_per_uid), (1, 0));
    assert_eq!((config.limits.connects_per_second, config.limits.submits_per_second), (1, 256));
    assert_eq!((config.allow.uids, config.allow.gids), (vec![0, 1000], vec![u32::MAX - 1]));
    assert!(config.allow.groups.is_empty());
    let devices: Vec<_> =
        config.devices.iter().map(|d| (d.name.as_str(), d.kind.name(), d.plan.label())).collect();
    assert_eq!(devices[0], ("gpu:0", "cuda", "poll;rows>=64:block".to_owned()));
    assert_eq!(devices[1], ("gpu:1", "hip", "flag:park_us=1,backstop_us=2".to_owned()));
    assert_eq!(devices[2], ("default", "other", config.plans[defaults::PLAN].label()));
    assert_eq!(config.plans["slow"], Bands::from(Plan::parse("block").unwrap()));
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_file() {
    let lines = refused("[limits]\nsessions = 0\n[park]\nspin_us = -1\npark_us = 50.0\n");
    assert_eq!(
        lines,
        [
            "x.toml:2:12: limits.sessions: 0: an integer from 1 to 1024",
            "x.toml:4:11: park.spin_us: -1: an integer from 0 to 10000, in microseconds",
            "x.toml:5:11: park.park_us: 50.0 (a float): an integer from 1 to 10000, \
             in microseconds",
        ]
    );
}

#[test]
fn a_syntax_error_keeps_the_better_text_and_drops_what_follows_from_it() {
    assert_eq!(
        refused("[park]\npark_us = 2ms\nspin_us = 99999\n"),
        ["x.toml:2:11: park.park_us: 2ms (a string): an integer from 1 to 10000, \
          in microseconds, without quotes or a unit: 2000"]
    );
    assert_eq!(
        refused("[daemon]\nsocket = /tmp/x\n"),
        ["x.toml:2:10: daemon.socket: /tmp/x (string values must be quoted): literal string"]
    );
}

#[test]
fn a_mistake_in_a_plan_is_placed_inside_its_text() {
    let at = |text: &str| refused(text).remove(0).split(": ").next().unwrap().to_owned();
    assert_eq!(at("[plans]\nx = \"flag:park_us=x,backstop_us=1\"\n"), "x.toml:2:19");
    assert_eq!(at("[plans]\nx = 'poll;rows>=9:bloc'\n"), "x.toml:2:19");
    assert_eq!(at("[plans]\nx = \'\'\'\nflag:park_us=x,backstop_us=1\'\'\'\n"), "x.toml:3:14");
    assert_eq!(at("[plans]\nx = \"fl\\u0061g:park_us=x\"\n"), "x.toml:2:5");
    assert_eq!(at("[[device]]\nplan = \"flag:park_us=0,backstop_us=1\"\n"), "x.toml:2:22");
}

#[test]
fn tables_of_too_many_are_refused() {
    let plans = |count| {
        let plans: String = (0..count).map(|n| format!("p{n} = \"poll\"\n")).collect();
        format!("[plans]\n{plans}")
    };
    assert_eq!(parse(&plans(63)).plans.len(), 64);
    assert_eq!(refused(&plans(64)).len(), 1);
    let devices =
        |count| (0..count).map(|n| format!("[[device]]\nname = \"{n}\"\n")).collect::<String>();
    assert_eq!(parse(&devices(64)).devices.len(), 64);
    assert_eq!(
        refused(&devices(65)),
        ["x.toml:130:8: device.name: one device too many: at most 64"]
    );
}

#[test]
fn positions_count_characters_from_one() {
    assert_eq!(position("", 0), (1, 1));
    assert_eq!(position("a\nbc", 2), (2, 1));
    assert_eq!(position("\u{e9}\u{e9}=", 4), (1, 3));
    assert_eq!(position("a\n", 9), (2, 1));
}
