//! The devices of a session: what stores numbers into its lanes, and when.

use std::rc::Rc;

use parkd::core::line::Width;
use parkd::shm::bells::{Bell, Ring};
use parkd::shm::lanes::LanesWriter;
use parkd::shm::region::{ReadWrite, Region};

use super::seat::{DEVICES, LANES, Seat, USED_LANES};
use super::tally::Count;
use super::words::{Side, Words};
use super::world::World;

/// How a lane is written.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// One number every so many nanoseconds, about.
    Steady(u64),
    /// Whenever it likes, several at once.
    Bursts,
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Producer {
    habit: Habit,
    next: u64,
    /// Whether it runs on a CPU and rings.
    rings: bool,
    falls: bool,
    /// Whether its last store is to be rung for.
    to_ring: bool,
    first: u64,
}

pub struct Devices {
    lanes: LanesWriter<Region<ReadWrite>>,
    bells: Vec<Bell<Words, Words>>,
    producers: Vec<Producer>,
}

impl Devices {
    pub fn new(world: &Rc<World>, _slot: u16, lanes: &Region<ReadWrite>) -> Devices {
        let rng = &world.rng;
        let words = |region| Words::new(region, Side::Client, world);
        let producer = || Producer {
            habit: match rng.below(8) {
                0 => {
                    world.tally.add(Count::NeverStored);
                    Habit::Never
                }
                1..=4 => Habit::Steady(rng.pick(&[30_000, 200_000, 700_000, 3_000_000])),
                _ => Habit::Bursts,
            },
            next: 0,
            rings: rng.one_in(3),
            falls: rng.one_in(20),
            to_ring: false,
            first: rng.pick(&[0, 1, u64::MAX - 5, u64::from(u32::MAX) - 5, 1 << 40]),
        };
        Devices {
            lanes: LanesWriter::new(lanes.clone(), LANES).unwrap(),
            bells: (1..=DEVICES)
                .map(|bell| Bell::new(words(lanes), words(&world.status), bell).unwrap())
                .collect(),
            producers: (0..=USED_LANES).map(|_| producer()).collect(),
        }
    }

    /// The number that a lane begins with.
    pub fn first_word(&self, lane: u32) -> u64 {
        self.producers[lane as usize].first
    }

    /// Every lane gets its first number.
    pub fn begin(&mut self, world: &World, seat: &Seat) {
        for lane in 0..=USED_LANES as usize {
            self.store(world, seat, lane, self.producers[lane].first);
        }
    }

    fn store(&self, world: &World, seat: &Seat, lane: usize, word: u64) {
        let book = seat.book.borrow();
        let entry = &book.lanes[lane];
        let (now, width, borrowed) = (entry.word, entry.width, entry.origin.is_some());
        drop(book);
        if borrowed {
            // The index is a redeemed lane's: what is stored here is nobody's number.
            return;
        }
        const HIGH: u64 = !(u32::MAX as u64);
        let low = u64::from(word as u32);
        match width {
            Width::W64 => {
                world.stored(seat, lane, word);
                self.lanes.store(lane as u32, word);
            }
            Width::W32 if world.rng.one_in(8) => {
                let word = (now ^ (world.rng.next() << 32)) & HIGH | low;
                world.stored(seat, lane, word);
                self.lanes.store(lane as u32, word);
            }
            Width::W32 => {
                world.stored(seat, lane, now & HIGH | low);
                self.lanes.store_low(lane as u32, low as u32);
            }
        }
        world.say(|| format!("store {}.{lane}: {word:#x}", seat.slot));
    }

    /// Time has passed: those whose next store is due make it.
    pub fn pass(&mut self, world: &Rc<World>, seat: &Seat) {
        let now = world.now.get();
        for lane in 0..self.producers.len() {
            if let Habit::Steady(period) = self.producers[lane].habit
                && self.producers[lane].next <= now
            {
                let jitter = world.rng.below(period / 8 + 1);
                // Now and then work is done much sooner than foreseen, or much later.
                let period = match world.rng.below(24) {
                    0..=3 => period / 3,
                    4 => {
                        world.tally.add(Count::LateWork);
                        period * 5
                    }
                    _ => period,
                };
                self.producers[lane].next = now + period + jitter;
                self.go_on(world, seat, lane, 1);
            }
        }
    }

    /// One step of whichever device likes to make one.
    pub fn step(&mut self, world: &Rc<World>, seat: &Seat) {
        let rng = &world.rng;
        if let Some(lane) = self.producers.iter().position(|producer| producer.to_ring) {
            return self.ring(world, seat, lane);
        }
        let lane = rng.below(self.producers.len() as u64) as usize;
        match self.producers[lane].habit {
            Habit::Bursts => {
                world.tally.add(Count::Bursts);
                self.go_on(world, seat, lane, rng.up_to(12));
            }
            _ => self.ready_fd(world, seat),
        }
    }

    /// Stores the number of so many pieces of work later, towards what is waited for.
    fn go_on(&mut self, world: &Rc<World>, seat: &Seat, lane: usize, ahead: u64) {
        let rng = &world.rng;
        let word = seat.book.borrow().lanes[lane].word;
        let farthest = world.farthest(seat, lane);
        let next = match rng.below(24) {
            _ if farthest == 0 && !rng.one_in(16) => return,
            0 => word,
            1 if self.producers[lane].falls => word.wrapping_sub(1),
            2 => word.wrapping_add(ahead),
            _ => word.wrapping_add(ahead.min(farthest)),
        };
        world.tally.add_many(Count::RepeatedStores, u64::from(next == word));
        world.tally.add_many(Count::BackwardStores, u64::from(next == word.wrapping_sub(1)));
        self.store(world, seat, lane, next);
        let rings = self.producers[lane].rings;
        self.producers[lane].to_ring = rings;
        world.tally.add(if rings { Count::RungStores } else { Count::SilentStores });
    }

    fn ring(&mut self, world: &Rc<World>, seat: &Seat, lane: usize) {
        self.producers[lane].to_ring = false;
        let device = seat.book.borrow().lanes[lane].device;
        if self.bells[device as usize].ring() == Ring::MustWake {
            world.wake(seat, device + 1);
        }
    }

    /// The fd of some ticket becomes readable.
    fn ready_fd(&mut self, world: &World, seat: &Seat) {
        let mut book = seat.book.borrow_mut();
        let moment = world.moment();
        let waits = |at: &&usize| {
            let ticket = &book.tickets[**at];
            ticket.lane().is_none() && ticket.reached.is_none()
        };
        if let Some(&at) = book.open.iter().find(waits) {
            book.tickets[at].reached = Some(moment);
            world.say(|| format!("fd of {}.{at} is ready", seat.slot));
        }
    }

    /// Finishes all work of a lane.
    pub fn finish(&mut self, world: &World, seat: &Seat, lane: u32) {
        let word = seat.book.borrow().lanes[lane as usize].word;
        let farthest = world.farthest(seat, lane as usize);
        self.store(world, seat, lane as usize, word.wrapping_add(farthest));
    }
}
