//! Batches of a fixed size, drawn without replacement.
//!
//! Let T be a batch of m of the other n−1 records. With probability m/n the record is in the batch, in the place of a random
//! member of T. That leaves the sum at most 2 from that of T. Another record in its place, a zero among them, leaves it at most 2
//! from that of T and at most 2 from the sum with the original record. By the argument of
//! `Pair::sampled` the worst case is (1−q)N(0)+qN(2) against N(0) where ε ≥ 0, and the reverse where ε < 0 (Zhu, Dong and Wang
//! 2022, arXiv:2106.08567, have the same pairs).

use super::totals::Totals;
use crate::error::{AccountingError, Result};
use crate::neighbouring::Neighbouring;
use crate::pld::{Pair, Round, joined};

/// Largest public number of records.
const MAX_RECORDS: u64 = 1 << 53;

pub(super) fn add(totals: &mut Totals, sigma: f64, (records, batch): (u64, u64), count: u64) -> Result<()> {
    let invalid = |what, value: u64, allowed| AccountingError::Invalid { what, value: value as f64, allowed };
    if records == 0 || records > MAX_RECORDS {
        return Err(invalid("data set size", records, "1 to 2^53"));
    }
    if batch == 0 || batch > records {
        return Err(invalid("batch size", batch, "1 to the data set size"));
    }
    if totals.neighbouring == Neighbouring::AddRemove {
        let why =
            "the probability of a record depends on the number of records; account under zero-out or replace";
        return Err(AccountingError::Unsupported {
            event: "without-replacement-gaussian",
            why: why.to_owned(),
        });
    }
    if batch == records {
        return totals.add_gaussian(1.0, sigma, count);
    }
    let q = batch as f64 / records as f64;
    let losses = joined(&Pair::sampled(sigma, q, 2.0, 0.0)?, &Pair::sampled(sigma, q, 0.0, 2.0)?)?;
    totals.add_rounds(count, |_| Ok(Round::from(losses.clone())))
}
