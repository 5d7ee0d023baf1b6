//! Tree aggregation: noise on every node of a binary tree, prefix sums read with Honaker's bottom-up weights.

mod bound;
mod pareto;

pub(crate) use pareto::blocks;

use crate::error::{Result, invalid};
use crate::participation::{Errors, Participation, Sensitivity};

/// Most rounds of a tree mechanism.
pub const MAX_TREE: u64 = 1 << 40;

/// A tree mechanism, with the rounds at which a fresh tree starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    restarts: Vec<u64>,
    completion: bool,
}

/// One tree of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Rounds that use this tree; at least 1.
    pub rounds: u64,
    /// True when virtual rounds without participants fill the tree up to the next power of two at its end.
    pub completed: bool,
}

impl Tree {
    /// Returns a tree that restarts at the given rounds: each is the first round of a fresh tree, counted from 0.
    ///
    /// With `completion` a tree is filled up with virtual rounds just before a restart, so that the finished
    /// tree is read from its root; the last tree of the run is not filled.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] unless the restarts are above zero and strictly ascending.
    pub fn new(restarts: Vec<u64>, completion: bool) -> Result<Self> {
        let mut previous = 0;
        for &round in &restarts {
            if round <= previous {
                return Err(invalid("restart", round, format!("above {previous}, ascending")));
            }
            previous = round;
        }
        Ok(Self { restarts, completion })
    }

    /// Returns the rounds at which a fresh tree starts, without the first tree's round 0.
    #[must_use]
    pub fn restarts(&self) -> &[u64] {
        &self.restarts
    }

    /// Returns whether a tree is filled with virtual rounds before a restart.
    #[must_use]
    pub fn completion(&self) -> bool {
        self.completion
    }

    /// Returns the trees of a run of `n` rounds, in order; restarts at or after `n` do not happen.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] unless 1 ≤ n ≤ [`MAX_TREE`].
    pub fn spans(&self, n: u64) -> Result<Vec<Span>> {
        if n == 0 || n > MAX_TREE {
            return Err(invalid("iterations", n, format!("1 to {MAX_TREE}")));
        }
        let mut spans = Vec::new();
        let mut start = 0;
        for &round in self.restarts.iter().take_while(|r| **r < n) {
            spans.push(Span { rounds: round - start, completed: self.completion });
            start = round;
        }
        spans.push(Span { rounds: n - start, completed: false });
        Ok(spans)
    }

    /// Returns the sensitivity per unit clip norm, for participations with j − i ≥ `min_sep`: exact unless the search
    /// for the worst pattern would take too long.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for an unusable rule or number of rounds.
    pub fn sensitivity(&self, n: u64, rule: Participation) -> Result<Sensitivity> {
        let SquaredSensitivity { value, exact } = sensitivity_squared(&self.spans(n)?, rule)?;
        Ok(Sensitivity { value: (value as f64).sqrt(), exact })
    }

    /// Returns the prefix-sum errors of the streaming estimate in units of σζ; O(log n) per tree.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] unless 1 ≤ n ≤ [`MAX_TREE`].
    pub fn errors(&self, n: u64) -> Result<Errors> {
        let mut before = 0.0;
        let mut total = 0.0;
        let mut max = 0.0_f64;
        let mut last = 0.0;
        for span in self.spans(n)? {
            // A completed tree is filled at its last round, which is already served the filled tree's root.
            let read = if span.completed { span.rounds.next_power_of_two() } else { span.rounds };
            let open = span.rounds - 1;
            total += span.rounds as f64 * before + variance_sum(open) + variance(read);
            let open_max = if open == 0 { 0.0 } else { variance_max(open) };
            max = max.max(before + open_max.max(variance(read)));
            last = before + variance(read);
            before = last;
        }
        Ok(Errors { rms: (total / n as f64).sqrt(), max: max.sqrt(), last: last.sqrt() })
    }

    /// Returns the squared error of every prefix sum over `n` rounds, in units of (σζ)².
    ///
    /// # Errors
    /// Fails as [`Self::errors`] does.
    pub fn row_errors_squared(&self, n: u64) -> Result<Vec<f64>> {
        let mut before = 0.0;
        let mut out = Vec::new();
        for span in self.spans(n)? {
            let read = if span.completed { span.rounds.next_power_of_two() } else { span.rounds };
            out.extend((1..span.rounds).map(|t| before + variance(t)));
            before += variance(read);
            out.push(before);
        }
        Ok(out)
    }

    /// Returns the floats of state per coordinate: one per level of the longest tree, one for the previous prefix.
    #[must_use]
    pub fn state_slots(&self, n: u64) -> usize {
        let longest = self.spans(n).map_or(1, |s| s.iter().map(|s| s.rounds).max().unwrap_or(1));
        longest.next_power_of_two().ilog2() as usize + 2
    }
}

/// A squared sensitivity, or an upper bound of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SquaredSensitivity {
    /// The sum over nodes of squared counts.
    pub value: u128,
    /// False where `value` is an upper bound.
    pub exact: bool,
}

/// Returns max_π Σ_nodes (participations below the node)² over a chain of trees, where one user's participations i <
/// j have j − i ≥ `min_sep` and virtual rounds have none. Exact where the worst pattern is found within 2²² steps,
/// else a bound.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable rule, a span of no rounds or more than [`MAX_TREE`].
pub fn sensitivity_squared(spans: &[Span], rule: Participation) -> Result<SquaredSensitivity> {
    rule.check()?;
    if let Some(span) = spans.iter().find(|s| s.rounds == 0 || s.rounds > MAX_TREE) {
        return Err(invalid("rounds of a tree", span.rounds, format!("1 to {MAX_TREE}")));
    }
    Ok(match pareto::maximum(spans, rule, pareto::BUDGET) {
        Some(found) => SquaredSensitivity { value: found.into(), exact: true },
        None => SquaredSensitivity { value: bound::bound(spans, rule), exact: false },
    })
}

/// The variance of a node of level l estimated from all nodes below it: 2^l/(2^{l+1}−1).
fn node_variance(level: u32) -> f64 {
    let size = (level as f64).exp2();
    size / (2.0 * size - 1.0)
}

/// The variance of the estimate of the first `t` rounds of a tree: one node per set bit of t.
fn variance(t: u64) -> f64 {
    (0..64).filter(|l| t >> l & 1 == 1).map(node_variance).sum()
}

/// Σ_{t=1..m} variance(t), bit by bit: below a set bit all lower bits run through every value.
fn variance_sum(m: u64) -> f64 {
    let mut sum = 0.0;
    let mut base = 0.0;
    for level in (0..64).rev().filter(|l| m >> l & 1 == 1) {
        let block = (level as f64).exp2();
        sum += block * (base + lower(level) / 2.0);
        base += node_variance(level);
    }
    sum + base
}

/// max_{1≤t≤m} variance(t): m itself, or m with one set bit cleared and all lower bits set.
fn variance_max(m: u64) -> f64 {
    let mut best = 0.0_f64;
    let mut base = 0.0;
    for level in (0..64).rev().filter(|l| m >> l & 1 == 1) {
        best = best.max(base + lower(level));
        base += node_variance(level);
    }
    best.max(base)
}

/// Σ_{l<level} v_l.
fn lower(level: u32) -> f64 {
    (0..level).map(node_variance).sum()
}
