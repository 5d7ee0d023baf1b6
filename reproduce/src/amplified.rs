//! RMSE at a privacy budget, with amplification by cyclic Poisson sampling (McKenna (2024), Prop. 2.1 and 2.2).

use accounting::calibrate_gaussian;
use rayon::prelude::*;

use crate::work::Work;

/// (ε, δ) under zeroing out one record.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub epsilon: f64,
    pub delta: f64,
}

impl Budget {
    pub const DELTA: f64 = 1e-6;

    pub fn new(epsilon: f64) -> Self {
        Self { epsilon, delta: Self::DELTA }
    }

    /// RMSE of prefix sums in units of the clip norm, for `epochs` expected participations in n rounds.
    pub fn amplified(self, work: &Work, n: u64, epochs: u64, bands: u64) -> anyhow::Result<f64> {
        work.report(&format!("ε = {}, n = {n}, k = {epochs}, p = {bands}", self.epsilon));
        let sigma = work.amplified_noise((self.epsilon, self.delta), n, epochs, bands)?;
        Ok(sigma * work.column_normalised_error(n, bands)?)
    }

    /// The number of bands with the least RMSE, and that RMSE, of all powers of two up to n/k.
    pub fn best_bands(self, work: &Work, n: u64, epochs: u64) -> anyhow::Result<(u64, f64)> {
        let tried: anyhow::Result<Vec<_>> = powers_of_two(n / epochs)
            .into_par_iter()
            .map(|bands| Ok((bands, self.amplified(work, n, epochs, bands)?)))
            .collect();
        let best = tried?.into_iter().min_by(|x, y| x.1.total_cmp(&y.1));
        best.ok_or_else(|| anyhow::anyhow!("{epochs} epochs leave no band in {n} rounds"))
    }

    /// RMSE of DP-SGD on the whole data in each of n rounds, in units of the clip norm.
    pub fn full_batch(self, n: u64) -> anyhow::Result<f64> {
        let rounds = n as f64;
        Ok(calibrate_gaussian(rounds.sqrt(), self.epsilon, self.delta)? * ((rounds + 1.0) / 2.0).sqrt())
    }

    /// RMSE of the mean gradient beside that of DP-SGD on full batches: batches of k epochs hold k/n of the data.
    pub fn beside_full_batch(self, work: &Work, n: u64, epochs: u64, bands: u64) -> anyhow::Result<f64> {
        let q = epochs as f64 / n as f64;
        Ok(self.amplified(work, n, epochs, bands)? / q / self.full_batch(n)?)
    }

    /// RMSE in units of the clip norm of what is not amplified, of this loss (error times sensitivity).
    pub fn unamplified(self, loss: f64) -> anyhow::Result<f64> {
        Ok(calibrate_gaussian(loss, self.epsilon, self.delta)?)
    }
}

/// 1, 2, 4, … up to `most`.
pub fn powers_of_two(most: u64) -> Vec<u64> {
    (0..64).map(|i| 1 << i).take_while(|power| *power <= most).collect()
}
