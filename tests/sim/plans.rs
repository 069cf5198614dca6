//! The plans that the world waits by, and how long each may take to find a number that is there.

use parkd::core::bands::Bands;
use parkd::core::plan::{Park, Plan};
use parkd::engine::Config;

/// What clients may register; the first [`super::seat::DEVICES`] are the devices' own.
const TEXTS: &[&str] = &[
    "flag:park_us=50,backstop_us=500",
    "block",
    "poll",
    "flag:park_us=100,backstop_us=1000\
     +predict:margin_us=30,min_sleep_us=20,max_sleep_us=1500,window=4",
    "poll+predict:margin_us=20,min_sleep_us=10,max_sleep_us=1000,window=8,wake=early",
    "block;rows>=10:flag:park_us=20,backstop_us=20;rows>=100:poll",
    "flag:park_us=1,backstop_us=1",
];

/// How many there are.
pub const COUNT: u64 = TEXTS.len() as u64;

/// The plan of this number.
pub fn bands(number: u64) -> Bands {
    Bands::parse(TEXTS[number as usize]).unwrap()
}

/// Nanoseconds after which a ticket that waits by this plan, first on its lane, is answered at the
/// latest once its number is there, the daemon's own lateness aside.
pub fn bound(plan: &Plan, config: &Config) -> u64 {
    let sleep = plan.predict.map_or(0, |predict| u64::from(predict.max_sleep_us) * 1000);
    sleep
        + match plan.park {
            Park::Block => config.backstop.0,
            Park::Poll => config.park.0,
            Park::Flag { park_us, .. } => u64::from(park_us) * 1000,
        }
}
