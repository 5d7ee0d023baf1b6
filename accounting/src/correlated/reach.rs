//! The largest products of moves by their distance.

use ndarray::Array2;
use strategy::Strategy;

use crate::error::{AccountingError, Result};
use crate::monte_carlo::gram;

/// Most rounds of a Toeplitz strategy: its column's products with itself take that much squared.
const MAX_ROUNDS: u64 = 1 << 17;

/// R(d), the largest product of two moves at least d apart, for d = 0, 1, …. It never rises.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reach {
    largest: Vec<f64>,
}

impl Reach {
    fn new(mut by_distance: Vec<f64>) -> Self {
        let mut most: f64 = 0.0;
        for product in by_distance.iter_mut().rev() {
            most = most.max(*product);
            *product = most;
        }
        Self { largest: by_distance }
    }

    /// Returns the largest products of a symmetric matrix by the distance of row and column on a circle.
    pub fn on_circle(products: &Array2<f64>) -> Self {
        let b = products.nrows();
        let mut by_distance = vec![0.0_f64; b / 2 + 1];
        for ((i, j), product) in products.indexed_iter() {
            let apart = i.abs_diff(j);
            let place = apart.min(b - apart);
            by_distance[place] = by_distance[place].max(*product);
        }
        Self::new(by_distance)
    }

    /// Returns the largest products of two columns of C by their distance.
    pub fn of_columns(strategy: &Strategy, n: u64) -> Result<Self> {
        match strategy {
            Strategy::Tree(_)
            | Strategy::BandMf(_)
            | Strategy::Dense(_)
            | Strategy::Scaled(_)
            | Strategy::BandToeplitz { column_normalised: true, .. } => {
                if n > gram::MAX_BATCHES {
                    let allowed = "up to 4096 for a strategy that is not Toeplitz";
                    return Err(AccountingError::Invalid { what: "iterations", value: n as f64, allowed });
                }
                let products = gram::gram(strategy, n, n)?;
                let mut by_distance = vec![0.0_f64; n as usize];
                for ((i, j), product) in products.indexed_iter() {
                    let place = i.abs_diff(j);
                    by_distance[place] = by_distance[place].max(*product);
                }
                Ok(Self::new(by_distance))
            }
            _ => {
                if n > MAX_ROUNDS {
                    let allowed = "up to 131072 under random allocation";
                    return Err(AccountingError::Invalid { what: "iterations", value: n as f64, allowed });
                }
                let mut c = strategy.c_column(n)?;
                c.iter().try_for_each(|c| gram::not_negative(*c).map(drop))?;
                // Of all pairs d apart the first is the largest, as later ones are cut off earlier.
                c.truncate(c.iter().rposition(|c| *c > 0.0).map_or(0, |last| last + 1));
                let product = |d: usize| c.iter().zip(&c[d..]).map(|(x, y)| x * y).sum();
                Ok(Self::new((0..c.len()).map(product).collect()))
            }
        }
    }

    /// Returns the largest product of two moves at least `distance` apart.
    pub fn at(&self, distance: u64) -> f64 {
        usize::try_from(distance).ok().and_then(|d| self.largest.get(d)).copied().unwrap_or(0.0)
    }
}
