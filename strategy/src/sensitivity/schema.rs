//! Participation schemas: which sets of rounds one user may take part in.

use std::sync::Arc;

use crate::error::{Result, invalid};
use crate::participation::Participation;

/// The sets of rounds that one user may take part in; any subset of an allowed set is allowed too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Schema {
    /// At most one round, any.
    Single,
    /// (k, b)-participation of McMahan, Xu, Zhang (2024) and McKenna (2024): some user takes part in rounds i, i+b,
    /// i+2b, … below n, for each i < b.
    FixedEpoch {
        /// b, the rounds of an epoch.
        period: u64,
        /// k, the number of epochs.
        epochs: u64,
    },
    /// Any rounds at least `min_sep` apart, at most `max_participations` of them.
    MinSep(Participation),
    /// One of these sets of rounds, each ascending.
    Sets(Arc<[Vec<u64>]>),
}

impl From<Participation> for Schema {
    fn from(rule: Participation) -> Self {
        Self::MinSep(rule)
    }
}

impl Schema {
    /// Refuses a schema that no run of `n` rounds can have.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for a zero period, epochs, min_sep or max_participations, no sets, an
    /// empty set, a set that is not strictly ascending, or a round at or after `n`.
    pub fn check(&self, n: u64) -> Result<()> {
        match self {
            Self::Single => Ok(()),
            Self::FixedEpoch { period: 0, .. } => {
                Err(invalid("period", 0, "1 or more (the rounds of an epoch)"))
            }
            Self::FixedEpoch { epochs: 0, .. } => Err(invalid("epochs", 0, "1 or more")),
            Self::FixedEpoch { .. } => Ok(()),
            Self::MinSep(rule) => rule.check(),
            Self::Sets(sets) if sets.is_empty() => {
                Err(invalid("number of participation sets", 0, "1 or more"))
            }
            Self::Sets(sets) => sets.iter().enumerate().try_for_each(|(i, set)| check_set(i, set, n)),
        }
    }
}

fn check_set(index: usize, set: &[u64], n: u64) -> Result<()> {
    let Some(&last) = set.last() else {
        return Err(invalid("participation set", format!("empty at index {index}"), "one round or more"));
    };
    if let Some(w) = set.windows(2).find(|w| w[0] >= w[1]) {
        let value = format!("round {} right after round {} in set {index}", w[1], w[0]);
        return Err(invalid("participation set", value, "each round once, ascending"));
    }
    if last >= n {
        let value = format!("round {last} in set {index}");
        return Err(invalid("participation set", value, format!("rounds 0 to {}", n.saturating_sub(1))));
    }
    Ok(())
}
