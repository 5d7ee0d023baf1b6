//! Named lines over one axis, whose table and chart show the same numbers.

use plot::{Axis, Chart, Lines, Series};

use crate::item::{Cell, Table};

#[derive(Clone, Debug, Default)]
pub struct Curves {
    pub xs: Vec<f64>,
    /// A value at every x; `None` where there is none.
    pub lines: Vec<(String, Vec<Option<f64>>)>,
}

impl Curves {
    pub fn new(xs: impl IntoIterator<Item = impl Into<f64>>) -> Self {
        Self { xs: xs.into_iter().map(Into::into).collect(), lines: Vec::new() }
    }

    pub fn of_whole(xs: &[u64]) -> Self {
        Self::new(xs.iter().map(|x| *x as f64))
    }

    pub fn add(&mut self, name: impl Into<String>, values: impl IntoIterator<Item = impl Into<Option<f64>>>) {
        self.lines.push((name.into(), values.into_iter().map(Into::into).collect()));
    }

    pub fn with(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = impl Into<Option<f64>>>,
    ) -> Self {
        self.add(name, values);
        self
    }

    fn line(&self, name: &str) -> Option<&[Option<f64>]> {
        self.lines.iter().find(|(other, _)| other == name).map(|(_, values)| &values[..])
    }

    /// The value of the line of this name at the x nearest to `x`; NaN where there is none.
    pub fn at(&self, name: &str, x: u64) -> f64 {
        let apart = |i: &usize| (self.xs[*i] - x as f64).abs();
        let nearest = (0..self.xs.len()).min_by(|i, j| apart(i).total_cmp(&apart(j)));
        nearest.zip(self.line(name)).and_then(|(i, line)| line[i]).unwrap_or(f64::NAN)
    }

    /// All lines divided by the one of this name; unchanged where there is none.
    pub fn relative_to(&self, name: &str) -> Self {
        let unit = self.line(name).map_or(vec![Some(1.0); self.xs.len()], <[_]>::to_vec);
        let mut relative = Self::new(self.xs.clone());
        for (name, values) in &self.lines {
            let ratio = |(value, unit): (&Option<f64>, &Option<f64>)| {
                value.map(|value| value / unit.unwrap_or(f64::NAN))
            };
            relative.add(name, values.iter().zip(&unit).map(ratio));
        }
        relative
    }

    /// The places where both lines have a value and `below` is less than `above`, and all where both have one.
    pub fn places_below(&self, below: &str, above: &str) -> (usize, usize) {
        let pairs = self.line(below).unwrap_or_default().iter().zip(self.line(above).unwrap_or_default());
        let both: Vec<_> = pairs.filter_map(|(below, above)| below.zip(*above)).collect();
        (both.iter().filter(|(below, above)| below < above).count(), both.len())
    }

    /// A row for each x, which is shown by `first`.
    pub fn table(
        &self,
        title: impl Into<String>,
        x: &str,
        first: impl Fn(f64) -> Cell,
        digits: usize,
    ) -> Table {
        let header = std::iter::once(x).chain(self.lines.iter().map(|(name, _)| name.as_str()));
        let row = |(i, x): (usize, &f64)| {
            let cells = self.lines.iter().map(|(_, values)| Cell::maybe(values[i], digits));
            std::iter::once(first(*x)).chain(cells).collect()
        };
        Table::new(title, header, self.xs.iter().enumerate().map(row))
    }

    pub fn series(&self) -> Vec<Series> {
        let points = |values: &[Option<f64>]| {
            self.xs.iter().zip(values).filter_map(|(x, value)| Some((*x, (*value)?.into()))).collect()
        };
        self.lines.iter().map(|(name, values)| Series::new(name, points(values))).collect()
    }

    pub fn chart(&self, title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        chart(title, x, y, self.series())
    }
}

/// A line chart.
pub fn chart(title: impl Into<String>, x: Axis, y: Axis, series: impl IntoIterator<Item = Series>) -> Chart {
    Chart::Lines(Lines { title: title.into(), x, y, series: series.into_iter().collect() })
}
