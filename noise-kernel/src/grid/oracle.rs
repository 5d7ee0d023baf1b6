//! Any row of whole numbers from the key alone, by exact arithmetic, for all else to be checked against.
//!
//! Every value is decided from 304 bits of each uniform, F of a banded C is a sum of whole numbers of 128 bits, and words
//! come from the crate `rand_chacha`. It shares with the fast way the arithmetic of the slow one, which vectors made
//! elsewhere check, and the checks of arguments.

use super::error::GridRowError;
use super::exact::{Digits, ExactNormal, midpoint, pair};
use super::family::{GridFamily, GridInverse};
use super::mechanism::GridMechanism;
use super::oracle_tree::TreeSource;
use super::rounding::{Dyadic, ExactSum};
use crate::range::check_range;
use crate::{BranchKey, KernelError, Rounds, RowKeys};
use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};
use std::ops::Range;
use std::sync::Arc;

/// Recomputes rows of whole numbers from row 0, one value at a time. Time and memory grow with the number of the last row.
pub struct GridOracle {
    /// The keys, each with its first stream.
    keys: Vec<(u64, BranchKey)>,
    rounds: Rounds,
    mechanism: Arc<GridMechanism>,
}

impl GridOracle {
    /// Returns an oracle of a mechanism.
    pub fn new(keys: impl Into<RowKeys>, rounds: Rounds, mechanism: Arc<GridMechanism>) -> Self {
        let keys = keys.into();
        let first_stream = |row: u64| match mechanism.family() {
            GridFamily::Tree(tree) => tree.first_stream(row),
            _ => row,
        };
        let keys = keys.keys().iter().map(|(row, key)| (first_stream(*row), key.clone())).collect();
        Self { keys, rounds, mechanism }
    }

    /// Returns rows, each as long as `range`.
    ///
    /// # Errors
    /// [`GridRowError`] for an empty range, rows past the last, and for a value that is out of range or undecided.
    pub fn rows(&self, rows: Range<u64>, range: Range<u64>) -> Result<Vec<Vec<i32>>, GridRowError> {
        let width = check_range(&range)?;
        let iterations = self.mechanism.iterations();
        if rows.end > iterations {
            return Err(KernelError::RowBeyondIterations { row: rows.end - 1, iterations }.into());
        }
        let mut result = vec![Vec::with_capacity(width); rows.end.saturating_sub(rows.start) as usize];
        for coordinate in range {
            let values = Coordinate { oracle: self, coordinate }.rows(rows.end)?;
            let wanted = values.into_iter().skip(rows.start as usize);
            result.iter_mut().zip(wanted).for_each(|(row, value)| row.push(value));
        }
        Ok(result)
    }

    /// The exact normal of a stream.
    fn normal(&self, stream: u64, coordinate: u64) -> Option<ExactNormal> {
        let key = self.keys.iter().rev().find(|(first, _)| *first <= stream)?.1.secret_bytes();
        let block = coordinate / 512;
        let row = coordinate % 512 / 32;
        let lane = coordinate % 16;
        let chacha = |counter: u64| match self.rounds {
            Rounds::Twenty => {
                let mut rng = ChaCha20Rng::from_seed(*key);
                rng.set_stream(stream);
                rng.set_word_pos(u128::from(counter) * 16);
                std::array::from_fn::<u32, 16, _>(|_| rng.next_u32())
            }
            Rounds::Twelve => {
                let mut rng = ChaCha12Rng::from_seed(*key);
                rng.set_stream(stream);
                rng.set_word_pos(u128::from(counter) * 16);
                std::array::from_fn(|_| rng.next_u32())
            }
        };
        let own = chacha(32 * block + 16 * (row / 8) + lane);
        let at = (2 * (row % 8)) as usize;
        let shared = u64::from(chacha((1 << 62) + 16 * block + lane)[row as usize]);
        let further = chacha((1 << 63) + 256 * block + 16 * row + lane);
        let (further, _) = further.as_chunks::<8>();
        let u = midpoint(u64::from(own[at]) * 65_536 + shared / 65_536, &further[0]);
        let v = midpoint(u64::from(own[at + 1]) * 65_536 + shared % 65_536, &further[1]);
        Some(pair(u, v, Digits::All)?[usize::from(coordinate % 32 >= 16)])
    }
}

/// One coordinate, all rows.
struct Coordinate<'a> {
    oracle: &'a GridOracle,
    coordinate: u64,
}

impl Coordinate<'_> {
    fn rows(&self, end: u64) -> Result<Vec<i32>, GridRowError> {
        let mechanism = &self.oracle.mechanism;
        match mechanism.family() {
            GridFamily::Identity => (0..end).map(|row| self.rounded(row, row, ExactSum::new())).collect(),
            GridFamily::Blt { theta, omega } => self.blt(theta, omega, end),
            GridFamily::Banded(banded) => {
                let mut rows: Vec<i32> = Vec::new();
                for row in 0..end {
                    // Coefficients are multiples of 2⁻⁵² below 2²¹: their products with rows are whole in units of 2⁻⁶⁰.
                    let product = |(lag, n): (&f64, &i32)| (lag * 2f64.powi(60)) as i128 * i128::from(*n);
                    let f: i128 = banded.lags(row).iter().zip(rows.iter().rev()).map(product).sum();
                    let mut sum = ExactSum::new();
                    sum.subtract_whole(f, -60);
                    rows.push(self.rounded(row, row, sum)?);
                }
                Ok(rows)
            }
            GridFamily::Inverse(inverse) => (0..end).map(|row| self.inverse(inverse, row)).collect(),
            GridFamily::Tree(tree) => {
                let node = |row, stream| self.rounded(row, stream, ExactSum::new());
                (0..end)
                    .map(|row| TreeSource::new(tree, row, node).row())
                    .collect::<Result<Vec<i64>, _>>()?
                    .into_iter()
                    .zip(0..)
                    .map(|(value, row)| self.narrow(row, Some(value.into())))
                    .collect()
            }
        }
    }

    fn blt(&self, theta: &[f64], omega: &[f64], end: u64) -> Result<Vec<i32>, GridRowError> {
        let mut buffers = vec![0.0f64; theta.len()];
        let mut rows = Vec::new();
        for row in 0..end {
            // Even buffers are summed apart from odd ones.
            let mut sums = [0.0f64; 2];
            for (j, (weight, buffer)) in omega.iter().zip(&buffers).enumerate() {
                let sum = sums[j % 2];
                sums[j % 2] = if j < 2 { weight * buffer } else { weight.mul_add(*buffer, sum) };
            }
            let mut sum = ExactSum::new();
            sum.subtract(sums[0] + sums[1]);
            let n = self.rounded(row, row, sum)?;
            for (buffer, theta) in buffers.iter_mut().zip(theta) {
                *buffer = theta.mul_add(*buffer, f64::from(n));
            }
            rows.push(n);
        }
        Ok(rows)
    }

    fn inverse(&self, inverse: &GridInverse, row: u64) -> Result<i32, GridRowError> {
        let s = Dyadic::new(self.oracle.mechanism.deviation(row));
        let mut sum = ExactSum::new();
        for source in inverse.oldest(row)..=row {
            let undecided = GridRowError::Undecided { row, coordinate: self.coordinate };
            let z = self.oracle.normal(source, self.coordinate).ok_or(undecided)?;
            sum.add(s.times(Dyadic::new(inverse.at(row, source))), &z);
        }
        self.narrow(row, sum.rounded())
    }

    /// ⌊s·z + sum + ½⌋ with the normal of a stream.
    fn rounded(&self, row: u64, stream: u64, sum: ExactSum) -> Result<i32, GridRowError> {
        let add = |z: ExactNormal| {
            let mut sum = sum;
            sum.add(Dyadic::new(self.oracle.mechanism.deviation(row)), &z);
            sum.rounded()
        };
        self.narrow(row, self.oracle.normal(stream, self.coordinate).and_then(add))
    }

    /// The value in 32 bits, −2³¹ excepted.
    fn narrow(&self, row: u64, value: Option<i128>) -> Result<i32, GridRowError> {
        let coordinate = self.coordinate;
        let value = value.ok_or(GridRowError::Undecided { row, coordinate })?;
        let narrow = i32::try_from(value).ok().filter(|value| *value != i32::MIN);
        narrow.ok_or(GridRowError::RowOutOfRange { row, coordinate, value })
    }
}

#[cfg(test)]
mod tests {
    use super::super::family::GridDeviations;
    use super::*;
    use crate::Stream;

    /// Few rows need further words, so few would tell where they come from.
    #[test]
    fn the_slow_way_reads_the_oracles_words() {
        let key = BranchKey::from_array([5; 32]);
        let identity = GridMechanism::new(GridFamily::Identity, GridDeviations::Every(64.0), 9).unwrap();
        let identity = Arc::new(identity);
        for rounds in [Rounds::Twenty, Rounds::Twelve] {
            let oracle = GridOracle::new(key.clone(), rounds, identity.clone());
            let stream = Stream::new(&key, rounds);
            for (number, block) in [(0, 0), (7, 3), (1 << 40, (1 << 55) - 1)] {
                for within in 0..512u64 {
                    let expected = oracle.normal(number, 512 * block + within).unwrap();
                    let found = stream.exact_normal(number, block, within as usize, Digits::All).unwrap();
                    assert_eq!(found.magnitude, expected.magnitude, "{within} of block {block}");
                    assert_eq!((found.negative, found.error), (expected.negative, expected.error));
                }
            }
        }
    }
}
