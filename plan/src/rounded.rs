//! The matrix that is really applied: C with the `f32` coefficients that a run computes with, in `f64`.
//!
//! Rows are made from numbers rounded once, so a run has a C⁻¹ that differs from the plan's in the eighth digit,
//! and with it a sensitivity. Whoever accounts takes the larger of both. What each operation of a row rounds by
//! afterwards is noise of that size again and not part of any matrix.

use std::ops::Range;

use ndarray::Array2;
use strategy::{Banded, Blt, Dense, MAX_SERIES, Sensitivity, Strategy};

use crate::strategies::refused;
use crate::{BandRows, Banded as Bands, Coefficients, Inverse, Plan, PlanError};

/// More than an entry of C changes by where its numbers are rounded to `f32`, relative to itself.
const ENTRY: f64 = 1.0 / (1 << 22) as f64;
/// Sensitivities this close, relative to the larger, differ by rounding alone.
const ALIKE: f64 = 1e-5;

impl Plan {
    /// The strategy whose C⁻¹ has exactly the coefficients of [`Plan::coefficients`], up to rounding in `f64`.
    ///
    /// A tree is given back as it is: its node weights v and 1 − v round too, each by at most 2⁻²⁴ of itself, but no
    /// tree has other weights.
    ///
    /// O(n·p) numbers where columns are normalised, O(n³) time for a dense matrix. Error: numbers that `f32` made
    /// unusable (a θ or a diagonal of zero), or n·p beyond memory.
    pub fn running_strategy(&self) -> Result<Strategy, PlanError> {
        let strategy = match self.rounded() {
            Coefficients::Identity => Strategy::Identity,
            Coefficients::Tree(_) => self.strategy(),
            Coefficients::Blt { theta, omega } => blt(theta, omega)?,
            Coefficients::Banded(bands) => banded(bands, self.iterations())?,
            Coefficients::Inverse(Inverse::Toeplitz { coefficients }) => {
                Strategy::BandInverse { s: doubles(coefficients) }
            }
            Coefficients::Inverse(Inverse::Dense { rows }) => dense(rows, self.iterations() as usize)?,
        };
        strategy.validate().map_err(refused)?;
        Ok(strategy)
    }

    /// What an account must count with: the larger of the plan's own sensitivity and that of the coefficients as they
    /// run. Exact where both are and rounding does not show.
    ///
    /// Error: what has no sensitivity within memory.
    pub fn accounted_sensitivity(&self) -> Result<Sensitivity, PlanError> {
        let rule = self.participation().into();
        self.larger(|strategy| strategy.sensitivity(self.iterations(), rule).map_err(refused))
    }

    /// As [`Plan::accounted_sensitivity`], of some rows of C alone: 0..r are the first r rounds of the run.
    ///
    /// Errors: as there; rows that the plan doesn't have.
    pub fn accounted_sensitivity_of(&self, rows: Range<u64>) -> Result<Sensitivity, PlanError> {
        if rows == (0..self.iterations()) {
            return self.accounted_sensitivity();
        }
        let rule = self.participation().into();
        let of = |strategy: &Strategy| strategy.sensitivity_of_rows(self.iterations(), rows.clone(), rule);
        self.larger(|strategy| of(strategy).map_err(refused))
    }

    /// max_j ‖C[:, j]‖, the larger of the plan's own and of the coefficients as they run.
    ///
    /// Errors: as [`Plan::accounted_sensitivity`].
    pub fn accounted_column_norm(&self) -> Result<f64, PlanError> {
        let once = strategy::Participation::single();
        let found = self.larger(|strategy| strategy.sensitivity(self.iterations(), once).map_err(refused))?;
        Ok(found.value)
    }

    /// The larger sensitivity of both strategies.
    fn larger(
        &self,
        of: impl Fn(&Strategy) -> Result<Sensitivity, PlanError>,
    ) -> Result<Sensitivity, PlanError> {
        let nominal = of(&self.strategy())?;
        let running = match self.running_strategy().and_then(|running| of(&running)) {
            Ok(running) => running,
            // Columns of more numbers than memory holds: each rounds by less than 2⁻²² of itself.
            Err(_) => Sensitivity { value: nominal.value * (1.0 + ENTRY), exact: false },
        };
        let value = nominal.value.max(running.value);
        let alike = (nominal.value - running.value).abs() <= ALIKE * value;
        Ok(Sensitivity { value, exact: nominal.exact && running.exact && alike })
    }

    /// The sensitivity of [`Plan::running_strategy`] under the plan's participation, per unit of clip norm.
    ///
    /// Error: as there, or what has no sensitivity within memory.
    pub fn running_sensitivity(&self) -> Result<Sensitivity, PlanError> {
        let rule = self.participation().into();
        self.running_strategy()?.sensitivity(self.iterations(), rule).map_err(refused)
    }
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// A weight that rounds to zero takes its buffer with it.
fn blt(theta: &[f32], omega: &[f32]) -> Result<Strategy, PlanError> {
    let felt = theta.iter().zip(omega).filter(|(_, omega)| **omega != 0.0);
    let (theta, omega): (Vec<f32>, Vec<f32>) = felt.map(|(theta, omega)| (*theta, *omega)).unzip();
    if theta.is_empty() {
        return Ok(Strategy::Identity);
    }
    Ok(Strategy::Blt(Blt::new(doubles(&theta), doubles(&omega)).map_err(refused)?))
}

/// A row is (z − Σ lags·rows before)·inverse diagonal·output scale, so column j of C is what multiplies row j
/// before its output scale, divided by that scale.
fn banded(bands: &Bands, n: u64) -> Result<Strategy, PlanError> {
    let p = bands.bands;
    if let (BandRows::Toeplitz { lags, inverse_diagonal }, true) =
        (&bands.rows, bands.output_scale.is_empty())
    {
        let mut c = vec![1.0 / f64::from(*inverse_diagonal)];
        c.extend(doubles(lags));
        return Ok(Strategy::BandToeplitz { c, column_normalised: false });
    }
    let numbers = n.saturating_mul(p as u64);
    if numbers > MAX_SERIES {
        return Err(PlanError::field("iterations × bands", numbers, format!("up to {MAX_SERIES}")));
    }
    let n = n as usize;
    let entry = |j: usize, i: usize| -> f64 {
        let t = j + i;
        match &bands.rows {
            _ if t >= n => 0.0,
            BandRows::Toeplitz { inverse_diagonal, .. } if i == 0 => 1.0 / f64::from(*inverse_diagonal),
            BandRows::Toeplitz { lags, .. } => lags[i - 1].into(),
            BandRows::PerRow { inverse_diagonal, .. } if i == 0 => 1.0 / f64::from(inverse_diagonal[t]),
            BandRows::PerRow { lags, .. } => lags[t * (p - 1) + i - 1].into(),
        }
    };
    let scale = |j: usize| bands.output_scale.get(j).map_or(1.0, |&scale| f64::from(scale));
    let columns = Array2::from_shape_fn((n, p), |(j, i)| entry(j, i) / scale(j));
    Ok(Strategy::BandMf(Banded::new(columns).map_err(refused)?))
}

/// C from the packed rows of C⁻¹, by forward substitution.
fn dense(rows: &[f32], n: usize) -> Result<Strategy, PlanError> {
    let mut c = Array2::<f64>::zeros((n, n));
    for t in 0..n {
        let row = &rows[t * (t + 1) / 2..][..=t];
        let mut next = vec![0.0; t + 1];
        next[t] = 1.0;
        for (k, &weight) in row[..t].iter().enumerate() {
            let known = c.row(k);
            next.iter_mut().zip(known.iter().take(k + 1)).for_each(|(x, c)| *x -= f64::from(weight) * c);
        }
        next.iter().enumerate().for_each(|(j, x)| c[[t, j]] = x / f64::from(row[t]));
    }
    Ok(Strategy::Dense(Dense::new(c).map_err(refused)?))
}
