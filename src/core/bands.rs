//! *Bands*: one plan for each range of rows, where `rows` is the size of the work waited for.
//!
//! ```text
//! bands = plan | plan ";rows>=<n>:" plan ...
//! ```
//!
//! The first plan holds from 0 rows, the edges rise strictly, and there are at most [`MAX_BANDS`]
//! plans. One plan alone is bands, too.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use super::error::{Error, Result};
use super::plan::Plan;
use super::text::Piece;

/// Plans that bands may have.
pub const MAX_BANDS: usize = 4;

/// Plans by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bands {
    // What lies beyond `len` repeats the first band, so that equal bands compare equal.
    bands: [Band; MAX_BANDS],
    len: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Band {
    from_rows: u32,
    plan: Plan,
}

impl Bands {
    /// The bands of this text.
    ///
    /// # Errors
    /// `InvalidPlan`, naming the key, its value, the bound and the column (from 1).
    pub fn parse(text: &str) -> Result<Bands> {
        let mut pieces = Piece::new(text).split(";");
        let first = pieces.next().unwrap_or(Piece::new(text));
        let mut bands = Bands::from(Plan::read(first)?);
        for piece in pieces {
            bands.push(piece)?;
        }
        Ok(bands)
    }

    fn push(&mut self, piece: Piece<'_>) -> Result<()> {
        let len = usize::from(self.len);
        if len == MAX_BANDS {
            return Err(piece.refuse("bands", format_args!("must be at most {MAX_BANDS} plans")));
        }
        let (Some(edge), Some(plan)) = edge_and_plan(piece) else {
            return Err(piece.refuse("rows", "must be rows>=<n>:<plan>"));
        };
        let least = match self.bands[len - 1].from_rows.checked_add(1) {
            Some(least) => least,
            None => return Err(edge.refuse("rows", "must rise, and the edge before is the last")),
        };
        let from_rows = edge.number("rows", &(least..=u32::MAX))?;
        self.bands[len] = Band { from_rows, plan: Plan::read(plan)? };
        self.len += 1;
        Ok(())
    }

    /// The plan for work of this many rows.
    pub fn plan_for(&self, rows: u32) -> Plan {
        let mut plan = self.bands[0].plan;
        for band in self.used() {
            if band.from_rows <= rows {
                plan = band.plan;
            }
        }
        plan
    }

    /// Each plan with the rows from which it holds, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Plan)> + '_ {
        self.used().iter().map(|band| (band.from_rows, band.plan))
    }

    /// The text of the bands: [`Bands::parse`] reads it back. The same as its `Display`.
    pub fn label(&self) -> String {
        self.to_string()
    }

    fn used(&self) -> &[Band] {
        &self.bands[..usize::from(self.len)]
    }
}

fn edge_and_plan(piece: Piece<'_>) -> (Option<Piece<'_>>, Option<Piece<'_>>) {
    match piece.strip_prefix("rows>=") {
        Some(rest) => {
            let (edge, plan) = rest.split_once(":");
            (Some(edge), plan)
        }
        None => (None, None),
    }
}

impl From<Plan> for Bands {
    fn from(plan: Plan) -> Bands {
        Bands { bands: [Band { from_rows: 0, plan }; MAX_BANDS], len: 1 }
    }
}

impl FromStr for Bands {
    type Err = Error;

    fn from_str(text: &str) -> Result<Bands> {
        Bands::parse(text)
    }
}

impl fmt::Display for Bands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, band) in self.used().iter().enumerate() {
            if index > 0 {
                write!(f, ";rows>={}:", band.from_rows)?;
            }
            write!(f, "{}", band.plan)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "bands_tests.rs"]
mod tests;
