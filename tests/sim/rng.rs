//! The one source of chance: what a seed does, it does again.

use std::cell::Cell;

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub struct Rng(Cell<u64>);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(Cell::new(seed))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Whether an event of one in `n` happens.
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// 1 to `most`, each order of magnitude about as likely as the next.
    pub fn up_to(&self, most: u64) -> u64 {
        let bits = u64::from(u64::BITS - most.leading_zeros());
        let ceiling = most.min((1 << (1 + self.below(bits))) - 1);
        1 + self.below(ceiling)
    }

    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
