//! Lower triangular matrices as operators: each round takes a number and returns one (McKenna 2024, App. D).

use ndarray::Array2;

use crate::error::{Result, invalid};

/// A lower triangular matrix given by how it acts, round by round.
///
/// The operator must be linear and start from a state of zero; [`materialise`] checks neither, and a wrong
/// operator has wrong errors.
pub trait StreamingOperator: std::fmt::Debug + Send + Sync {
    /// Returns the operator as it is before round 0.
    fn start(&self) -> Box<dyn Rounds + '_>;
}

/// One pass of a streaming operator.
pub trait Rounds {
    /// Takes the next round's number and returns that round's result.
    fn next(&mut self, x: f64) -> f64;
}

/// Returns the matrix of an operator over the first `n` rounds, shape (n, n). O(n²) rounds.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for n outside 1…[`crate::dense::MAX_DENSE`] or a result that is not finite.
pub fn materialise(operator: &dyn StreamingOperator, n: usize) -> Result<Array2<f64>> {
    let most = crate::dense::MAX_DENSE;
    if !(1..=most).contains(&n) {
        return Err(invalid("iterations", n, format!("1 to {most} for a matrix written out")));
    }
    let mut matrix = Array2::zeros((n, n));
    for j in 0..n {
        let mut rounds = operator.start();
        for i in 0..n {
            let value = rounds.next(if i == j { 1.0 } else { 0.0 });
            if !value.is_finite() || (i < j && value != 0.0) {
                let found = format!("{value} at ({i}, {j})");
                return Err(invalid(
                    "entry of a streaming operator",
                    found,
                    "finite, and zero above the diagonal",
                ));
            }
            matrix[[i, j]] = value;
        }
    }
    Ok(matrix)
}

/// An operator from a state and what a round does to it: (state, round, x) → result.
pub(crate) fn boxed<'a, S: 'a>(
    state: S,
    step: impl FnMut(&mut S, usize, f64) -> f64 + 'a,
) -> Box<dyn Rounds + 'a> {
    Box::new(Stepped { state, round: 0, step })
}

struct Stepped<S, F> {
    state: S,
    round: usize,
    step: F,
}

impl<S, F: FnMut(&mut S, usize, f64) -> f64> Rounds for Stepped<S, F> {
    fn next(&mut self, x: f64) -> f64 {
        let round = self.round;
        self.round += 1;
        (self.step)(&mut self.state, round, x)
    }
}

/// A Toeplitz matrix by its first column; O(p) a round.
pub(crate) struct Convolution<'a> {
    column: &'a [f64],
    past: Vec<f64>,
}

impl<'a> Convolution<'a> {
    pub fn new(column: &'a [f64]) -> Self {
        Self { column, past: Vec::new() }
    }
}

impl Rounds for Convolution<'_> {
    fn next(&mut self, x: f64) -> f64 {
        self.past.push(x);
        self.column.iter().zip(self.past.iter().rev()).map(|(c, x)| c * x).sum()
    }
}

/// A matrix written out; O(t) in round t, zero beyond its last row.
pub(crate) struct Product<'a> {
    matrix: &'a Array2<f64>,
    past: Vec<f64>,
}

impl<'a> Product<'a> {
    pub fn new(matrix: &'a Array2<f64>) -> Self {
        Self { matrix, past: Vec::new() }
    }
}

impl Rounds for Product<'_> {
    fn next(&mut self, x: f64) -> f64 {
        let row = self.past.len();
        self.past.push(x);
        if row >= self.matrix.nrows() {
            return 0.0;
        }
        self.matrix.row(row).iter().zip(&self.past).map(|(a, x)| a * x).sum()
    }
}
