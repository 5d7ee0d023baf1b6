//! The law of a sum of independent likelihood ratios, on points that bound it from one side in convex order.
//!
//! With T the sum of m independent ratios of mean 1, every δ(ε) is the expectation of a convex function of T. Moving mass to
//! points on both sides, such that its mean stays, makes every such expectation grow; moving it to its mean makes every one
//! shrink. Both hold for sums of independent ratios as they hold for each.

use rayon::prelude::*;

/// Chunks of a convolution that may be computed side by side; fixed, so that sums are rounded alike everywhere.
const CHUNKS: usize = 8;

/// The side from which a law bounds the exact one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// No δ is below the exact one.
    Pessimistic,
    /// No δ is above the exact one.
    Optimistic,
}

/// Masses, under the data set without the record, of the values of a sum.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Law {
    /// Ascending (value, mass).
    pub points: Vec<(f64, f64)>,
    /// The part of the mean that lies at infinity, where there is no mass.
    pub above: f64,
}

/// Mass and first moment of the cells between the points of a grid; the last cell has no end. Moments count from the lower
/// end of each cell.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub mass: Vec<f64>,
    pub moment: Vec<f64>,
}

impl Moments {
    pub fn new(cells: usize) -> Self {
        Self { mass: vec![0.0; cells], moment: vec![0.0; cells] }
    }

    fn plus(mut self, other: &Self) -> Self {
        self.mass.iter_mut().zip(&other.mass).for_each(|(sum, more)| *sum += more);
        self.moment.iter_mut().zip(&other.moment).for_each(|(sum, more)| *sum += more);
        self
    }

    /// Puts the mass of each cell on points. `above` is the part of the mean that lies at infinity already.
    pub fn law(self, grid: &[f64], above: f64, bound: Bound) -> Law {
        match bound {
            Bound::Pessimistic => self.spread(grid, above),
            Bound::Optimistic => self.collapsed(grid),
        }
    }

    /// Shares each cell's mass between its ends, and that of the last between its lower end and infinity.
    fn spread(self, grid: &[f64], mut above: f64) -> Law {
        let mut masses = vec![0.0; grid.len()];
        for (cell, (mass, moment)) in self.mass.into_iter().zip(self.moment).enumerate() {
            let Some(end) = grid.get(cell + 1) else {
                masses[cell] += mass;
                above += moment;
                continue;
            };
            let up = (moment / (end - grid[cell])).min(mass);
            masses[cell] += mass - up;
            masses[cell + 1] += up;
        }
        let points = grid.iter().copied().zip(masses).filter(|(_, mass)| *mass > 0.0);
        Law { points: points.collect(), above }
    }

    /// Puts each cell's mass at its mean.
    fn collapsed(self, grid: &[f64]) -> Law {
        let cells = grid.iter().zip(self.mass.into_iter().zip(self.moment));
        let points = cells.filter(|(_, (mass, _))| *mass > 0.0);
        Law { points: points.map(|(low, (mass, moment))| (low + moment / mass, mass)).collect(), above: 0.0 }
    }
}

impl Law {
    /// Returns the law of the sum of two independent values, on a grid that begins at zero.
    pub fn plus(&self, other: &Self, grid: &[f64], bound: Bound) -> Law {
        let one_chunk = |chunk: usize| {
            let mut moments = Moments::new(grid.len());
            for (value, mass) in self.points.iter().skip(chunk).step_by(CHUNKS) {
                add_shifted(&mut moments, grid, &other.points, (*value, *mass));
            }
            moments
        };
        all_chunks(one_chunk, grid.len()).law(grid, self.above + other.above, bound)
    }

    /// Returns the law of the sum of two independent values of this law.
    pub fn doubled(&self, grid: &[f64], bound: Bound) -> Law {
        let one_chunk = |chunk: usize| {
            let mut moments = Moments::new(grid.len());
            for (at, (value, mass)) in self.points.iter().enumerate().skip(chunk).step_by(CHUNKS) {
                add_shifted(&mut moments, grid, &self.points[at..=at], (*value, *mass));
                add_shifted(&mut moments, grid, &self.points[at + 1..], (*value, 2.0 * mass));
            }
            moments
        };
        all_chunks(one_chunk, grid.len()).law(grid, 2.0 * self.above, bound)
    }

    /// Returns the largest value.
    pub fn top(&self) -> f64 {
        self.points.last().map_or(0.0, |(value, _)| *value)
    }

    /// Returns the smallest value above zero.
    pub fn bottom(&self) -> f64 {
        self.points.iter().map(|(value, _)| *value).find(|value| *value > 0.0).unwrap_or(1.0)
    }

    /// Gathers up to `low` of the mass at the lower end, and values whose share of the mean is up to `high` at the upper end,
    /// in one or two points each.
    pub fn trim(&mut self, low: f64, high: f64, bound: Bound) {
        let mut from = 0;
        let mut mass = 0.0;
        let mut moment = 0.0;
        while from + 2 < self.points.len() && mass + self.points[from].1 <= low {
            mass += self.points[from].1;
            moment += self.points[from].0 * self.points[from].1;
            from += 1;
        }
        let mut to = self.points.len();
        let mut far_mass = 0.0;
        let mut far_moment = 0.0;
        while to > from + 2 && far_moment + self.points[to - 1].0 * self.points[to - 1].1 <= high {
            to -= 1;
            far_mass += self.points[to].1;
            far_moment += self.points[to].0 * self.points[to].1;
        }
        let mut points = self.points[from..to].to_vec();
        match bound {
            Bound::Pessimistic => {
                if let Some(last) = points.last_mut() {
                    self.above += (far_moment - far_mass * last.0).max(0.0);
                    last.1 += far_mass;
                }
                let up = points.first().map_or(0.0, |first| (moment / first.0).min(mass));
                if let Some(first) = points.first_mut() {
                    first.1 += up;
                }
                if mass > up {
                    points.insert(0, (0.0, mass - up));
                }
            }
            Bound::Optimistic => {
                if far_mass > 0.0 {
                    points.push((far_moment / far_mass, far_mass));
                }
                if mass > 0.0 {
                    points.insert(0, (moment / mass, mass));
                }
            }
        }
        self.points = points;
    }
}

fn all_chunks(one_chunk: impl Fn(usize) -> Moments + Sync + Send, cells: usize) -> Moments {
    let chunks: Vec<Moments> = (0..CHUNKS).into_par_iter().map(one_chunk).collect();
    chunks.iter().fold(Moments::new(cells), Moments::plus)
}

/// Adds the values of ascending points, each shifted by a value and times its mass.
fn add_shifted(moments: &mut Moments, grid: &[f64], points: &[(f64, f64)], (value, mass): (f64, f64)) {
    let Some((first, _)) = points.first() else { return };
    let mut cell = grid.partition_point(|point| *point <= value + first).max(1) - 1;
    for (other, share) in points {
        let sum = value + other;
        while grid.get(cell + 1).is_some_and(|end| *end <= sum) {
            cell += 1;
        }
        let more = mass * share;
        moments.mass[cell] += more;
        moments.moment[cell] += more * (sum - grid[cell]);
    }
}
