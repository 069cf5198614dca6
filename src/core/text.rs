//! Reading the text of plans and bands.
//!
//! A *piece* is a part of the text that knows where it stands in the whole, so that a refusal can
//! name the column (counted from 1, in characters). A *number* is decimal digits without sign,
//! space or leading zero; a *field* is `<key>=<number>`. Reading never allocates but for a refusal.

use alloc::format;
use alloc::string::String;
use core::fmt::Display;
use core::ops::RangeInclusive;

use super::error::{Error, ErrorCode, Result};

/// Characters of a refused value that its refusal repeats.
const VALUE_SHOWN: usize = 32;

/// A part of a text, and its place.
#[derive(Clone, Copy)]
pub(super) struct Piece<'t> {
    whole: &'t str,
    at: usize,
    text: &'t str,
}

impl<'t> Piece<'t> {
    pub(super) fn new(whole: &'t str) -> Piece<'t> {
        Piece { whole, at: 0, text: whole }
    }

    pub(super) fn text(self) -> &'t str {
        self.text
    }

    fn part(self, from: usize, to: usize) -> Piece<'t> {
        Piece { whole: self.whole, at: self.at + from, text: &self.text[from..to] }
    }

    /// What stands before the first `mark`, and what stands after it.
    pub(super) fn split_once(self, mark: &str) -> (Piece<'t>, Option<Piece<'t>>) {
        match self.text.find(mark) {
            Some(at) => {
                let rest = self.part(at + mark.len(), self.text.len());
                (self.part(0, at), Some(rest))
            }
            None => (self, None),
        }
    }

    /// What follows `prefix`.
    pub(super) fn strip_prefix(self, prefix: &str) -> Option<Piece<'t>> {
        self.text.strip_prefix(prefix).map(|_| self.part(prefix.len(), self.text.len()))
    }

    /// What stands before the last `mark`, and what stands after it.
    pub(super) fn rsplit_once(self, mark: char) -> Option<(Piece<'t>, Piece<'t>)> {
        let at = self.text.rfind(mark)?;
        Some((self.part(0, at), self.part(at + mark.len_utf8(), self.text.len())))
    }

    /// The pieces between the `mark`s.
    pub(super) fn split(self, mark: &'static str) -> impl Iterator<Item = Piece<'t>> {
        let mut rest = Some(self);
        core::iter::from_fn(move || {
            let (first, after) = rest?.split_once(mark);
            rest = after;
            Some(first)
        })
    }

    /// This piece as the number `key`, within `bound`.
    pub(super) fn number(self, key: &str, bound: &RangeInclusive<u32>) -> Result<u32> {
        let digits = self.text.bytes().all(|byte| byte.is_ascii_digit());
        let plain = digits && (self.text == "0" || !self.text.starts_with('0'));
        match self.text.parse() {
            Ok(number) if plain && bound.contains(&number) => Ok(number),
            _ => {
                let (least, most) = (bound.start(), bound.end());
                Err(self.refuse(key, format_args!("must be {least}..={most}, in plain digits")))
            }
        }
    }

    /// The refusal of this piece as the value of `key`.
    pub(super) fn refuse(self, key: &str, bound: impl Display) -> Error {
        let column = self.whole[..self.at].chars().count() + 1;
        let mut value: String = self.text.chars().take(VALUE_SHOWN).collect();
        if value.len() < self.text.len() {
            value.push_str("...");
        }
        let value = value.escape_debug();
        Error::new(
            ErrorCode::InvalidPlan,
            format!("plan: {key} = {value}: {bound} (column {column})"),
        )
    }
}

/// The numbers of `keys`, each with the piece it was read from: every key exactly once, in any
/// order, each number within its key's bound. `choice` names what may stand here, for a refusal.
pub(super) fn fields<'t, const N: usize>(
    piece: Piece<'t>,
    keys: [(&'static str, RangeInclusive<u32>); N],
    choice: &str,
) -> Result<[(u32, Piece<'t>); N]> {
    let mut found = [None; N];
    for field in piece.split(",") {
        let (key, value) = field.split_once("=");
        let Some(index) = keys.iter().position(|(name, _)| *name == key.text) else {
            return Err(key.refuse("key", format_args!("must be one of {choice}")));
        };
        let (name, bound) = &keys[index];
        let Some(value) = value else {
            return Err(field.refuse(name, "must be <key>=<number>"));
        };
        if found[index].is_some() {
            return Err(value.refuse(name, "must be given once"));
        }
        found[index] = Some((value.number(name, bound)?, value));
    }
    let end = piece.part(piece.text.len(), piece.text.len());
    let mut numbers = [(0, end); N];
    for (index, (name, bound)) in keys.iter().enumerate() {
        numbers[index] = found[index].ok_or_else(|| {
            let (least, most) = (bound.start(), bound.end());
            end.refuse(name, format_args!("must be given, {least}..={most}"))
        })?;
    }
    Ok(numbers)
}
