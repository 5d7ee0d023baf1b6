//! Columns that change smoothly from round to round: free at some rounds, linear in between.

/// The rounds at which columns are free, ascending, the first and the last among them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Knots {
    at: Vec<usize>,
}

impl Knots {
    /// Every round of `n`.
    pub fn all(n: usize) -> Self {
        Self { at: (0..n).collect() }
    }

    /// Every one of the first `dense` rounds; from there and from the last round on, distances grow by `ratio` > 1.
    pub fn graded(n: usize, dense: usize, ratio: f64) -> Self {
        let dense = dense.min(n);
        let mut at: Vec<usize> = (0..dense).collect();
        let mut distance = 0_usize;
        while dense + 2 * distance <= n {
            at.extend([(dense + distance).min(n - 1), n - 1 - distance]);
            distance = (distance + 1).max((distance as f64 * ratio) as usize);
        }
        at.sort_unstable();
        at.dedup();
        Self { at }
    }

    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// The columns of all rounds, shape (n, p), from those at the knots, shape (knots, p).
    pub fn expand(&self, free: &[f64], p: usize, columns: &mut [f64]) {
        let last = self.len() - 1;
        columns[self.at[last] * p..][..p].copy_from_slice(&free[last * p..]);
        for (k, ends) in self.at.windows(2).enumerate() {
            let (left, right) = free[k * p..][..2 * p].split_at(p);
            let width = (ends[1] - ends[0]) as f64;
            let between = columns[ends[0] * p..ends[1] * p].chunks_exact_mut(p);
            for (step, column) in between.enumerate() {
                let share = step as f64 / width;
                for i in 0..p {
                    column[i] = (1.0 - share) * left[i] + share * right[i];
                }
            }
        }
    }

    /// The transpose of [`Self::expand`], for gradients.
    pub fn collect(&self, gradient: &[f64], p: usize, free: &mut [f64]) {
        let last = self.len() - 1;
        free.fill(0.0);
        free[last * p..].copy_from_slice(&gradient[self.at[last] * p..][..p]);
        for (k, ends) in self.at.windows(2).enumerate() {
            let (left, right) = free[k * p..][..2 * p].split_at_mut(p);
            let width = (ends[1] - ends[0]) as f64;
            let between = gradient[ends[0] * p..ends[1] * p].chunks_exact(p);
            for (step, column) in between.enumerate() {
                let share = step as f64 / width;
                for i in 0..p {
                    left[i] += (1.0 - share) * column[i];
                    right[i] += share * column[i];
                }
            }
        }
    }

    /// The columns at the knots from those of all rounds.
    pub fn pick(&self, columns: &[f64], p: usize) -> Vec<f64> {
        self.at.iter().flat_map(|j| &columns[j * p..][..p]).copied().collect()
    }

    /// Σ of what each round has over the rounds a knot stands for: the transpose of the interpolation.
    pub fn gather(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.len()];
        self.collect(values, 1, &mut sums);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_columns_come_back() {
        for knots in
            [Knots::all(40), Knots::graded(40, 7, 1.5), Knots::graded(1, 4, 2.0), Knots::graded(2, 0, 2.0)]
        {
            let n = knots.at[knots.len() - 1] + 1;
            let columns: Vec<f64> = (0..n).flat_map(|j| [1.0 + j as f64, 3.0 - 0.5 * j as f64]).collect();
            let mut again = vec![f64::NAN; columns.len()];
            knots.expand(&knots.pick(&columns, 2), 2, &mut again);
            assert!(columns.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-12), "{knots:?}");
        }
    }

    #[test]
    fn collecting_is_the_transpose() {
        let knots = Knots::graded(100, 9, 1.4);
        let free: Vec<f64> = (0..3 * knots.len()).map(|i| (i as f64).sin()).collect();
        let gradient: Vec<f64> = (0..300).map(|i| (i as f64).cos()).collect();
        let mut columns = vec![0.0; 300];
        let mut back = vec![0.0; free.len()];
        knots.expand(&free, 3, &mut columns);
        knots.collect(&gradient, 3, &mut back);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert!((dot(&columns, &gradient) - dot(&free, &back)).abs() < 1e-10);
    }

    #[test]
    fn few_knots_for_many_rounds() {
        let knots = Knots::graded(1_000_000, 10, 1.5);
        assert!(knots.len() < 90 && knots.at[0] == 0 && knots.at[knots.len() - 1] == 999_999);
        assert!(knots.at.windows(2).all(|w| w[0] < w[1]));
    }
}
