//! From the file's tables to a [`Config`]: which keys there are, and what each may be.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::defaults::{
    CONNECTS_PER_SECOND, FDS_PER_UID, LANES_PER_UID, SESSIONS_PER_UID, SUBMITS_PER_SECOND,
    TICKETS_PER_UID,
};
use super::mistake::{Mistake, shown};
use super::table::{MICROS, Reading, Table, integer};
use super::{Allow, Config, Cpu, Daemon, Executor, Limits, Park, PmQos, Predict, defaults, plans};
use crate::core::estimator::EstimatorKind;
use crate::core::plan;
use crate::proto::layout::BellKind;
use crate::proto::limits;

const PERCENT: &str = "percent";

/// What reading gave.
pub(super) struct Outcome {
    /// The configuration, with the default of each key that was wrong.
    pub(super) config: Config,
    /// What was wrong.
    pub(super) mistakes: Vec<Mistake>,
    /// The full name of every key that there is.
    pub(super) known: Vec<String>,
}

/// Reads the tables of a file with this text.
pub(super) fn config(text: &str, entries: &DeTable<'_>) -> Outcome {
    let reading = Reading::new(text);
    let mut root = reading.root(entries);
    let daemon = daemon(root.table("daemon"));
    let park = park(root.table("park"));
    let predict = predict(root.table("predict"));
    let plans = plans::plans(root.table("plans"), &park, &predict);
    let limits = limits(root.table("limits"));
    let allow = allow(root.table("allow"));
    let devices = plans::devices(&mut root, &plans);
    root.finish();
    let config = Config { daemon, park, predict, plans, limits, allow, devices };
    let (mistakes, known) = reading.end();
    Outcome { config, mistakes, known }
}

fn daemon(mut table: Table<'_, '_>) -> Daemon {
    let socket = table.string(
        "socket",
        |path| {
            path.starts_with('/')
                && !path.ends_with('/')
                && !path.contains('\0')
                && path.len() <= limits::SOCKET_PATH_BYTES_MAX
        },
        &format!("an absolute path of at most {} bytes", limits::SOCKET_PATH_BYTES_MAX),
    );
    let cpu = cpu(&mut table);
    let executor = table.choice("executor", Executor::ALL);
    let strict = table.boolean("strict");
    let fd_store = table.boolean("fd_store");
    let bells =
        [("auto", None), ("futex", Some(BellKind::Futex)), ("eventfd", Some(BellKind::Eventfd))];
    let bell = table.choice("bell", &bells).flatten();
    if (executor, bell) == (Some(Executor::GpuReactor), Some(BellKind::Futex)) {
        let allowed = "\"auto\" or \"eventfd\" where executor = \"gpu-reactor\"";
        table.refuse("bell", allowed);
    }
    table.finish();
    Daemon {
        socket: PathBuf::from(socket.unwrap_or(defaults::SOCKET)),
        cpu: cpu.unwrap_or(Cpu::Auto),
        executor: executor.unwrap_or(Executor::IoUring),
        strict: strict.unwrap_or(false),
        fd_store: fd_store.unwrap_or(true),
        bell,
    }
}

fn cpu(table: &mut Table<'_, '_>) -> Option<Cpu> {
    let value = table.value("cpu")?;
    if value.get_ref().as_str() == Some("auto") {
        return Some(Cpu::Auto);
    }
    let number = integer(value.get_ref()).filter(|number| defaults::CPU.contains(number));
    if number.is_none() {
        let (first, last) = (defaults::CPU.start(), defaults::CPU.end());
        table.refuse("cpu", &format!("\"auto\", or an integer from {first} to {last}"));
    }
    number.map(Cpu::Number)
}

fn park(mut table: Table<'_, '_>) -> Park {
    let park_us = table.integer("park_us", plan::PARK_US, MICROS);
    let backstop_us = table.integer("backstop_us", plan::BACKSTOP_US, MICROS);
    if let (Some(park_us), Some(backstop_us)) = (park_us, backstop_us)
        && backstop_us < park_us
    {
        table.refuse("backstop_us", &format!("at least park_us, which is {park_us}"));
    }
    let spin_us = table.integer("spin_us", defaults::SPIN_US_BOUND, MICROS);
    let spin_budget_percent =
        table.integer("spin_budget_percent", defaults::SPIN_BUDGET_PERCENT_BOUND, PERCENT);
    let pm_qos = table.choice("pm_qos", PmQos::ALL);
    table.finish();
    let park_us = park_us.unwrap_or(
        backstop_us.map_or(defaults::PARK_US, |backstop_us| backstop_us.min(defaults::PARK_US)),
    );
    Park {
        park_us,
        backstop_us: backstop_us.unwrap_or(defaults::BACKSTOP_US.max(park_us)),
        spin_us: spin_us.unwrap_or(defaults::SPIN_US),
        spin_budget_percent: spin_budget_percent.unwrap_or(defaults::SPIN_BUDGET_PERCENT),
        pm_qos: pm_qos.unwrap_or(PmQos::Hot),
    }
}

fn predict(mut table: Table<'_, '_>) -> Predict {
    let kinds: Vec<_> = EstimatorKind::ALL.iter().map(|kind| (kind.label(), *kind)).collect();
    let estimator = table.choice("estimator", &kinds);
    let margin_us = table.integer("margin_us", plan::MARGIN_US, MICROS);
    let min_sleep_us = table.integer("min_sleep_us", plan::MIN_SLEEP_US, MICROS);
    let max_sleep_us = table.integer("max_sleep_us", plan::MAX_SLEEP_US, MICROS);
    if let (Some(least), Some(most)) = (min_sleep_us, max_sleep_us)
        && most < least
    {
        table.refuse("max_sleep_us", &format!("at least min_sleep_us, which is {least}"));
    }
    let window = table.integer("window", plan::WINDOW, "samples");
    let late_percent = table.integer("late_percent", defaults::LATE_PERCENT_BOUND, PERCENT);
    table.finish();
    let min_sleep_us = min_sleep_us.unwrap_or(
        max_sleep_us.map_or(defaults::MIN_SLEEP_US, |most| most.min(defaults::MIN_SLEEP_US)),
    );
    Predict {
        estimator: estimator.unwrap_or(EstimatorKind::Adaptive),
        margin_us: margin_us.unwrap_or(defaults::MARGIN_US),
        min_sleep_us,
        max_sleep_us: max_sleep_us.unwrap_or(defaults::MAX_SLEEP_US.max(min_sleep_us)),
        window: window.unwrap_or(defaults::WINDOW),
        late_percent: late_percent.unwrap_or(defaults::LATE_PERCENT),
    }
}

fn limits(mut table: Table<'_, '_>) -> Limits {
    use limits as max;
    let uid_lanes_max = max::SESSIONS_MAX * max::SESSION_LANES_MAX;
    let uid_fds_max = max::SESSIONS_MAX * max::SESSION_FDS_MAX;
    let (ring, lanes) = (max::RING_ENTRIES_MIN, max::LANES_MIN);
    let mut limit =
        |key, least, most, default| table.integer(key, least..=most, "").unwrap_or(default);
    // Without a default of its own a limit is at its ceiling.
    let mut ceiling = |key, least, most| limit(key, least, most, most);
    let sessions = ceiling("sessions", 1, max::SESSIONS_MAX);
    let tickets = ceiling("tickets", ring, max::TICKETS_MAX);
    let session_tickets = ceiling("session_tickets", ring, max::SESSION_TICKETS_MAX);
    let session_lanes = ceiling("session_lanes", lanes, max::SESSION_LANES_MAX);
    let session_fds = ceiling("session_fds", 0, max::SESSION_FDS_MAX);
    let limits = Limits {
        sessions,
        tickets,
        session_tickets,
        session_lanes,
        session_fds,
        sessions_per_uid: limit("sessions_per_uid", 1, max::SESSIONS_MAX, SESSIONS_PER_UID),
        tickets_per_uid: limit("tickets_per_uid", ring, max::TICKETS_MAX, TICKETS_PER_UID),
        lanes_per_uid: limit("lanes_per_uid", lanes, uid_lanes_max, LANES_PER_UID),
        fds_per_uid: limit("fds_per_uid", 0, uid_fds_max, FDS_PER_UID),
        connects_per_second: limit(
            "connects_per_second",
            1,
            max::CONNECTS_PER_SECOND_MAX,
            CONNECTS_PER_SECOND,
        ),
        // A whole SUBMIT fits.
        submits_per_second: limit(
            "submits_per_second",
            max::SUBMIT_TICKETS_MAX,
            max::SUBMITS_PER_SECOND_MAX,
            SUBMITS_PER_SECOND,
        ),
    };
    table.finish();
    limits
}

fn allow(mut table: Table<'_, '_>) -> Allow {
    // The last number means "no id" to the kernel.
    let id = |value: &DeValue<'_>| integer(value).filter(|id| *id != u32::MAX);
    let uids = table.list("uids", id, "user numbers, 0 to 4294967294");
    let gids = table.list("gids", id, "group numbers, 0 to 4294967294");
    let name = |value: &DeValue<'_>| value.as_str().filter(|name| is_name(name)).map(str::to_owned);
    let groups = table.list("groups", name, "group names, in quotes");
    table.finish();
    Allow {
        uids: uids.unwrap_or_default(),
        gids: gids.unwrap_or_default(),
        groups: groups.unwrap_or_else(|| vec![defaults::GROUP.to_owned()]),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['\0', ':', '\n'])
}

/// The mistakes of a text that is not TOML. `mistakes` are those of what could be made of it all
/// the same: where one is at the same place it says more (`park_us = 50us` is a number with a unit
/// before it is a string without quotes); the others may be wrong themselves and are dropped.
pub(super) fn syntax(
    text: &str,
    root: &DeTable<'_>,
    refused: &[toml::de::Error],
    mistakes: Vec<Mistake>,
) -> Vec<Mistake> {
    let place = |error: &toml::de::Error| error.span().unwrap_or(text.len()..text.len());
    let mistake = |error: &toml::de::Error| {
        let span = place(error);
        if let Some(better) = mistakes.iter().find(|mistake| mistake.at == span.start) {
            return better.clone();
        }
        let (what, allowed) = match error.message().split_once(", expected ") {
            Some((what, expected)) => (what, expected.to_owned()),
            None => (error.message(), "TOML, with each table and key once".to_owned()),
        };
        let there = shown(text, &span);
        let (key, found) = match key_at(root, span.start) {
            Some(key) if there.is_empty() => (key, what.to_owned()),
            Some(key) => (key, format!("{there} ({what})")),
            // A key that stands there twice, or is none.
            None if there.is_empty() => ("syntax".to_owned(), what.to_owned()),
            None => (there, what.to_owned()),
        };
        Mistake { at: span.start, key, found, allowed }
    };
    refused.iter().map(mistake).collect()
}

/// The full name of the key that an offset belongs to.
fn key_at(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().escape_debug();
        if let Some(inner) = value.get_ref().as_table().and_then(|table| key_at(table, at)) {
            return Some(format!("{name}.{inner}"));
        }
        let holds = |span: std::ops::Range<usize>| span.start <= at && at <= span.end;
        (holds(key.span()) || holds(value.span())).then(|| name.to_string())
    })
}
