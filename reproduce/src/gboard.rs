//! Rows of papers/002, Tables 1 and 2: one tree, σ = 7, 6500 clients a round.

use accounting::{Report, tree, zcdp};
use strategy::{Participation, Tree};

use super::item::{Cell, Claim, Table};
use super::production::{DELTA, Printed, REPORT_GOAL, TREE_NOISE};

/// (language, rounds, MinS, MaxP, ρ, ε, millions of people), as published. MinS counts the rounds in between.
pub type Row = (&'static str, u64, u64, u64, Printed, Option<Printed>, Option<f64>);

pub const SETTING: &str = "One tree without restarts, σ = 7, min-sep = MinS + 1, the exact sensitivity over all allowed \
                           patterns. ρ holds where it rounds to what is printed, to the nearest or up; ε is the exact \
                           one of the ρ as printed, as there.";

pub struct Run {
    pub row: Row,
    pub report: Report,
}

impl Run {
    pub fn of(row: Row) -> anyhow::Result<Self> {
        let (_, n, between, most, ..) = row;
        let rule = Participation::new(between + 1, most)?;
        Ok(Self { row, report: tree::account(&Tree::default(), n, rule, TREE_NOISE, DELTA)? })
    }

    pub fn all(rows: &[Row]) -> anyhow::Result<Vec<Self>> {
        rows.iter().map(|row| Self::of(*row)).collect()
    }

    /// ε of the ρ that is printed.
    fn epsilon_of_printed(&self) -> anyhow::Result<f64> {
        Ok(zcdp::gaussian_epsilon(self.row.4.0, DELTA)?)
    }

    pub fn claim(&self) -> anyhow::Result<Claim> {
        let (name, .., rho, epsilon, _) = self.row;
        let ours = self.report.rho;
        let mut claim = Claim::new(
            format!("{name}: ρ = {}", rho.shown()),
            format!("ρ = {ours:.4} = {:.0}/98", ours * 98.0),
            rho.is_of(ours),
        );
        if let Some(epsilon) = epsilon {
            let of_printed = self.epsilon_of_printed()?;
            claim.paper.push_str(&format!(", ε = {}", epsilon.shown()));
            claim.here.push_str(&format!(", ε = {of_printed:.4}"));
            claim.holds &= epsilon.is_of(of_printed);
        }
        Ok(claim)
    }
}

/// sens² and what follows from it; the largest MinS is what the population allows where everyone takes turns.
pub fn table(runs: &[Run]) -> anyhow::Result<Table> {
    let header = [
        "language",
        "rounds",
        "MinS",
        "largest MinS",
        "MaxP",
        "sens²",
        "ρ, published",
        "ρ, ours",
        "ε, published",
        "ε of the ρ printed",
        "ε of the exact ρ",
    ];
    let mut table = Table::new("Runs", header);
    for run in runs {
        let (name, n, between, most, rho, epsilon, population) = run.row;
        let largest = population.map(|millions| (millions * 1e6 / REPORT_GOAL as f64).floor());
        table.rows.push(vec![
            name.into(),
            n.into(),
            between.into(),
            Cell::maybe(largest, 0),
            most.into(),
            Cell::number(run.report.sensitivity.powi(2), 0),
            rho.shown().into(),
            Cell::number(run.report.rho, 4),
            epsilon.map_or(Cell::Absent, |epsilon| epsilon.shown().into()),
            Cell::number(run.epsilon_of_printed()?, 4),
            Cell::number(run.report.epsilon, 4),
        ]);
    }
    Ok(table)
}
