//! Reading one table of the file: each key by its name, with what it may be.
//!
//! A *table* here is what stands under one `[header]`, or nothing: a table that the file leaves out
//! reads like an empty one. A key that is absent, or wrong, reads as `None`; of a wrong one the
//! mistake is kept. A key is *known* once it was asked for, so that the reading code is the one
//! list of keys, and [`Table::finish`] refuses all others.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::mistake::{Mistake, shown};

/// A value of the file, and where it stands.
pub(super) type Value<'d> = &'d Spanned<DeValue<'d>>;

/// A key of the file, and where it stands.
pub(super) type Key<'d> = &'d Spanned<DeString<'d>>;

/// The unit of keys that end in `_us`.
pub(super) const MICROS: &str = "microseconds";

/// The text that is read, and what was found in it.
pub(super) struct Reading<'d> {
    text: &'d str,
    mistakes: RefCell<Vec<Mistake>>,
    known: RefCell<Vec<String>>,
}

/// One table of the file, or an absent one.
pub(super) struct Table<'d, 'r> {
    name: &'static str,
    at: usize,
    entries: Option<&'d DeTable<'d>>,
    keys: Vec<&'static str>,
    reading: &'r Reading<'d>,
}

impl<'d> Reading<'d> {
    pub(super) fn new(text: &'d str) -> Reading<'d> {
        Reading { text, mistakes: RefCell::default(), known: RefCell::default() }
    }

    /// The file's outermost table.
    pub(super) fn root<'r>(&'r self, entries: &'d DeTable<'d>) -> Table<'d, 'r> {
        Table { name: "", at: 0, entries: Some(entries), keys: Vec::new(), reading: self }
    }

    /// The mistakes, and the full name of every key that was asked for.
    pub(super) fn end(self) -> (Vec<Mistake>, Vec<String>) {
        (self.mistakes.into_inner(), self.known.into_inner())
    }
}

impl<'d, 'r> Table<'d, 'r> {
    /// The value of a key, unless the file leaves it out.
    pub(super) fn value(&mut self, key: &'static str) -> Option<Value<'d>> {
        self.keys.push(key);
        self.reading.known.borrow_mut().push(self.full(key));
        self.entries?.get(key)
    }

    /// Whether the table has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.is_some_and(|entries| entries.get(key).is_some())
    }

    fn full(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            table => format!("{table}.{key}"),
        }
    }

    fn mistake(&self, at: usize, key: &str, found: &str, allowed: &str) {
        let (found, allowed) = (found.to_owned(), allowed.to_owned());
        let mistake = Mistake { at, key: self.full(key), found, allowed };
        self.reading.mistakes.borrow_mut().push(mistake);
    }

    /// Keeps the mistake of a key whose value may not stand there.
    pub(super) fn refuse(&self, key: &str, allowed: &str) {
        if let Some(value) = self.entries.and_then(|entries| entries.get(key)) {
            self.refuse_value(key, value, allowed);
        }
    }

    fn refuse_value(&self, key: &str, value: Value<'_>, allowed: &str) {
        let span = value.span();
        let kind = match value.get_ref() {
            DeValue::Integer(_) => "",
            DeValue::String(_) => " (a string)",
            DeValue::Float(_) => " (a float)",
            DeValue::Boolean(_) => " (a boolean)",
            DeValue::Datetime(_) => " (a date-time)",
            DeValue::Array(_) => " (an array)",
            DeValue::Table(_) => " (a table)",
        };
        let found = format!("{}{kind}", shown(self.reading.text, &span));
        self.mistake(span.start, key, &found, allowed);
    }

    /// Keeps a mistake of a key that the table may leave out, in these words.
    pub(super) fn refuse_found(&self, key: &str, found: &str, allowed: &str) {
        let value = self.entries.and_then(|entries| entries.get(key));
        self.mistake(value.map_or(self.at, |value| value.span().start), key, found, allowed);
    }

    /// Keeps the mistake of a key that may not be called so.
    pub(super) fn refuse_key(&self, key: Key<'_>, found: &str, allowed: &str) {
        let name = key.get_ref().escape_debug().to_string();
        self.mistake(key.span().start, &name, found, allowed);
    }

    /// Keeps a mistake inside of a string value, `chars` characters into its text.
    pub(super) fn refuse_inside(&self, key: &str, value: Value<'_>, chars: usize, found: &str) {
        let span = value.span();
        let raw = self.reading.text.get(span.clone()).unwrap_or_default();
        let inner = value.get_ref().as_str().unwrap_or_default();
        // Text with escapes does not stand in the file as it reads: its start has to do.
        let offset = raw.find(inner).map_or(0, |start| {
            start + inner.char_indices().nth(chars).map_or(inner.len(), |(offset, _)| offset)
        });
        self.mistake(span.start + offset, key, found, "docs/PLANS.md has the grammar");
    }

    /// An integer within `bound`, counted in `unit` ("" for a bare number).
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        bound: RangeInclusive<u32>,
        unit: &str,
    ) -> Option<u32> {
        let value = self.value(key)?;
        let number = integer(value.get_ref());
        if number.is_some_and(|number| bound.contains(&number)) {
            return number;
        }
        let mut allowed = format!("an integer from {} to {}", bound.start(), bound.end());
        if !unit.is_empty() {
            allowed.push_str(&format!(", in {unit}"));
        }
        if let Some(text) = value.get_ref().as_str() {
            allowed.push_str(", without quotes or a unit");
            if let Some(meant) = micros(text).filter(|_| unit == MICROS) {
                allowed.push_str(&format!(": {meant}"));
            }
        }
        self.refuse(key, &allowed);
        None
    }

    /// One of a few words, each with what it means.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let value = self.value(key)?;
        let word = value.get_ref().as_str();
        if let Some((_, meaning)) = choices.iter().find(|(name, _)| Some(*name) == word) {
            return Some(*meaning);
        }
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
        let one_of = if names.len() > 1 { "one of " } else { "only " };
        self.refuse(key, &format!("{one_of}{}", names.join(", ")));
        None
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            self.refuse(key, "true or false, without quotes");
        }
        boolean
    }

    /// A string that `fits`.
    pub(super) fn string(
        &mut self,
        key: &'static str,
        fits: impl Fn(&str) -> bool,
        allowed: &str,
    ) -> Option<&'d str> {
        let value = self.value(key)?;
        let string = value.get_ref().as_str().filter(|string| fits(string));
        if string.is_none() {
            self.refuse(key, allowed);
        }
        string
    }

    /// A list of what `read` makes of each element.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
        allowed: &str,
    ) -> Option<Vec<T>> {
        let value = self.value(key)?;
        let Some(elements) = value.get_ref().as_array() else {
            self.refuse(key, &format!("a list of {allowed}: [..., ...]"));
            return None;
        };
        let mut list = Vec::with_capacity(elements.len());
        for element in elements.iter() {
            match read(element.get_ref()) {
                Some(one) => list.push(one),
                None => self.refuse_value(key, element, allowed),
            }
        }
        Some(list)
    }

    /// The table under `[key]`.
    pub(super) fn table(&mut self, key: &'static str) -> Table<'d, 'r> {
        let value = self.value(key);
        if value.is_some_and(|value| !value.get_ref().is_table()) {
            self.refuse(key, &format!("a table: [{key}]"));
        }
        self.child(key, value)
    }

    /// The table under each `[[key]]`; where there is none, one that is absent.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<Table<'d, 'r>> {
        let Some(value) = self.value(key) else {
            return vec![self.child(key, None)];
        };
        let allowed = format!("a table for each: [[{key}]]");
        let Some(elements) = value.get_ref().as_array() else {
            self.refuse(key, &allowed);
            return Vec::new();
        };
        let (tables, others): (Vec<Value<'d>>, _) =
            elements.iter().partition(|element| element.get_ref().is_table());
        for other in others {
            self.refuse_value(key, other, &allowed);
        }
        tables.into_iter().map(|table| self.child(key, Some(table))).collect()
    }

    fn child(&self, name: &'static str, value: Option<Value<'d>>) -> Table<'d, 'r> {
        let at = value.map_or(0, |value| value.span().start);
        let entries = value.and_then(|value| value.get_ref().as_table());
        Table { name, at, entries, keys: Vec::new(), reading: self.reading }
    }

    /// Every key with its value, for a table whose keys are names of the operator's choice.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Key<'d>, Value<'d>)> + use<'d> {
        self.entries.into_iter().flat_map(|entries| entries.iter())
    }

    /// Refuses the keys that nothing asked for.
    pub(super) fn finish(self) {
        for (key, value) in self.entries() {
            let name = key.get_ref().as_ref();
            if self.keys.contains(&name) {
                continue;
            }
            let what = if value.get_ref().is_table() { "table" } else { "key" };
            let found = match self.other_unit(name) {
                Some(meant) => format!("unknown {what}, {meant} is meant"),
                None => format!("unknown {what}"),
            };
            let allowed = format!("one of {}", self.keys.join(", "));
            self.refuse_key(key, &found, &allowed);
        }
    }

    /// The key that differs from `name` in its unit only.
    fn other_unit(&self, name: &str) -> Option<&'static str> {
        let units = ["_s", "_ms", "_us", "_ns", "_percent"];
        let stem = |name: &str| {
            units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name).to_owned()
        };
        self.keys.iter().copied().find(|key| stem(key) == stem(name))
    }
}

/// A value that is an integer and fits.
pub(super) fn integer(value: &DeValue<'_>) -> Option<u32> {
    let integer = value.as_integer()?;
    u32::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Microseconds of a text like `50us`, `1.5 ms` or `2s`, where they are whole.
fn micros(text: &str) -> Option<u32> {
    let units = [("us", 1.0), ("\u{b5}s", 1.0), ("ms", 1e3), ("s", 1e6), ("", 1.0)];
    let (number, factor) = units.iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some((number, factor))
    })?;
    let micros = number * factor;
    (micros.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&micros))
        .then_some(micros as u32)
}
