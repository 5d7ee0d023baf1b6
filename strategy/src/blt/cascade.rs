//! The error of a BLT on a workload by doubling the number of rounds: O(d³ log n), also where poles meet.
//!
//! The decoder is a chain of filters of one state each, (1−θ_j x)/(1−πx) for a pole π and at the end
//! 1/(1−πx): state ← F·state + 1·z with F lower triangular. F^m is kept as F^m − I, so that decays next to
//! one keep their digits. P_m = Σ_{i<m} F^i 11ᵀ F^{iᵀ} is the covariance after m rounds and R_m = Σ_{t≤m}
//! P_t:
//!
//!   P_{a+b} = P_a + F^a P_b F^{aᵀ},   R_{a+b} = R_a + b·P_a + F^a R_b F^{aᵀ}.

use ndarray::Array2;

use super::error_slopes::{ErrorSlopes, Rows};

/// The effect of m rounds: F^m − I, P_m and R_m.
#[derive(Clone)]
struct Span {
    rounds: f64,
    change: Array2<f64>,
    covariance: Array2<f64>,
    total: Array2<f64>,
}

impl Span {
    fn one(change: &Array2<f64>) -> Self {
        let covariance = Array2::ones(change.dim());
        Self { rounds: 1.0, change: change.clone(), total: covariance.clone(), covariance }
    }

    fn zeros(size: usize) -> Self {
        let none = Array2::zeros((size, size));
        Self { rounds: 0.0, change: none.clone(), covariance: none.clone(), total: none }
    }

    fn add(&mut self, other: &Self) {
        self.change += &other.change;
        self.covariance += &other.covariance;
        self.total += &other.total;
    }
}

/// F^a X F^{aᵀ} with F^a = I + E.
fn around(change: &Array2<f64>, x: &Array2<f64>) -> Array2<f64> {
    let left = x + &change.dot(x);
    &left + &left.dot(&change.t())
}

/// The span of `first` followed by `second`.
fn join(first: &Span, second: &Span) -> Span {
    Span {
        rounds: first.rounds + second.rounds,
        change: &first.change + &second.change + first.change.dot(&second.change),
        covariance: &first.covariance + &around(&first.change, &second.covariance),
        total: &first.total + &(&first.covariance * second.rounds) + around(&first.change, &second.total),
    }
}

/// The adjoints of `first` and `second` from that of their join.
fn join_adjoint(first: &Span, second: &Span, adjoint: &Span) -> (Span, Span) {
    let size = first.change.nrows();
    let mut by_first = adjoint.clone();
    by_first.change += &adjoint.change.dot(&second.change.t());
    by_first.covariance.scaled_add(second.rounds, &adjoint.total);
    let mut by_second = Span::zeros(size);
    by_second.change = &adjoint.change + &first.change.t().dot(&adjoint.change);
    let pairs = [(&adjoint.covariance, &second.covariance), (&adjoint.total, &second.total)];
    let mut inner = Vec::with_capacity(2);
    for (g, x) in pairs {
        // Y = (I+E) X (I+E)ᵀ with X and g symmetric: ∂E = 2 g (I+E) X, ∂X = (I+E)ᵀ g (I+E).
        let product = x + &first.change.dot(x);
        by_first.change.scaled_add(2.0, &g.dot(&product));
        inner.push(around(&first.change.t().to_owned(), g));
    }
    by_second.total = inner.pop().unwrap_or_default();
    by_second.covariance = inner.pop().unwrap_or_default();
    (by_first, by_second)
}

/// The chain's filters: the complement of each one's pole, and where in φ̂ it comes from.
struct Chain {
    poles: Vec<f64>,
    of: Vec<Option<usize>>,
}

impl Chain {
    /// The filters by rising complement, the slowest pole first, so that each comes before the θ_j it is divided by:
    /// every filter's output is then positive, and nothing cancels.
    fn new(phi_hat: &[f64], ends: &[f64]) -> Self {
        let known = phi_hat.iter().enumerate().map(|(a, p)| (*p, Some(a)));
        let mut all: Vec<_> = known.chain(ends.iter().map(|p| (*p, None))).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { poles: all.iter().map(|p| p.0).collect(), of: all.iter().map(|p| p.1).collect() }
    }

    /// F − I: each filter takes the outputs of all before it in the same round.
    fn step(&self, phi: &[f64]) -> Array2<f64> {
        let size = self.poles.len();
        Array2::from_shape_fn((size, size), |(row, column)| match row.cmp(&column) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => -self.poles[column],
            std::cmp::Ordering::Greater => phi.get(column).unwrap_or(&1.0) - self.poles[column],
        })
    }

    /// Derivatives in φ and φ̂ from those in F's entries.
    fn by_parameters(&self, change: &Array2<f64>, d: usize) -> (Vec<f64>, Vec<f64>) {
        let size = self.poles.len();
        let below = |column: usize| (column + 1..size).map(|row| change[[row, column]]).sum::<f64>();
        let mut phi_hat = vec![0.0; d];
        for (column, of) in self.of.iter().enumerate() {
            if let Some(a) = of {
                phi_hat[*a] = -below(column) - change[[column, column]];
            }
        }
        ((0..d).map(below).collect(), phi_hat)
    }
}

/// The error over n rounds as [`super::decoder::error_squared`] has it.
pub(super) fn error_squared(phi: &[f64], phi_hat: &[f64], ends: &[f64], n: u64, rows: Rows) -> ErrorSlopes {
    let chain = Chain::new(phi_hat, ends);
    let one = Span::one(&chain.step(phi));
    let mut spans = vec![one.clone()];
    // The bits of n below the highest: double, and add one round where the bit is set.
    let bits: Vec<bool> = (0..n.ilog2()).rev().map(|bit| n >> bit & 1 == 1).collect();
    for odd in &bits {
        let last = &spans[spans.len() - 1];
        let doubled = join(last, last);
        spans.push(doubled);
        if *odd {
            spans.push(join(&one, &spans[spans.len() - 1]));
        }
    }
    let size = one.change.nrows();
    let mut adjoint = Span::zeros(size);
    let end = &spans[spans.len() - 1];
    let corner = [size - 1, size - 1];
    let squared = match rows {
        Rows::Last => {
            adjoint.covariance[corner] = 1.0;
            end.covariance[corner]
        }
        Rows::Mean => {
            adjoint.total[corner] = 1.0 / n as f64;
            end.total[corner] / n as f64
        }
    };
    let change = backwards(&one, &spans, &bits, adjoint);
    let (phi, phi_hat) = chain.by_parameters(&change, phi.len());
    ErrorSlopes { squared, phi, phi_hat }
}

/// The adjoint of F − I from that of the last span.
fn backwards(one: &Span, spans: &[Span], bits: &[bool], mut adjoint: Span) -> Array2<f64> {
    let mut of_one = Span::zeros(one.change.nrows());
    let mut at = spans.len() - 1;
    for odd in bits.iter().rev() {
        if *odd {
            let (by_one, rest) = join_adjoint(one, &spans[at - 1], &adjoint);
            of_one.add(&by_one);
            adjoint = rest;
            at -= 1;
        }
        let (mut first, second) = join_adjoint(&spans[at - 1], &spans[at - 1], &adjoint);
        first.add(&second);
        adjoint = first;
        at -= 1;
    }
    of_one.add(&adjoint);
    of_one.change
}
