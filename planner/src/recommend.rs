//! The recommended entry, with the reason in words.

use crate::entry::Entry;
use crate::sampling::Sampling;

/// Errors within this factor of the least count as equal, so that less state decides.
const AS_GOOD: f64 = 1.01;

/// The entry to take.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// Its place among the entries.
    pub index: usize,
    /// The reason, in a sentence or two.
    pub reason: String,
}

/// Returns the entry of least state among those within 1 % of the least error that fits in memory; `None` where
/// nothing fits.
#[must_use]
pub fn recommend(entries: &[Entry]) -> Option<Recommendation> {
    let fitting = || entries.iter().enumerate().filter(|(_, entry)| entry.fits);
    let least = fitting().map(|(_, entry)| entry.error).min_by(f64::total_cmp)?;
    let as_good = fitting().filter(|(_, entry)| entry.error <= AS_GOOD * least);
    let (index, chosen) = as_good.min_by(|a, b| {
        let key = |entry: &Entry| entry.state_bytes_per_parameter;
        key(a.1).cmp(&key(b.1)).then(a.1.error.total_cmp(&b.1.error))
    })?;
    Some(Recommendation { index, reason: reason(chosen, least, entries) })
}

fn reason(chosen: &Entry, least: f64, entries: &[Entry]) -> String {
    let mut words = if chosen.error <= least {
        format!("the least error, {:.4}", chosen.error)
    } else {
        let above = 100.0 * (chosen.error / least - 1.0);
        format!("within {above:.2} % of the least error with the least state")
    };
    words += &format!("; {} bytes of state for each parameter", chosen.state_bytes_per_parameter);
    let independent = entries
        .iter()
        .filter(|entry| entry.mechanism == "identity" && entry.sampling_name == chosen.sampling_name)
        .chain(entries.iter().filter(|entry| entry.mechanism == "identity"))
        .next();
    if let Some(identity) = independent.filter(|identity| identity.error > chosen.error) {
        words += &format!("; {:.2} times less than independent noise", identity.error / chosen.error);
    }
    words
        + match chosen.sampling {
            Sampling::MinSep(_) => ". Holds for any order of the data that keeps min-sep.",
            Sampling::CyclicPoisson { .. } => ". Holds only if batches are sampled in this way.",
        }
}
