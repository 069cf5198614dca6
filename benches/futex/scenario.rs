//! The ways in which waits and wakes are made to meet.

/// What a waker does before each wake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    /// At most a few microseconds: the wake meets the arming of the wait.
    Race,
    /// Up to 3 ms of sleep: the waiter's CPU has gone idle.
    Rest,
}

/// One of them.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// Words that the ring's waiter waits on, all at once.
    pub words: u32,
    pub wakers: u32,
    /// All wakers on the same words; else each has its share of them.
    pub shared: bool,
    /// Wakes go through a mapping that cannot be written.
    pub readonly: bool,
    pub gap: Gap,
    /// Many short lives of the waiter's process, in place of one long one.
    pub lives: bool,
}

const RACE: Scenario = Scenario {
    name: "",
    words: 1,
    wakers: 1,
    shared: false,
    readonly: false,
    gap: Gap::Race,
    lives: false,
};

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "one word", ..RACE },
    Scenario { name: "eight words", words: 8, ..RACE },
    Scenario { name: "1024 waits", words: 1024, ..RACE },
    Scenario { name: "read-only wakes", words: 8, readonly: true, ..RACE },
    Scenario { name: "two wakers, one word", wakers: 2, shared: true, ..RACE },
    Scenario { name: "two wakers, 64 words", words: 64, wakers: 2, ..RACE },
    Scenario { name: "at rest", words: 8, gap: Gap::Rest, ..RACE },
    Scenario { name: "new processes", words: 64, lives: true, ..RACE },
];
