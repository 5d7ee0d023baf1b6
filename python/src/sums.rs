//! What a session has added each row's noise to: one sum, divided by one number.
//!
//! The ledger binds a row to a commitment. Where that is declared, the ledger cannot see that the noise is added to two
//! sums under it, whose difference would then have none; this module remembers digests of the sums and refuses that.

use std::collections::BTreeMap;

use proto::CoordinateRange;

use crate::error::{Refused, Result};

/// The most rows that are remembered. A sum for an older one is refused.
const MAX_ROWS: usize = 4096;

/// The use of a row's noise in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The caller receives the noise itself.
    Noise,
    /// It is added to a sum that is not digested, and only once.
    SumOnce,
    /// It is added to the sum with this keyed digest, which covers also what both are divided by.
    Sum([u8; 32]),
}

/// The sums of a session's rows.
#[derive(Debug, Default)]
pub struct Sums {
    rows: BTreeMap<u64, Vec<Part>>,
}

/// A range that noise was added to.
#[derive(Clone, Copy, Debug)]
struct Part {
    range: CoordinateRange,
    purpose: Purpose,
}

impl Sums {
    /// Checks that the noise of a row can be used so. `next` is the session's next row.
    ///
    /// # Errors
    /// A sum for coordinates whose noise was added to another, or by another divisor, or that may have been.
    pub fn check(&self, row: u64, next: u64, range: CoordinateRange, purpose: Purpose) -> Result<()> {
        if purpose == Purpose::Noise {
            return Ok(());
        }
        let refused = |text: String| Err(Refused::Here("already_bound", text));
        let parts = match self.rows.get(&row) {
            Some(parts) => parts.as_slice(),
            None if row >= next => &[],
            None => {
                return refused(format!(
                    "the row of step {row} left before this session, or more than {MAX_ROWS} steps ago: it does not know \
                     the sum that the noise was added to; the next step is {next}"
                ));
            }
        };
        let overlaps = |part: &&Part| part.range.intersection(&range).is_some();
        let is_same = |part: &Part| {
            part.range == range && part.purpose == purpose && matches!(purpose, Purpose::Sum(_))
        };
        match parts.iter().filter(overlaps).find(|part| !is_same(part)) {
            None => Ok(()),
            Some(Part { range: done, .. }) => refused(format!(
                "the noise of step {row}, coordinates {done}, was added to a sum already: under a declared commitment it is \
                 given again to the same sum, range and divide_by alone; the next step is {next}"
            )),
        }
    }

    /// Records that a part of a row was delivered. `next` was the session's next row until then. An earlier row
    /// that is not remembered stays so: what its noise was added to before is not known here.
    pub fn record(&mut self, row: u64, next: u64, range: CoordinateRange, purpose: Purpose) {
        if row < next && !self.rows.contains_key(&row) {
            return;
        }
        let parts = self.rows.entry(row).or_default();
        let is_known = parts.iter().any(|part| part.range == range && part.purpose == purpose);
        if purpose != Purpose::Noise && !is_known {
            parts.push(Part { range, purpose });
        }
        if self.rows.len() > MAX_ROWS {
            self.rows.pop_first();
        }
    }

    /// Forgets the rows from `row` on, whose noise is fresh on the branch that the session turns to.
    pub fn forget_from(&mut self, row: u64) {
        self.rows.split_off(&row);
    }
}
