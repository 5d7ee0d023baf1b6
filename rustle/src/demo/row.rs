//! A row of noise: integers on its plan's grid, to which sums are rounded, or floating-point numbers.

use client::Fetch;
use noise_kernel::{Backend, History};
use noise_worker::generation_spec::GenerationSpec;
use plan::Plan;
use proto::Result;

use super::model::PARAMETERS;

/// One row's values.
pub enum Row {
    /// Whole steps of the size given, in the gradient's units.
    Integers(Vec<i32>, f64),
    /// In the gradient's units.
    Floats(Vec<f32>),
}

impl Row {
    /// Fetches a row of the plan.
    pub async fn fetch(fetch: Fetch<'_>, plan: &Plan) -> Result<Self> {
        let Some(on_grid) = plan.on_grid() else {
            let mut row = vec![0f32; PARAMETERS];
            fetch.into_slice(&mut row).await?;
            return Ok(Self::Floats(row));
        };
        let mut row = vec![0i32; PARAMETERS];
        fetch.into_integers(&mut row).await?;
        Ok(Self::Integers(row, on_grid.grid().step_size()))
    }

    /// Adds the row to a sum, which on a grid is rounded to it first. Integers below 2⁵³ are added exactly in f64.
    pub fn add_to(&self, sum: &mut [f64]) {
        match self {
            Self::Integers(row, step) => sum.iter_mut().zip(row).for_each(|(sum, noise)| {
                *sum = ((*sum / step).round_ties_even() + f64::from(*noise)) * step;
            }),
            Self::Floats(row) => sum.iter_mut().zip(row).for_each(|(sum, noise)| *sum += f64::from(*noise)),
        }
    }

    /// Returns the number of values whose bits are not those of the other row.
    pub fn differing(&self, other: &Self) -> u64 {
        let differing = match (self, other) {
            (Self::Integers(row, _), Self::Integers(other, _)) => {
                row.iter().zip(other).filter(|(a, b)| a != b).count()
            }
            (Self::Floats(row), Self::Floats(other)) => {
                row.iter().zip(other).filter(|(a, b)| a.to_bits() != b.to_bits()).count()
            }
            _ => PARAMETERS,
        };
        differing as u64
    }
}

/// Of every so many coordinates on a grid one is recomputed by exact arithmetic, which takes some 50 µs a value.
const EXACT_APART: usize = 59;

/// What a job's rows are compared with.
pub struct Reference {
    rows: Vec<Row>,
    /// Coordinates, each with its values in all rows by exact arithmetic: of rows on a grid, since that of floats has made
    /// `rows`.
    exact: Vec<(usize, Vec<i32>)>,
}

impl Reference {
    /// Recomputes the first rows of the plan: floating-point numbers by the reference implementation, integers by the
    /// kernel's portable code, and some of their coordinates by exact arithmetic.
    pub fn new(spec: GenerationSpec, plan: &Plan, rows: u64) -> anyhow::Result<Self> {
        let coordinates = 0..PARAMETERS as u64;
        let Some(on_grid) = plan.on_grid() else {
            let rows = spec.oracle()?.rows(0..rows, coordinates)?.into_iter().map(Row::Floats).collect();
            return Ok(Self { rows, exact: Vec::new() });
        };
        let oracle = spec.grid_oracle()?;
        let of_coordinate = |at: usize| {
            let values = oracle.rows(0..rows, at as u64..at as u64 + 1)?;
            Ok((at, values.concat()))
        };
        let exact = (0..PARAMETERS).step_by(EXACT_APART).map(of_coordinate).collect::<anyhow::Result<_>>()?;
        let mut words = vec![vec![0f32; PARAMETERS]; rows as usize];
        let mut out: Vec<&mut [f32]> = words.iter_mut().map(Vec::as_mut_slice).collect();
        spec.with_backend(Backend::Portable, History::Redraw)?.generator(coordinates)?.generate(&mut out)?;
        let step = on_grid.grid().step_size();
        let integers = |row: &Vec<f32>| row.iter().map(|word| word.to_bits().cast_signed()).collect();
        let rows = words.iter().map(|row| Row::Integers(integers(row), step)).collect();
        Ok(Self { rows, exact })
    }

    /// Returns the numbers of values compared, of those by the reference implementation, and of those that differ.
    pub fn compare(&self, delivered: &[Row]) -> Comparison {
        let values = (delivered.len() * PARAMETERS) as u64;
        let mut differing = delivered.iter().zip(&self.rows).map(|(row, made)| row.differing(made)).sum();
        for (at, values) in &self.exact {
            let value = |row: &Row| match row {
                Row::Integers(row, _) => Some(row[*at]),
                Row::Floats(_) => None,
            };
            let differs = |(row, exact): &(&Row, &i32)| value(row) != Some(**exact);
            differing += delivered.iter().zip(values).filter(differs).count() as u64;
        }
        let sampled = self.exact.iter().map(|(_, values)| values.len() as u64).sum();
        Comparison { values, exact: if self.exact.is_empty() { values } else { sampled }, differing }
    }
}

/// How delivered values compare.
#[derive(Clone, Copy, Default)]
pub struct Comparison {
    /// Values compared.
    pub values: u64,
    /// Those compared with the reference implementation.
    pub exact: u64,
    /// Those that differ.
    pub differing: u64,
}

impl std::ops::AddAssign for Comparison {
    fn add_assign(&mut self, other: Self) {
        self.values += other.values;
        self.exact += other.exact;
        self.differing += other.differing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_rounded_to_the_grid_before_integers_are_added() {
        let mut sum = [0.3, -0.3, 0.74, 5.0];
        Row::Integers(vec![1, 2, -3, i32::MAX], 0.5).add_to(&mut sum);
        assert_eq!(sum, [1.0, 0.5, -1.0, 5.0 + 0.5 * f64::from(i32::MAX)]);
        let mut sum = [0.25];
        Row::Floats(vec![0.5]).add_to(&mut sum);
        assert_eq!(sum, [0.75]);
    }

    #[test]
    fn values_that_differ_are_counted_and_rows_of_another_type_differ_wholly() {
        let row = |value| Row::Integers(vec![7, value, 9], 0.5);
        assert_eq!([row(8).differing(&row(8)), row(8).differing(&row(6))], [0, 1]);
        let floats = |value| Row::Floats(vec![value, 1.0]);
        assert_eq!([floats(0.0).differing(&floats(0.0)), floats(0.0).differing(&floats(-0.0))], [0, 1]);
        assert_eq!(floats(0.0).differing(&row(8)), PARAMETERS as u64);
    }

    #[test]
    fn one_wrong_value_is_counted_also_where_exact_arithmetic_alone_has_it() {
        let row = || Row::Integers((0..PARAMETERS as i32).collect(), 0.5);
        let exact = |value| vec![(2 * EXACT_APART, vec![value])];
        let right = 2 * EXACT_APART as i32;
        let found = |exact, delivered: Row| {
            let found = Reference { rows: vec![row()], exact }.compare(&[delivered]);
            (found.values, found.exact, found.differing)
        };
        let values = PARAMETERS as u64;
        assert_eq!(found(exact(right), row()), (values, 1, 0));
        assert_eq!(found(exact(right + 1), row()), (values, 1, 1));
        let other = Row::Integers((0..PARAMETERS as i32).map(|value| value.min(9)).collect(), 0.5);
        assert_eq!(found(exact(9), other), (values, 1, values - 10));
        assert_eq!(found(Vec::new(), Row::Floats(vec![0.0; PARAMETERS])), (values, values, values));
    }
}
