//! ρ as report goal, min-sep or rounds change, where noise is proportional to the report goal and so what is learned
//! stays the same.

use accounting::zcdp;
use plot::{Axis, Chart};
use rayon::prelude::*;
use strategy::{Participation, Sensitivity, Strategy};

use crate::curves::Curves;
use crate::item::{Cell, Table};
use crate::production::REPORT_GOAL;

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

/// ρ of several runners over one axis.
pub struct Panel {
    title: String,
    x: Axis,
    pub curves: Curves,
    /// Whether the values of each line are upper bounds.
    bounds: Vec<Vec<bool>>,
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
        let line = |(runner, n): &(&Runner, u64)| xs.iter().map(|x| runner.rho(point(*x, *n))).collect();
        let rho: anyhow::Result<Vec<Vec<Option<Rho>>>> = lines.par_iter().map(line).collect();
        let mut panel = Self { title: title.into(), x, curves: Curves::of_whole(xs), bounds: Vec::new() };
        for ((runner, n), values) in lines.iter().zip(rho?) {
            let name = if rounds.len() == 1 { runner.name.clone() } else { line_name(&runner.name, *n) };
            panel.curves.add(name, values.iter().map(|rho| rho.map(|rho| rho.value)));
            panel.bounds.push(values.iter().map(|rho| rho.is_some_and(|rho| !rho.exact)).collect());
        }
        Ok(panel)
    }

    /// Values that are upper bounds are marked.
    pub fn table(&self) -> Table {
        let mut table = self.curves.table(&self.title, &self.x.label, Cell::whole, 4);
        for (place, row) in table.rows.iter_mut().enumerate() {
            for (cell, bounds) in row.iter_mut().skip(1).zip(&self.bounds) {
                if matches!(cell, Cell::Number { .. }) {
                    let mark = if bounds[place] { "≤ " } else { "" };
                    *cell = Cell::Text(format!("{mark}{}", cell.shown()));
                }
            }
        }
        table
    }

    pub fn chart(&self) -> Chart {
        self.curves.chart(&self.title, self.x.clone(), Axis::log("ρ of zCDP"))
    }

    /// Sensitivities that are upper bounds.
    pub fn bounds(&self) -> usize {
        self.bounds.iter().flatten().filter(|bound| **bound).count()
    }
}

/// The name of the line of a runner over `n` rounds.
pub fn line_name(runner: &str, n: u64) -> String {
    format!("{runner}, n = {n}")
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
