//! A *script*: an input's bytes as the numbers that say what to do next. It ends in zeros.

/// What is left of the input.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    /// Whether every byte was used.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    /// The next four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    /// The next eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}
