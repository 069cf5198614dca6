//! A hostile client: it writes whatever it likes wherever it can, and asks for what is not there.
//!
//! Of its own tickets nothing is promised but that none has two results. What matters is that the
//! daemon lives, and that the books of its neighbours stay right.

use std::rc::Rc;

use parkd::core::line::Width;
use parkd::proto::entry::SubmitEntry;
use parkd::proto::layout::{lanes, rings};
use parkd::shm::words::{ReadWords, WriteWords};

use super::plans;
use super::request::Ask;
use super::seat::{DEVICES, ENTRIES, LANES, Seat, USED_LANES};
use super::world::World;

/// One step.
pub fn step(world: &Rc<World>, seat: &Seat) {
    let rng = &world.rng;
    match rng.below(16) {
        0..=5 => well_formed(world, seat),
        6 => index(world, seat),
        7 => {
            // What only the daemon may write; it believes none of it.
            let word = rng.pick(&[
                rings::SUBMIT_HEAD,
                rings::RESULT_TAIL,
                rings::STATE,
                rings::GENERATION,
                rings::CLOSE_CODE,
            ]);
            seat.rings.store32(word, rng.next() as u32);
        }
        8 => seat.rings.store32(rings::ARMED, rng.next() as u32),
        9 | 10 => {
            // Any word of any entry, those of the result ring too.
            let words = (seat.rings.bytes() - rings::SUBMIT_RING) as u64 / 8;
            let at = rings::SUBMIT_RING + rng.below(words) as usize * 8;
            seat.rings.store64(at, rng.next());
        }
        11 => {
            let lane = rng.below(USED_LANES.into()) as u32;
            seat.lanes.store64(lanes::lane(lane), rng.next());
        }
        12 => read_all(seat),
        13 => ring(world, seat),
        _ => request(world, seat),
    }
}

fn made_up(world: &World) -> SubmitEntry {
    let rng = &world.rng;
    SubmitEntry {
        op: rng.pick(&[1, 1, 1, 1, 2, 3]),
        kind: rng.pick(&[1, 1, 1, 1, 0, 2, 3]),
        source: rng.pick(&[0, 0, 1, 1, 2, 63, 64, u32::MAX]),
        // Names are used again while they are outstanding.
        user_data: rng.below(8),
        target: rng.pick(&[0, 1, u64::MAX, 1 << 63, rng.next()]),
        point: rng.next(),
        deadline_ns: rng.pick(&[0, 1, world.now.get() + rng.up_to(2_000_000), u64::MAX]),
        plan: rng.pick(&[0, 0, 0, 1, u16::MAX]),
        rows: rng.next() as u32,
        ..Default::default()
    }
}

/// Entries as they should be, more or less, behind the tail.
fn well_formed(world: &World, seat: &Seat) {
    let rng = &world.rng;
    let tail = seat.rings.load32(rings::SUBMIT_TAIL);
    let count = rng.up_to(20) as u32;
    for ahead in 0..count {
        let entry = made_up(world);
        let entry = match (entry.op, rng.below(200)) {
            (_, 0) => SubmitEntry { op: rng.next() as u8, ..entry },
            (1, _) => entry,
            (2, _) => SubmitEntry { kind: 0, ..entry },
            _ => SubmitEntry { kind: 0, target: 7, ..entry },
        };
        let slot = tail.wrapping_add(ahead) % ENTRIES;
        let at = rings::SUBMIT_RING + slot as usize * 64;
        for (word, value) in entry.to_words().into_iter().enumerate() {
            seat.rings.store64(at + word * 8, value);
        }
    }
    seat.rings.store32(rings::SUBMIT_TAIL, tail.wrapping_add(count));
    ring(world, seat);
}

/// An index that jumps.
fn index(world: &World, seat: &Seat) {
    let rng = &world.rng;
    let word = rng.pick(&[rings::SUBMIT_TAIL, rings::RESULT_HEAD]);
    let by = match rng.below(6) {
        0 => rng.next() as u32,
        1 => ENTRIES + 1,
        2 => u32::MAX,
        _ => rng.below(3) as u32,
    };
    seat.rings.store32(word, seat.rings.load32(word).wrapping_add(by));
}

fn read_all(seat: &Seat) {
    let tail = seat.book.borrow().tail;
    seat.rings.store32(rings::RESULT_HEAD, tail);
}

fn ring(world: &World, seat: &Seat) {
    let bell = world.rng.below(u64::from(DEVICES) + 1) as u32;
    seat.lanes.fetch_add32(lanes::bell(bell), 1);
    world.wake(seat, bell);
}

fn request(world: &World, seat: &Seat) {
    let rng = &world.rng;
    let Ok(mut client) = seat.client.try_borrow_mut() else { return };
    if client.requests.len() > 8 {
        return;
    }
    let known = world.capabilities.borrow().last().copied();
    client.ask(match rng.below(11) {
        8 => Ask::Share(rng.pick(&[0, 1, LANES])),
        9 => Ask::Revoke(rng.pick(&[0, 1, LANES])),
        10 if known.is_some() => Ask::Redeem(known.expect("looked at")),
        0..=2 => {
            let lane = rng.pick(&[None, Some(0), Some(1), Some(LANES), Some(u32::MAX)]);
            Ask::Open(lane, rng.pick(&[Width::W64, Width::W32]), rng.below(3) as u32 % DEVICES)
        }
        3 => Ask::Close(rng.pick(&[0, 1, LANES, u32::MAX])),
        4 => Ask::Plan(rng.below(plans::COUNT)),
        5 => Ask::RawCancel(rng.below(8)),
        6 => Ask::Fail(rng.pick(&[0, 1, u32::MAX]), 9),
        _ => {
            let word = |entry: SubmitEntry| SubmitEntry { op: 1, kind: 1, flags: 0, ..entry };
            Ask::Raw((0..rng.up_to(80)).map(|_| word(made_up(world))).collect())
        }
    });
}
