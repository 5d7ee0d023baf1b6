//! ρ as report goal, min-sep or rounds change, where noise is proportional to the report goal and so what is learned
//! stays the same.

use accounting::zcdp;
use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;
use strategy::{Participation, Sensitivity, Strategy};

use super::item::{Cell, Table};
use super::production::REPORT_GOAL;

/// A mechanism as it runs in production.
pub struct Runner {
    pub name: String,
    pub strategy: Strategy,
    /// σ at [`REPORT_GOAL`] clients a round.
    pub noise: f64,
    /// Most rounds it can run.
    pub rounds: u64,
}

/// What is run at one point.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub rounds: u64,
    pub min_sep: u64,
    /// `None`: as many as fit, ⌈rounds/min-sep⌉.
    pub participations: Option<u64>,
    pub report_goal: u64,
}

impl Point {
    /// Everyone takes turns: min-sep is ⌊population / report goal⌋.
    pub fn of_population(population: u64, rounds: u64, report_goal: u64) -> Self {
        let min_sep = (population / report_goal).max(1);
        Self { rounds, min_sep, participations: None, report_goal }
    }

    pub fn at(rounds: u64, min_sep: u64) -> Self {
        Self { rounds, min_sep, participations: None, report_goal: REPORT_GOAL }
    }

    pub fn most(&self) -> u64 {
        self.participations.unwrap_or_else(|| self.rounds.div_ceil(self.min_sep))
    }
}

/// A line's value, and whether it is exact or an upper bound.
#[derive(Clone, Copy, Debug)]
pub struct Rho {
    pub value: f64,
    pub exact: bool,
}

impl Runner {
    /// `None` past the rounds it can run.
    pub fn rho(&self, point: Point) -> anyhow::Result<Option<Rho>> {
        if point.rounds > self.rounds {
            return Ok(None);
        }
        let rule = Participation::new(point.min_sep, point.most())?;
        let Sensitivity { value, exact } = self.strategy.sensitivity(point.rounds, rule)?;
        let sigma = self.noise * point.report_goal as f64 / REPORT_GOAL as f64;
        Ok(Some(Rho { value: zcdp::rho(value, sigma)?, exact }))
    }
}

/// Lines over one axis.
pub struct Panel {
    pub title: String,
    x: Axis,
    pub xs: Vec<u64>,
    pub names: Vec<String>,
    /// ρ by line and x.
    pub rho: Vec<Vec<Option<Rho>>>,
}

impl Panel {
    /// A line for each runner and each of `rounds`.
    pub fn over(
        title: impl Into<String>,
        x: Axis,
        xs: &[u64],
        (runners, rounds): (&[Runner], &[u64]),
        point: impl Fn(u64, u64) -> Point + Sync,
    ) -> anyhow::Result<Self> {
        let lines: Vec<(&Runner, u64)> =
            runners.iter().flat_map(|runner| rounds.iter().map(move |n| (runner, *n))).collect();
        let name = |(runner, n): &(&Runner, u64)| match rounds {
            [_] => runner.name.clone(),
            _ => format!("{}, n = {n}", runner.name),
        };
        let line = |(runner, n): &(&Runner, u64)| xs.iter().map(|x| runner.rho(point(*x, *n))).collect();
        let rho: anyhow::Result<Vec<_>> = lines.par_iter().map(line).collect();
        let names = lines.iter().map(name).collect();
        Ok(Self { title: title.into(), x, xs: xs.to_vec(), names, rho: rho? })
    }

    /// NaN where there is no such line or nothing at this x.
    pub fn at(&self, name: &str, x: u64) -> f64 {
        let line = self.names.iter().position(|other| other == name);
        let place = self.xs.iter().position(|other| *other == x);
        let rho = line.zip(place).and_then(|(line, place)| self.rho[line][place]);
        rho.map_or(f64::NAN, |rho| rho.value)
    }

    /// Of the places where both lines have a value, those where `below` is less than `above`, and all.
    pub fn places_below(&self, below: &str, above: &str) -> (usize, usize) {
        let pairs = self.xs.iter().map(|x| (self.at(below, *x), self.at(above, *x)));
        let both: Vec<_> = pairs.filter(|(below, above)| !below.is_nan() && !above.is_nan()).collect();
        (both.iter().filter(|(below, above)| below < above).count(), both.len())
    }

    pub fn table(&self) -> Table {
        let header = std::iter::once(self.x.label.clone()).chain(self.names.iter().cloned());
        let mut table = Table::new(self.title.clone(), header);
        for (place, x) in self.xs.iter().enumerate() {
            let shown = |rho: Rho| {
                let bound = if rho.exact { "" } else { "≤ " };
                Cell::from(format!("{bound}{:.4}", rho.value))
            };
            let cells = self.rho.iter().map(|line| line[place].map_or(Cell::Absent, shown));
            table.rows.push(std::iter::once(Cell::from(*x)).chain(cells).collect());
        }
        table
    }

    pub fn chart(&self) -> Chart {
        let series = self.names.iter().zip(&self.rho).map(|(name, line)| {
            let points = self.xs.iter().zip(line);
            let points = points.filter_map(|(x, rho)| Some((*x as f64, (*rho)?.value.into())));
            Series::new(name, points.collect())
        });
        let y = Axis::log("ρ of zCDP");
        Chart::Lines(Lines { title: self.title.clone(), x: self.x.clone(), y, series: series.collect() })
    }

    /// Sensitivities that are upper bounds.
    pub fn bounds(&self) -> usize {
        self.rho.iter().flatten().flatten().filter(|rho| !rho.exact).count()
    }
}

#[cfg(test)]
mod tests {
    use strategy::Tree;

    use super::*;

    #[test]
    fn noise_follows_the_report_goal_and_min_sep_the_population() {
        let tree = || Strategy::Tree(Tree::default());
        let runner = Runner { name: "tree".into(), strategy: tree(), noise: 7.0, rounds: 1000 };
        let point = Point::of_population(1_000_000, 1000, 2 * REPORT_GOAL);
        assert_eq!((point.min_sep, point.most()), (76, 14));
        let squared = tree().sensitivity(1000, Participation::new(76, 14).unwrap()).unwrap().value.powi(2);
        let rho = runner.rho(point).unwrap().unwrap();
        assert!((rho.value - squared / (2.0 * 14.0 * 14.0)).abs() < 1e-12 && rho.exact);
        assert!(runner.rho(Point::at(1001, 100)).unwrap().is_none());
    }
}
