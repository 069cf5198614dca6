//! The ticket store of one session: which rows of the table hold a ticket, and how to find one.
//!
//! A row is found in three ways, each by links that lie beside the table (they are the daemon's
//! own and are made anew from the rows): by its lane in the order of targets, by its deadline, and
//! by the client's name for it (`user_data`). Nothing here allocates after [`Tickets::new`].

use alloc::vec;
use alloc::vec::Vec;

use super::heap::{Heap, Link, Links, NIL};
use super::table::{FREE, PENDING, Row};

/// The links of one row.
#[derive(Clone, Copy, Debug)]
struct RowLinks {
    /// In the order of its lane; of a free row, `next_named` chains the free ones.
    lane: Link,
    /// In the order of deadlines.
    deadline: Link,
    /// The next row with the same hash of `user_data`.
    next_named: u32,
    /// The previous one, or `NIL` for the first of its bucket.
    prev_named: u32,
}

/// The rows of a lane in the order in which its numbers reach them.
///
/// A target's key is its distance from `base`, the lane's number when the order was begun, so that
/// the order is total whatever a device stores later.
pub struct LaneOrder<'a> {
    links: &'a mut [RowLinks],
    rows: &'a [Row],
    base: u64,
    mask: u64,
}

impl Links for LaneOrder<'_> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self.links[node as usize].lane
    }
    fn key(&self, node: u32) -> u64 {
        self.rows[node as usize].target.wrapping_sub(self.base) & self.mask
    }
}

struct DeadlineOrder<'a> {
    links: &'a mut [RowLinks],
    rows: &'a [Row],
}

impl Links for DeadlineOrder<'_> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self.links[node as usize].deadline
    }
    fn key(&self, node: u32) -> u64 {
        self.rows[node as usize].deadline_ns
    }
}

/// The store; the rows themselves are the table's and are passed in.
pub struct Tickets {
    links: Vec<RowLinks>,
    buckets: Vec<u32>,
    free: u32,
    outstanding: u32,
    deadlines: Heap,
}

impl Tickets {
    /// A store for `rows` free rows.
    pub fn new(rows: u32) -> Tickets {
        let link = |row: u32| RowLinks {
            lane: Link::default(),
            deadline: Link::default(),
            next_named: if row + 1 < rows { row + 1 } else { NIL },
            prev_named: NIL,
        };
        Tickets {
            links: (0..rows).map(link).collect(),
            buckets: vec![NIL; (rows as usize).next_power_of_two()],
            free: if rows == 0 { NIL } else { 0 },
            outstanding: 0,
            deadlines: Heap::default(),
        }
    }

    /// A store for rows that an earlier life of the daemon left: each is `FREE` or `PENDING`.
    pub fn restore(rows: &[Row]) -> Tickets {
        let mut tickets = Tickets::new(rows.len() as u32);
        tickets.free = NIL;
        for (at, row) in (0..rows.len() as u32).zip(rows).rev() {
            if row.state == FREE {
                tickets.links[at as usize].next_named = tickets.free;
                tickets.free = at;
            } else {
                tickets.adopt(rows, at);
            }
        }
        tickets
    }

    /// Tickets that wait.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The nearest deadline in nanoseconds.
    pub fn next_deadline_ns(&self, rows: &[Row]) -> Option<u64> {
        self.deadlines.first().map(|row| rows[row as usize].deadline_ns)
    }

    /// The row of the nearest deadline, if it is not after `now_ns`.
    pub fn expired(&self, rows: &[Row], now_ns: u64) -> Option<u32> {
        self.deadlines.first().filter(|&row| rows[row as usize].deadline_ns <= now_ns)
    }

    /// Records a ticket in a free row, which becomes `PENDING`; `None` when no row is free.
    /// `row` holds its fields; its state is ignored.
    pub fn record(&mut self, rows: &mut [Row], row: Row) -> Option<u32> {
        let at = self.free;
        let links = self.links.get_mut(at as usize)?;
        self.free = links.next_named;
        let slot = &mut rows[at as usize];
        *slot = Row { state: FREE, ..row };
        slot.set_state(PENDING);
        self.adopt(rows, at);
        Some(at)
    }

    /// Files a row that is `PENDING`.
    fn adopt(&mut self, rows: &[Row], at: u32) {
        self.outstanding += 1;
        self.name(rows, at);
        self.resume_deadline(rows, at);
    }

    /// Leaves a ticket without a deadline for now.
    pub fn hold_deadline(&mut self, rows: &[Row], at: u32) {
        if self.links[at as usize].deadline.is_linked() {
            let mut order = DeadlineOrder { links: &mut self.links, rows };
            self.deadlines.remove(&mut order, at);
        }
    }

    /// Gives a ticket back the deadline that it has.
    pub fn resume_deadline(&mut self, rows: &[Row], at: u32) {
        if rows[at as usize].deadline_ns != 0 && !self.links[at as usize].deadline.is_linked() {
            let mut order = DeadlineOrder { links: &mut self.links, rows };
            self.deadlines.push(&mut order, at);
        }
    }

    /// Takes a ticket's deadline and name away: its outcome is decided. It is in no lane's order.
    pub fn settle(&mut self, rows: &[Row], at: u32) {
        self.unname(rows, at);
        self.hold_deadline(rows, at);
    }

    /// Makes a settled row free again.
    pub fn release(&mut self, rows: &mut [Row], at: u32) {
        rows[at as usize].set_state(FREE);
        self.links[at as usize].next_named = self.free;
        self.free = at;
        self.outstanding -= 1;
    }

    /// The order of a lane whose numbers began at `base`; `mask` keeps the bits of its width.
    pub fn lane_order<'a>(&'a mut self, rows: &'a [Row], base: u64, mask: u64) -> LaneOrder<'a> {
        LaneOrder { links: &mut self.links, rows, base, mask }
    }

    /// Whether the row waits in a lane's order.
    pub fn in_lane(&self, at: u32) -> bool {
        self.links[at as usize].lane.is_linked()
    }

    /// An outstanding ticket of this name; the newest when there are several.
    pub fn find(&self, rows: &[Row], user_data: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(user_data)];
        while at != NIL && rows[at as usize].user_data != user_data {
            at = self.links[at as usize].next_named;
        }
        (at != NIL).then_some(at)
    }

    fn bucket(&self, user_data: u64) -> usize {
        // Fibonacci hashing: the top bits of a product with 2^64 / golden ratio.
        let hash = user_data.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    fn name(&mut self, rows: &[Row], at: u32) {
        let bucket = self.bucket(rows[at as usize].user_data);
        let first = core::mem::replace(&mut self.buckets[bucket], at);
        if first != NIL {
            self.links[first as usize].prev_named = at;
        }
        let links = &mut self.links[at as usize];
        links.next_named = first;
        links.prev_named = NIL;
    }

    fn unname(&mut self, rows: &[Row], at: u32) {
        let RowLinks { next_named, prev_named, .. } = self.links[at as usize];
        if prev_named == NIL {
            let bucket = self.bucket(rows[at as usize].user_data);
            self.buckets[bucket] = next_named;
        } else {
            self.links[prev_named as usize].next_named = next_named;
        }
        if next_named != NIL {
            self.links[next_named as usize].prev_named = prev_named;
        }
    }
}

#[cfg(test)]
#[path = "tickets_tests.rs"]
mod tests;
