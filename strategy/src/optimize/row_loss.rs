//! Losses of rows' squared errors with their gradients: what the searches over general matrices minimise.

use super::Objective;

/// Most that a row's squared error may exceed the one counted, n where that is more. Beyond, the rows' noise would
/// cancel too many digits of f32, and rows without a weight would be worthless.
const WORST_ROW: f64 = 1e4;
/// The powers by which the worst row is approached: at the last, n = 10⁶ rows are within 0.2 % of it.
const POWERS: [f64; 6] = [4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0];
/// The share that all rows together have beside given weights, from stage to stage. Without it a search runs into
/// strategies that are worthless for rows without a weight, and stays there.
const MEAN_SHARES: [f64; 4] = [0.1, 0.01, 1e-3, 1e-4];

/// A smooth loss of the rows' squared errors e_t².
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RowLoss {
    /// √(Σ w_t·e_t²), the weights summing to one; `stage` counts the mean shares done.
    Weighted { weights: Vec<f64>, stage: usize },
    /// (mean of e_t^{2s})^{1/(2s)}: at most the worst row, and above n^{−1/(2s)} times it. `stage` counts [`POWERS`].
    Power { stage: usize },
}

impl RowLoss {
    /// The loss to minimise first for `objective`.
    pub fn first(objective: &Objective, n: usize) -> Self {
        match objective.weights(n) {
            Some(weights) if weights.iter().any(|w| w * (n as f64) < MEAN_SHARES[1]) => {
                Self::Weighted { weights: blended(&weights, MEAN_SHARES[0]), stage: 0 }
            }
            Some(weights) => Self::Weighted { weights, stage: MEAN_SHARES.len() },
            None => Self::Weighted { weights: vec![1.0 / n as f64; n], stage: MEAN_SHARES.len() },
        }
    }

    /// The loss to minimise next, starting from the last minimum; `None` at the end.
    pub fn next(&self, objective: &Objective, n: usize) -> Option<Self> {
        match (self, objective.weights(n)) {
            (Self::Weighted { stage, .. }, Some(weights)) => {
                let stage = stage + 1;
                let share = MEAN_SHARES.get(stage).copied().unwrap_or(0.0);
                let more = stage <= MEAN_SHARES.len();
                more.then(|| Self::Weighted { weights: blended(&weights, share), stage })
            }
            (Self::Weighted { .. }, None) => Some(Self::Power { stage: 0 }),
            (Self::Power { stage }, _) => {
                (stage + 1 < POWERS.len()).then_some(Self::Power { stage: stage + 1 })
            }
        }
    }

    /// True for what comes before the last stages, where a rough minimum will do.
    pub fn is_rough(&self) -> bool {
        match self {
            Self::Weighted { stage, .. } => *stage < MEAN_SHARES.len(),
            Self::Power { stage } => stage + 1 < POWERS.len(),
        }
    }

    /// ln(error); `gradient` becomes its derivatives by e_t². Infinite where errors are not usable.
    pub fn ln_error(&self, squared: &[f64], gradient: &mut [f64]) -> f64 {
        let worst = squared.iter().copied().fold(0.0, f64::max);
        // A row of zeros in the workload has no error.
        let usable = |e: &f64| *e >= 0.0 && e.is_finite();
        if worst == 0.0 || !squared.iter().all(usable) {
            return f64::INFINITY;
        }
        let ln_error = match self {
            Self::Weighted { weights, .. } => {
                let total: f64 = squared.iter().zip(weights).map(|(e, w)| e * w).sum();
                gradient.iter_mut().zip(weights).for_each(|(g, w)| *g = 0.5 * w / total);
                0.5 * total.ln()
            }
            Self::Power { stage } => {
                let power = POWERS[*stage];
                let part = |e: f64| (power * (e / worst).ln()).exp();
                let total: f64 = squared.iter().map(|e| part(*e)).sum();
                let slope = |e: f64| if e > 0.0 { 0.5 * part(e) / (e * total) } else { 0.0 };
                gradient.iter_mut().zip(squared).for_each(|(g, e)| *g = slope(*e));
                0.5 * (worst.ln() + (total / squared.len() as f64).ln() / power)
            }
        };
        let most = WORST_ROW.max(squared.len() as f64);
        if worst.ln() - 2.0 * ln_error > most.ln() { f64::INFINITY } else { ln_error }
    }
}

fn blended(weights: &[f64], share: f64) -> Vec<f64> {
    let mean = share / weights.len() as f64;
    weights.iter().map(|w| (1.0 - share) * w + mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_central_differences() {
        let squared: Vec<f64> = (0..9).map(|t| 1.0 + f64::from(t * t % 7)).collect();
        let weights: Vec<f64> = (0..9).map(|t| f64::from(t) / 36.0).collect();
        let powers = (0..POWERS.len()).map(|stage| RowLoss::Power { stage });
        for loss in powers.chain([RowLoss::Weighted { weights, stage: 0 }]) {
            let mut gradient = [0.0; 9];
            loss.ln_error(&squared, &mut gradient);
            for t in 0..9 {
                let at = |by: f64| {
                    let mut moved = squared.clone();
                    moved[t] += by;
                    loss.ln_error(&moved, &mut [0.0; 9])
                };
                let expected = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((gradient[t] - expected).abs() < 1e-6 * expected.abs() + 1e-9, "{loss:?} row {t}");
            }
        }
    }

    #[test]
    fn power_means_rise_to_the_worst_row() {
        let squared: Vec<f64> = (1..=100).map(f64::from).collect();
        let mut loss = RowLoss::first(&Objective::Max, 100);
        let mut before = loss.ln_error(&squared, &mut [0.0; 100]);
        while let Some(next) = loss.next(&Objective::Max, 100) {
            let got = next.ln_error(&squared, &mut [0.0; 100]);
            assert!(got <= 10_f64.ln() && got > before, "{got} after {before}");
            (loss, before) = (next, got);
        }
        assert!(before.exp() > 9.99, "{}", before.exp());
    }

    #[test]
    fn every_row_counts_a_little_before_the_given_weights_stand_alone() {
        let mut loss = RowLoss::first(&Objective::Last, 4);
        for mean in [0.1, 0.01, 1e-3, 1e-4, 0.0] {
            let RowLoss::Weighted { weights, .. } = &loss else { panic!("{loss:?}") };
            assert!((weights[0] - mean / 4.0).abs() < 1e-15, "{weights:?}");
            assert_eq!(loss.is_rough(), mean > 0.0);
            let next = loss.next(&Objective::Last, 4);
            if let Some(next) = next { loss = next } else { assert!(mean == 0.0) }
        }
        let rms = RowLoss::first(&Objective::Rms, 4);
        assert_eq!(rms.next(&Objective::Rms, 4), None);
    }

    #[test]
    fn rows_that_no_data_could_use_are_outside() {
        let last = RowLoss::Weighted { weights: vec![0.0, 1.0], stage: 4 };
        assert_eq!(last.ln_error(&[2e4, 1.0], &mut [0.0; 2]), f64::INFINITY);
        assert_eq!(last.ln_error(&[f64::NAN, 1.0], &mut [0.0; 2]), f64::INFINITY);
        assert_eq!(last.ln_error(&[-1.0, 1.0], &mut [0.0; 2]), f64::INFINITY);
        assert!(last.ln_error(&[1e3, 1.0], &mut [0.0; 2]).abs() < 1e-12);
        assert!(last.ln_error(&[0.0, 1.0], &mut [0.0; 2]).abs() < 1e-12);
        let mut gradient = [f64::NAN; 2];
        assert!(RowLoss::Power { stage: 0 }.ln_error(&[0.0, 4.0], &mut gradient).is_finite());
        assert!(gradient[0] == 0.0 && gradient[1] > 0.0);
    }
}
