//! The recommended entry, with the reason in words.

use crate::entry::Entry;
use crate::sampling::Sampling;

/// The entry to take.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// Its place among the entries.
    pub index: usize,
    /// The reason, in a sentence or two.
    pub reason: String,
}

/// Returns the entry of least state among those whose error is at most 1 + `within` times the least that fits in memory;
/// `None` where nothing fits. `entries` are in ascending order of their errors.
#[must_use]
pub fn recommend(entries: &[Entry], within: f64) -> Option<Recommendation> {
    let fitting = || entries.iter().enumerate().filter(|(_, entry)| entry.fits);
    let best = fitting().map(|(_, entry)| entry).min_by(|a, b| a.error.total_cmp(&b.error))?;
    let as_good = fitting().filter(|(_, entry)| entry.error <= (1.0 + within.max(0.0)) * best.error);
    let (index, chosen) = as_good.min_by(|a, b| {
        let key = |entry: &Entry| entry.state_bytes_per_parameter;
        key(a.1).cmp(&key(b.1)).then(a.1.error.total_cmp(&b.1.error))
    })?;
    Some(Recommendation { index, reason: reason(chosen, best, entries) })
}

fn reason(chosen: &Entry, best: &Entry, entries: &[Entry]) -> String {
    let mut words = if chosen.error <= best.error {
        format!("the least error, {:.4}", chosen.error)
    } else {
        let above = 100.0 * (chosen.error / best.error - 1.0);
        format!("within {above:.2} % of the least error, {}", beside(chosen, best))
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

/// Compares the state with that of the entry of the least error.
fn beside(chosen: &Entry, best: &Entry) -> String {
    let name = best.name();
    match (chosen.state_bytes_per_parameter, best.state_bytes_per_parameter) {
        (0, 0) => format!("that of {name}"),
        (0, most) => format!("that of {name}, without its {most} bytes of state"),
        (some, most) if most > some => {
            format!("that of {name}, with {:.1} times less state", most as f64 / some as f64)
        }
        _ => format!("that of {name}"),
    }
}
