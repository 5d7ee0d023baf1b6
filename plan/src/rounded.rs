//! The matrix that is really applied: C with the `f32` coefficients that a run computes with, in `f64`.
//!
//! Rows are made from numbers rounded once, so a run has a C⁻¹ that differs from the plan's in the eighth digit,
//! and with it a sensitivity. An account uses the larger of both. The
//! rounding of each operation of a row afterwards is noise of that size again and part of no matrix.

use std::ops::Range;

use ndarray::Array2;
use strategy::scaled::Base;
use strategy::{Banded, Blt, ColumnScales, Dense, MAX_SERIES, Scaled, Sensitivity, Strategy};

use crate::conversion::refused;
use crate::error::require;
use crate::{
    BandRows, Banded as Bands, Coefficients, Inverse, Mechanism, Participation, Plan, PlanError, check,
    conversion, round,
};

/// More than an entry of C changes by where its numbers are rounded to `f32`, relative to itself.
const ENTRY_CHANGE: f64 = 1.0 / (1 << 22) as f64;
/// Sensitivities this close, relative to the larger, differ by rounding alone.
const ROUNDING_ALONE: f64 = 1e-5;

impl Plan {
    /// Returns the strategy whose C⁻¹ has exactly the coefficients of [`Plan::coefficients`], up to rounding in `f64`.
    ///
    /// A tree is returned as it is: its node weights v and 1 − v round too, each by at most 2⁻²⁴ of itself, but no
    /// tree has other weights.
    ///
    /// O(n·p) numbers where columns are normalised, O(n³) time for a dense matrix.
    ///
    /// # Errors
    /// [`PlanError::Field`] for numbers that `f32` made unusable (a θ or a diagonal of zero), or n·p beyond memory.
    pub fn running_strategy(&self) -> Result<Strategy, PlanError> {
        if let Some(on_grid) = self.on_grid() {
            return Ok(on_grid.matrix().clone());
        }
        let (coefficients, nominal) = self.parts();
        running(coefficients, nominal, self.iterations())
    }

    /// Returns the sensitivity that an account must use, per unit clip norm: the larger of the plan's own and that of
    /// the coefficients as they run. It is exact where both are and rounding does not show.
    ///
    /// # Errors
    /// [`PlanError::Field`] where the matrix has no sensitivity within memory.
    pub fn accounted_sensitivity(&self) -> Result<Sensitivity, PlanError> {
        self.larger(self.participation())
    }

    /// Returns the sensitivity that an account must use for some rows of C alone; 0..r are the first r rounds of the
    /// run. See [`Plan::accounted_sensitivity`].
    ///
    /// # Errors
    /// Fails as [`Plan::accounted_sensitivity`] does, and for rows that the plan doesn't have.
    pub fn accounted_sensitivity_of(&self, rows: Range<u64>) -> Result<Sensitivity, PlanError> {
        let n = self.iterations();
        if rows == (0..n) {
            return self.accounted_sensitivity();
        }
        self.accounted(|strategy| strategy.sensitivity_of_rows(n, rows.clone(), self.participation()))
    }

    /// Returns max_j ‖C[:, j]‖, the larger of the plan's own and that of the coefficients as they run.
    ///
    /// # Errors
    /// Fails as [`Plan::accounted_sensitivity`] does.
    pub fn accounted_column_norm(&self) -> Result<f64, PlanError> {
        Ok(self.larger(Participation::single())?.value)
    }

    fn larger(&self, rule: Participation) -> Result<Sensitivity, PlanError> {
        let n = self.iterations();
        self.accounted(|strategy| strategy.sensitivity(n, rule))
    }

    /// On a grid the matrix that runs is the one that is accounted for, and what the feedback of a BLT is off by is added;
    /// in floating point the larger of the plan's and the running one's counts.
    fn accounted(
        &self,
        sensitivity: impl Fn(&Strategy) -> strategy::Result<Sensitivity>,
    ) -> Result<Sensitivity, PlanError> {
        let Some(on_grid) = self.on_grid() else {
            let (coefficients, nominal) = self.parts();
            return larger(coefficients, nominal, self.iterations(), sensitivity);
        };
        let Sensitivity { value, exact } = sensitivity(on_grid.matrix()).map_err(refused)?;
        let added = on_grid.figures().sensitivity_added;
        Ok(Sensitivity { value: value + added, exact: exact && on_grid.is_exact() })
    }

    /// Returns [`Plan::running_strategy`] for an account under sampling.
    ///
    /// # Errors
    /// Those of [`Plan::running_strategy`], and [`PlanError::Field`] for a BLT on a grid, whose feedback is not exact: what is
    /// known of that holds without amplification.
    pub fn sampled_strategy(&self) -> Result<Strategy, PlanError> {
        let exact = self.on_grid().is_none_or(|on_grid| on_grid.is_exact());
        let allowed = "a mechanism whose feedback is exact on the grid (any but blt) under sampling, or batches in any order";
        require(exact, "mechanism.name", self.mechanism().name(), allowed)?;
        self.running_strategy()
    }

    /// Returns the sensitivity of [`Plan::running_strategy`] under the plan's participation, per unit clip norm.
    ///
    /// # Errors
    /// Fails as [`Plan::running_strategy`] does, and where the matrix has no sensitivity within memory.
    pub fn running_sensitivity(&self) -> Result<Sensitivity, PlanError> {
        self.running_strategy()?.sensitivity(self.iterations(), self.participation()).map_err(refused)
    }
}

/// Returns what [`Plan::accounted_sensitivity`] would be for a plan of `n` rows with this strategy: the larger
/// sensitivity of the strategy itself and of its coefficients once they are rounded to `f32`, per unit clip norm.
///
/// # Errors
/// [`PlanError::Field`] for a strategy or a rule that no plan can hold, or a matrix that has no sensitivity within
/// memory.
pub fn accounted_sensitivity(
    strategy: &Strategy,
    participation: Participation,
    n: u64,
) -> Result<Sensitivity, PlanError> {
    let mechanism = Mechanism::try_from(strategy)?;
    check::iterations(n)?;
    check::participation(participation)?;
    check::mechanism(&mechanism, n)?;
    let nominal = conversion::strategy(&mechanism)?;
    let coefficients = round::coefficients(&mechanism, n)?;
    larger(&coefficients, &nominal, n, |strategy| strategy.sensitivity(n, participation))
}

/// The strategy of `n` rows that runs with `coefficients`, which were rounded from `nominal`.
fn running(coefficients: &Coefficients, nominal: &Strategy, n: u64) -> Result<Strategy, PlanError> {
    // Rows of normalised columns have an output scale of their own each.
    if let Strategy::Scaled(nominal) = nominal
        && !nominal.is_normalised()
    {
        return scaled(coefficients, nominal, n);
    }
    let strategy = match coefficients {
        Coefficients::Identity => Strategy::Identity,
        Coefficients::Tree(_) => nominal.clone(),
        Coefficients::Blt { theta, omega, .. } => blt(theta, omega)?,
        Coefficients::Banded(bands) => banded(bands, n)?,
        Coefficients::Inverse(Inverse::Toeplitz { coefficients }) => {
            Strategy::BandInverse { s: doubles(coefficients) }
        }
        Coefficients::Inverse(Inverse::Dense { rows }) => {
            Strategy::Dense(Dense::new(conversion::inverted(&doubles(rows), n as usize)).map_err(refused)?)
        }
    };
    strategy.validate().map_err(refused)?;
    Ok(strategy)
}

/// The Toeplitz matrix of the coefficients with its columns divided by the output scales.
fn scaled(coefficients: &Coefficients, nominal: &Scaled, n: u64) -> Result<Strategy, PlanError> {
    let identity = || Base::BandToeplitz { c: vec![1.0], column_normalised: false };
    let none = Vec::new();
    let (base, output_scale) = match coefficients {
        Coefficients::Banded(Bands {
            rows: BandRows::Toeplitz { lags, inverse_diagonal },
            output_scale,
            ..
        }) => {
            let c = first_column(lags, *inverse_diagonal);
            (Base::BandToeplitz { c, column_normalised: false }, output_scale)
        }
        Coefficients::Blt { theta, omega, output_scale } => match blt(theta, omega)? {
            Strategy::Blt(blt) => (Base::Blt(blt), output_scale),
            _ => (identity(), output_scale),
        },
        _ => (identity(), &none),
    };
    let rounds = nominal.scales().rounds();
    let starts = (0..nominal.scales().values().len() as u64).map(|e| e.saturating_mul(rounds));
    let scales =
        starts.take_while(|start| *start < n).map(|start| 1.0 / f64::from(output_scale[start as usize]));
    let scales = ColumnScales::new(rounds, scales.collect()).map_err(refused)?;
    Ok(Strategy::Scaled(Scaled::new(base, scales).map_err(refused)?))
}

fn first_column(lags: &[f32], inverse_diagonal: f32) -> Vec<f64> {
    let mut c = vec![1.0 / f64::from(inverse_diagonal)];
    c.extend(doubles(lags));
    c
}

/// The larger sensitivity of the nominal and of the running strategy.
fn larger(
    coefficients: &Coefficients,
    nominal: &Strategy,
    n: u64,
    sensitivity: impl Fn(&Strategy) -> strategy::Result<Sensitivity>,
) -> Result<Sensitivity, PlanError> {
    let exactly = sensitivity(nominal).map_err(refused)?;
    let rounded =
        running(coefficients, nominal, n).and_then(|running| sensitivity(&running).map_err(refused));
    let rounded = match rounded {
        Ok(rounded) => rounded,
        // Columns of more numbers than memory holds: each rounds by less than 2⁻²² of itself.
        Err(_) => Sensitivity { value: exactly.value * (1.0 + ENTRY_CHANGE), exact: false },
    };
    let value = exactly.value.max(rounded.value);
    let alike = (exactly.value - rounded.value).abs() <= ROUNDING_ALONE * value;
    Ok(Sensitivity { value, exact: exactly.exact && rounded.exact && alike })
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
        let c = first_column(lags, *inverse_diagonal);
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
