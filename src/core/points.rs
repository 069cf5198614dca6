//! The estimators of one session's points.
//!
//! A *point* is the client's name for a place in its program that waits. Each session has a table
//! of its own, so that no client can evict another's points. What always holds: a table keeps at
//! most as many points as it was made for, those used last, and allocates only when it is made.
//! A look-up is a binary search, so that no choice of points makes it slow.

use alloc::vec::Vec;

use super::anchored::Begun;
use super::estimator::{Estimator, EstimatorKind, Foreseen, Sample};
use super::plan::Predict;

/// Points that a table may be made for.
pub const MAX_POINTS: usize = 1024;

/// A bounded map from point to estimator; what was used longest ago makes room.
#[derive(Debug)]
pub struct PointTable {
    kind: EstimatorKind,
    late_percent: u32,
    capacity: usize,
    // By rising point, each with the row of its estimator.
    index: Vec<(u64, u32)>,
    // Each estimator with its point.
    rows: Vec<(u64, Estimator)>,
    // When each row was last used, counted in uses.
    used: Vec<u64>,
    uses: u64,
}

impl PointTable {
    /// An empty table for `capacity` points, which is taken as 1..=[`MAX_POINTS`]. `late_percent`
    /// is the share of waits that may be found late.
    pub fn new(kind: EstimatorKind, late_percent: u32, capacity: usize) -> PointTable {
        let capacity = capacity.clamp(1, MAX_POINTS);
        PointTable {
            kind,
            late_percent,
            capacity,
            index: Vec::with_capacity(capacity),
            rows: Vec::with_capacity(capacity),
            used: Vec::with_capacity(capacity),
            uses: 0,
        }
    }

    /// Points in the table.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no point is known.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// What is foreseen of the next wait at `point`; counts as a use of the point. Nothing for
    /// a point that is not in the table, which stays out of it until something is recorded.
    pub fn foresee(&mut self, point: u64, predict: &Predict, begun: Begun) -> Option<Foreseen> {
        let at = self.find(point).ok()?;
        let row = self.touch(self.index[at].1);
        self.rows[row].1.foresee(predict, begun)
    }

    /// Learns from a wait at `point`. A new point takes the place of the one used
    /// longest ago when the table is full.
    pub fn record(&mut self, point: u64, predict: &Predict, sample: Sample, begun: Begun) {
        if self.kind == EstimatorKind::Adaptive && matches!(sample, Sample::Immediate(_)) {
            // It would learn nothing, and there is one for each ticket of who comes late.
            return;
        }
        let row = match self.find(point) {
            Ok(at) => self.index[at].1,
            Err(_) => self.admit(point),
        };
        let row = self.touch(row);
        self.rows[row].1.record(predict, sample, begun);
    }

    fn find(&self, point: u64) -> Result<usize, usize> {
        self.index.binary_search_by_key(&point, |&(known, _)| known)
    }

    fn touch(&mut self, row: u32) -> usize {
        let row = row as usize;
        self.uses += 1;
        self.used[row] = self.uses;
        row
    }

    /// A cold row for a point that is not in the table.
    fn admit(&mut self, point: u64) -> u32 {
        let cold = (point, self.kind.cold(self.late_percent));
        let row = if self.rows.len() < self.capacity {
            self.rows.push(cold);
            self.used.push(0);
            self.rows.len() - 1
        } else {
            let row = self.evict();
            self.rows[row] = cold;
            row
        };
        let (Ok(at) | Err(at)) = self.find(point);
        self.index.insert(at, (point, row as u32));
        row as u32
    }

    /// Takes the point used longest ago out of the index and gives its row.
    fn evict(&mut self) -> usize {
        let oldest = (0..self.used.len()).min_by_key(|&row| self.used[row]).unwrap_or(0);
        if let Ok(at) = self.find(self.rows[oldest].0) {
            self.index.remove(at);
        }
        oldest
    }
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
