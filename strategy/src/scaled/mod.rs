//! A Toeplitz T whose columns are scaled from one stretch of rounds to the next: C = T·diag(s).
//!
//! C⁻¹ = diag(1/s)·T⁻¹: a run makes the rows of T⁻¹Z as it would without scales and divides row t by s_t, so that state
//! and work are those of T. The scales never rise. Noise of early rounds is in more of the released sums and is worth a
//! larger share of what one user may move.
//!
//! # Sensitivity
//!
//! sens(C)² is the largest Σ_{i,j∈π} s_i·s_j·X_ij·⟨u_i, u_j⟩ over allowed sets π of rounds at least b apart, at most k
//! of them, with ‖u_i‖ ≤ 1 and X = TᵀT, that is X_ij = Σ_{r<n−j} c_r·c_{r+j−i} for i ≤ j.
//!
//! **Where c ≥ 0 does not rise from lag b on, it is attained at rounds 0, b, 2b, …** Let π be j_0 < j_1 < … < j_m with
//! m < k. As X ≥ 0, equal u are the worst. Compare with the pattern 0, b, …, m·b, which has the same number of rounds.
//! Rounds are b apart, so j_i ≥ i·b, and s never rises: s at i·b is at least s at j_i. For i < l, j_l − j_i ≥ (l−i)·b: the
//! rounds i·b and l·b are no farther apart than j_i and j_l, and no later. X falls with both the distance (c does not rise
//! from b on, and the distance is at least b) and the later round (fewer terms, all of them ≥ 0). So no term of the sum is
//! smaller at 0, b, …, m·b, and more rounds up to k add terms that are not negative.
//!
//! **Where one user's columns cannot overlap** (one participation, or no more bands than b) the sum is that of the
//! squared norms of columns, which are s_j²·Σ_{r<n−j} c_r² and never rise with j: the same pattern is the worst, for any
//! signs.
//!
//! **Where columns are normalised** and cannot overlap, column j has norm s_j, which never rises, whatever of it the last
//! rounds cut off: the same pattern is the worst. Where they overlap, the general search over patterns finds the value or a
//! bound.
//!
//! **Elsewhere** the column m that is |c| below lag b and its least majorant that never rises from there on has entries of
//! no smaller size than c, so X of m is at least |X| of c, and its value is an upper bound, marked as one.

mod row_errors;
mod scales;

use std::borrow::Cow;

use crate::banded::Banded;
use crate::blt::Blt;
use crate::column_normalised;
use crate::error::{Result, invalid, series_length};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::sensitivity::{gram::Gram, majorant, worst};
use crate::series::{check_leading, invert};

pub use scales::ColumnScales;

/// The share of its largest entry by which the majorant may exceed a column and still count as rounding.
const ROUNDING: f64 = 1e-13;

/// The matrix T that is scaled.
#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// T = LtToep(c), optionally with every column divided by its norm, the short last ones by their own.
    BandToeplitz {
        /// The first column, zero beyond its end.
        c: Vec<f64>,
        /// True where every column is divided by its norm.
        column_normalised: bool,
    },
    /// A BLT.
    Blt(Blt),
}

/// C = T·diag(s), s constant over stretches of rounds and never rising.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    base: Base,
    scales: ColumnScales,
}

impl Scaled {
    /// Returns the strategy of a Toeplitz matrix and scales of its columns.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for coefficients that are not finite or do not begin above zero.
    pub fn new(base: Base, scales: ColumnScales) -> Result<Self> {
        if let Base::BandToeplitz { c, .. } = &base {
            check_leading(c)?;
            if c[0] <= 0.0 {
                return Err(invalid("leading coefficient", c[0], "above zero"));
            }
        }
        Ok(Self { base, scales })
    }

    /// Returns the matrix that is scaled.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Returns the scales of its columns.
    #[must_use]
    pub fn scales(&self) -> &ColumnScales {
        &self.scales
    }

    /// Returns whether every column has norm one before it is scaled, so that C depends on the number of rounds.
    #[must_use]
    pub fn is_normalised(&self) -> bool {
        matches!(self.base, Base::BandToeplitz { column_normalised: true, .. })
    }

    /// Returns the first column of the Toeplitz matrix within `n` rounds, without the zeros beyond its last band.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for zero rounds, or more than memory holds.
    pub fn column(&self, n: u64) -> Result<Cow<'_, [f64]>> {
        let rounds = series_length(n)?;
        Ok(match &self.base {
            Base::BandToeplitz { c, .. } => Cow::Borrowed(&c[..c.len().min(rounds)]),
            Base::Blt(blt) => Cow::Owned(blt.coefficients(rounds)),
        })
    }

    /// Returns what each of the Toeplitz matrix's columns is multiplied by in a run of `n` rounds: its scale, divided by its
    /// norm where columns are normalised.
    pub fn factors(&self, n: usize) -> impl Fn(usize) -> f64 {
        let norms = match &self.base {
            Base::BandToeplitz { c, column_normalised: true } => Some(column_normalised::norms(c, n)),
            _ => None,
        };
        move |j| self.scales.at(j as u64) / norms.as_ref().map_or(1.0, |norm| norm(j))
    }

    /// Returns the first column of the Toeplitz matrix's inverse, `count` numbers.
    fn inverse_column(&self, count: usize) -> Result<Vec<f64>> {
        match &self.base {
            Base::BandToeplitz { c, .. } => invert(c, count),
            Base::Blt(blt) => Ok(blt.inverse_coefficients(count)),
        }
    }

    /// Returns sens(C) per unit clip norm over `n` rounds; exact, or an upper bound where the module says so.
    /// O(k·min(n, p)) for p bands.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for an unusable rule or number of rounds.
    pub fn sensitivity(&self, n: u64, rule: Participation) -> Result<Sensitivity> {
        rule.check()?;
        let c = self.column(n)?;
        let count = rule.in_rounds(n) as usize;
        let gap = rule.min_sep.min(n) as usize;
        if count == 1 || c.len() <= gap {
            return Ok(Sensitivity::exact_squared(self.spaced_squared(&c, n as usize, gap, count)));
        }
        if self.is_normalised() {
            series_length(n.saturating_mul(c.len() as u64))?;
            let gram = Gram::toeplitz(&c, n as usize).scaled(self.factors(n as usize));
            return Ok(worst(&gram, n as usize, rule, false)?.sensitivity());
        }
        let majorant = majorant(&c, gap);
        let excess = majorant.iter().zip(c.iter()).map(|(m, c)| m - c).fold(0.0, f64::max);
        let exact = excess <= ROUNDING * majorant.iter().copied().fold(0.0, f64::max);
        let squared = self.spaced_squared(&majorant, n as usize, gap, count);
        Ok(Sensitivity { value: squared.sqrt(), exact })
    }

    /// ‖Σ_i s_{i·gap}·C[:, i·gap]‖² of T = LtToep(c), over `count` rounds.
    fn spaced_squared(&self, c: &[f64], rounds: usize, gap: usize, count: usize) -> f64 {
        let factor = self.factors(rounds);
        spaced_sum(c, |i| factor(i * gap), rounds, gap, count).iter().map(|v| v * v).sum()
    }

    /// Returns the prefix-sum errors over `n` rounds, in units of σζ; O(m·n·log n) for m scales.
    ///
    /// # Errors
    /// Fails as [`Self::row_errors_squared`] does.
    pub fn errors(&self, n: u64) -> Result<Errors> {
        Ok(Errors::of_rows(&self.row_errors_squared(n)?))
    }

    /// Returns the squared prefix-sum error of every row, in units of (σζ)².
    ///
    /// # Errors
    /// Fails as [`Self::column`] does, and for more scales in so many rounds than memory holds the correlations of.
    pub fn row_errors_squared(&self, n: u64) -> Result<Vec<f64>> {
        let rounds = series_length(n)?;
        self.scales.check_correlations(n)?;
        let inverse = self.inverse_column(rounds)?;
        let whole = match &self.base {
            Base::BandToeplitz { c, column_normalised: true } => rounds + 1 - c.len().min(rounds),
            _ => rounds,
        };
        Ok(row_errors::squared(&inverse, whole, &self.scales, self.factors(rounds)))
    }

    /// Returns the matrix as a [`Banded`] of n columns; n·p numbers.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] beyond memory.
    pub fn columns(&self, n: u64) -> Result<Banded> {
        let c = self.column(n)?;
        crate::error::check_numbers(n, c.len())?;
        let shape = (n as usize, c.len());
        let factor = self.factors(n as usize);
        Banded::new(ndarray::Array2::from_shape_fn(shape, |(j, i)| c[i] * factor(j)))
    }

    /// Row `t` of C for `n` rounds, t+1 numbers.
    pub(crate) fn row(&self, n: usize, t: usize) -> Result<Vec<f64>> {
        let c = self.column(t as u64 + 1)?;
        let factor = self.factors(n);
        Ok((0..=t).map(|j| c.get(t - j).map_or(0.0, |c| c * factor(j))).collect())
    }

    /// Row `t` of C⁻¹ for `n` rounds, t+1 numbers.
    pub(crate) fn inverse_row(&self, n: usize, t: usize) -> Result<Vec<f64>> {
        let scale = self.factors(n)(t);
        Ok(self.inverse_column(t + 1)?.into_iter().rev().map(|x| x / scale).collect())
    }
}

/// Σ_i scale(i)·T[:, i·gap] of T = LtToep(c) over `count` rounds, cut where it becomes zero.
pub(crate) fn spaced_sum(
    c: &[f64],
    scale: impl Fn(usize) -> f64,
    rounds: usize,
    gap: usize,
    count: usize,
) -> Vec<f64> {
    let mut sum = vec![0.0; rounds.min((count - 1).saturating_mul(gap).saturating_add(c.len()))];
    for i in (0..count).take_while(|i| i * gap < rounds) {
        crate::numeric::add(&mut sum[i * gap..], scale(i), c);
    }
    sum
}
