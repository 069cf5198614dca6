//! `[plans]` and `[[device]]`: names for ways to wait, and what they are used on.
//!
//! A plan's *name* is never a plan's text: `block` and `poll` are refused as names, and a name has
//! no colon, so that a device may be given either.

use std::collections::BTreeMap;

use super::defaults;
use super::table::{Table, Value};
use super::{Device, DeviceKind, Park, Predict};
use crate::core::bands::Bands;
use crate::core::error::Error;
use crate::core::plan::{self, Plan};
use crate::proto::limits::{CONFIG_PLANS_MAX, DEVICE_NAME_BYTES, DEVICES_MAX, PLAN_NAME_BYTES_MAX};

/// Reads `[plans]`. The default plan is made of `[park]` and `[predict]` unless it stands there.
pub(super) fn plans(
    mut table: Table<'_, '_>,
    park: &Park,
    predict: &Predict,
) -> BTreeMap<String, Bands> {
    let mut plans = BTreeMap::from([(defaults::PLAN.to_owned(), default_plan(park, predict))]);
    table.value(defaults::PLAN);
    for (key, value) in table.entries() {
        let name = key.get_ref().as_ref();
        if !is_name(name, PLAN_NAME_BYTES_MAX, "-_.") || Bands::parse(name).is_ok() {
            let allowed =
                format!("1 to {PLAN_NAME_BYTES_MAX} of a-z A-Z 0-9 - _ ., but not block or poll");
            table.refuse_key(key, "no name for a plan", &allowed);
        } else if plans.len() == CONFIG_PLANS_MAX as usize && !plans.contains_key(name) {
            table.refuse_key(key, "one plan too many", &format!("at most {CONFIG_PLANS_MAX}"));
        } else if let Some(bands) = bands(&table, name, value) {
            plans.insert(name.to_owned(), bands);
        }
    }
    plans
}

fn default_plan(park: &Park, predict: &Predict) -> Bands {
    let predict = plan::Predict {
        margin_us: predict.margin_us,
        min_sleep_us: predict.min_sleep_us,
        max_sleep_us: predict.max_sleep_us,
        window: predict.window as u8,
        wake_early: false,
    };
    let park = plan::Park::Flag { park_us: park.park_us, backstop_us: park.backstop_us };
    Bands::from(Plan { park, predict: Some(predict) })
}

/// Reads each `[[device]]`; without any there is one of defaults only.
pub(super) fn devices(root: &mut Table<'_, '_>, plans: &BTreeMap<String, Bands>) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for mut table in root.tables("device") {
        if devices.len() == DEVICES_MAX as usize {
            table.refuse_found("name", "one device too many", &format!("at most {DEVICES_MAX}"));
            break;
        }
        let device = device(&mut table, plans);
        if devices.iter().any(|other| other.name == device.name) {
            let default = defaults::DEVICE;
            let found = match table.has("name") {
                true => format!("{:?} again", device.name),
                false => format!("no name, which means {default:?}, and another is called that"),
            };
            table.refuse_found("name", &found, "each name once");
        }
        devices.push(device);
        table.finish();
    }
    devices
}

fn device(table: &mut Table<'_, '_>, plans: &BTreeMap<String, Bands>) -> Device {
    let name = table.string(
        "name",
        |name| is_name(name, DEVICE_NAME_BYTES, "-_.:"),
        &format!("a string of 1 to {DEVICE_NAME_BYTES} of a-z A-Z 0-9 - _ . :"),
    );
    let kind = table.choice("kind", DeviceKind::ALL);
    let plan = table.value("plan").and_then(|value| device_plan(table, value, plans));
    Device {
        name: name.unwrap_or(defaults::DEVICE).to_owned(),
        kind: kind.unwrap_or(DeviceKind::Other),
        plan: plan.unwrap_or(plans[defaults::PLAN]),
    }
}

fn device_plan(
    table: &Table<'_, '_>,
    value: Value<'_>,
    plans: &BTreeMap<String, Bands>,
) -> Option<Bands> {
    let text = value.get_ref().as_str().unwrap_or_default();
    if let Some(bands) = plans.get(text) {
        return Some(*bands);
    }
    if is_name(text, PLAN_NAME_BYTES_MAX, "-_.") && Bands::parse(text).is_err() {
        let names: Vec<&str> = plans.keys().map(String::as_str).collect();
        let allowed = format!("a plan's text, or a name of [plans]: {}", names.join(", "));
        table.refuse("plan", &allowed);
        return None;
    }
    bands(table, "plan", value)
}

/// The plan, or bands of plans, of a string value.
fn bands(table: &Table<'_, '_>, key: &str, value: Value<'_>) -> Option<Bands> {
    let Some(text) = value.get_ref().as_str() else {
        table.refuse(key, "a plan's text, in quotes");
        return None;
    };
    match Bands::parse(text) {
        Ok(bands) => Some(bands),
        Err(error) => {
            let (found, column) = refusal(&error);
            table.refuse_inside(key, value, column - 1, found);
            None
        }
    }
}

/// What a plan's refusal says, and of which column, from 1: `InvalidPlan` has one form.
fn refusal(error: &Error) -> (&str, usize) {
    let text = error.detail.strip_prefix("plan: ").unwrap_or(&error.detail);
    let end = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (column "));
    match end.map(|(what, column)| (what, column.parse())) {
        Some((what, Ok(column))) if column > 0 => (what, column),
        _ => (text, 1),
    }
}

fn is_name(name: &str, bytes_max: usize, marks: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    !name.is_empty() && name.len() <= bytes_max && name.chars().all(plain)
}
