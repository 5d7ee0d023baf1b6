//! Medians and spreads of repeated measurements.

use serde::Serialize;

/// What is left of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub repeats: usize,
}

impl Spread {
    /// `None` where nothing was measured. The median of an even number lies halfway between the middle two.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 };
        Some(Self { median, min, max, repeats: sorted.len() })
    }

    /// With one unit of `unit`: "12.3 (11.0 to 13.5)".
    pub fn shown(&self, unit: f64) -> String {
        let digits = if self.median / unit < 10.0 { 2 } else { 1 };
        let number = |value: f64| format!("{:.digits$}", value / unit);
        format!("{} ({} to {})", number(self.median), number(self.min), number(self.max))
    }

    /// In units of `unit`, as charts take it.
    pub fn drawn(&self, unit: f64) -> plot::Value {
        plot::Value { middle: self.median / unit, spread: Some((self.min / unit, self.max / unit)) }
    }
}

/// Pair by pair, `above[i] / below[i]`.
pub fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let odd = Spread::of(&[3.0, 1.0, 9.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.repeats), (3.0, 1.0, 9.0, 3));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The ratio of medians would be 1.
        assert_eq!(ratios(&[1.0, 2.0, 3.0], &[2.0, 1.0, 6.0]), [0.5, 2.0, 0.5]);
    }
}
