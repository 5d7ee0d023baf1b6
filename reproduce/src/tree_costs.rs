//! The privacy of trees in production: Xu et al. (2023), Tables 1 and 2.

use accounting::{Report, zcdp};
use strategy::{Participation, Tree};

use crate::item::{Cell, Claim, Findings, Table, claims};
use crate::production::{DELTA, Printed, REPORT_GOAL, TREE_NOISE};
use crate::work::Work;

/// (language, rounds, MinS, MaxP, ρ, ε, millions of people), as published for one tree of σ = 7 and 6500 clients a
/// round. MinS counts the rounds in between.
type TreeRow = (&'static str, u64, u64, u64, Printed, Option<Printed>, Option<f64>);

const NEXT_WORDS: [TreeRow; 13] = [
    ("de-DE", 930, 212, 4, Printed(0.48, 2), None, Some(3.24)),
    ("en-GB", 980, 226, 4, Printed(0.48, 2), None, Some(2.38)),
    ("fr-FR", 1280, 180, 5, Printed(0.89, 2), None, Some(2.79)),
    ("it-IT", 1620, 303, 5, Printed(0.71, 2), None, Some(3.32)),
    ("pt-PT", 530, 54, 8, Printed(1.86, 2), Some(Printed(13.69, 2)), Some(0.83)),
    ("es-ES", 1900, 526, 3, Printed(0.35, 2), None, Some(4.21)),
    ("es-ES with secure aggregation", 1750, 349, 4, Printed(0.52, 2), None, Some(4.21)),
    ("en-US", 2800, 371, 7, Printed(1.31, 2), None, Some(13.0)),
    ("en-US with secure aggregation", 1360, 622, 2, Printed(0.25, 2), Some(Printed(4.49, 2)), Some(13.0)),
    ("pt-BR", 3600, 909, 3, Printed(0.45, 2), None, Some(16.6)),
    ("en-IN", 1290, 170, 6, Printed(1.14, 2), None, Some(7.72)),
    ("es-MX", 1980, 343, 5, Printed(0.64, 2), None, Some(9.96)),
    ("es-AR", 640, 90, 5, Printed(0.84, 2), None, Some(4.09)),
];

const ON_THE_FLY: [TreeRow; 7] = [
    ("de-DE", 1170, 206, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(3.24)),
    ("en-GB", 1220, 206, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(2.38)),
    ("es-ES", 1280, 197, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(4.21)),
    ("fr-FR", 1300, 290, 4, Printed(0.61, 2), Some(Printed(7.31, 2)), Some(2.79)),
    ("it-IT", 1360, 188, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(3.32)),
    ("ru-RU", 870, 327, 3, Printed(0.32, 2), Some(Printed(5.13, 2)), Some(6.63)),
    ("pt-PT", 430, 54, 7, Printed(0.99, 2), Some(Printed(9.56, 2)), Some(0.83)),
];

struct TreeRun {
    row: TreeRow,
    report: Report,
    /// ε of the ρ that is printed.
    epsilon_of_printed: f64,
}

impl TreeRun {
    fn all(rows: &[TreeRow]) -> anyhow::Result<Vec<Self>> {
        let run = |row: &TreeRow| {
            let (_, n, between, most, rho, ..) = *row;
            let rule = Participation::new(between + 1, most)?;
            let report = accounting::tree::account(&Tree::default(), n, rule, TREE_NOISE, DELTA)?;
            Ok(Self { row: *row, report, epsilon_of_printed: zcdp::gaussian_epsilon(rho.0, DELTA)? })
        };
        rows.iter().map(run).collect()
    }

    fn claim(&self) -> Claim {
        let (name, .., rho, epsilon, _) = self.row;
        let ours = self.report.rho;
        let mut claim = Claim::new(
            format!("{name}: ρ = {}", rho.shown()),
            format!("ρ = {ours:.4} = {:.0}/98", ours * 98.0),
            rho.is_of(ours),
        );
        if let Some(epsilon) = epsilon {
            claim.paper.push_str(&format!(", ε = {}", epsilon.shown()));
            claim.here.push_str(&format!(", ε = {:.4}", self.epsilon_of_printed));
            claim.holds &= epsilon.is_of(self.epsilon_of_printed);
        }
        claim
    }

    /// sens² and what follows from it; the largest MinS is what the population allows where everyone takes turns.
    fn cells(&self) -> Vec<Cell> {
        let (name, n, between, most, rho, epsilon, population) = self.row;
        let largest = population.map(|millions| (millions * 1e6 / REPORT_GOAL as f64).floor());
        let mut cells = vec![name.into(), n.into(), between.into(), Cell::maybe(largest, 0), most.into()];
        cells.extend([Cell::whole(self.report.sensitivity.powi(2)), rho.shown().into()]);
        cells.push(Cell::number(self.report.rho, 4));
        cells.push(epsilon.map_or(Cell::Absent, |epsilon| epsilon.shown().into()));
        cells.extend([self.epsilon_of_printed, self.report.epsilon].map(|epsilon| Cell::number(epsilon, 4)));
        cells
    }

    fn findings(runs: &[Self]) -> Findings {
        let header =
            ["language", "rounds", "MinS", "largest MinS", "MaxP", "sens²", "ρ, published", "ρ, ours"];
        let header = [&header[..], &["ε, published", "ε of the ρ printed", "ε of the exact ρ"]].concat();
        let tables = vec![Table::new("Runs", header, runs.iter().map(Self::cells))];
        Findings { claims: runs.iter().map(Self::claim).collect(), tables, ..Findings::default() }
    }
}

/// Xu et al. (2023), Table 1.
pub fn next_words(_: &Work) -> anyhow::Result<Findings> {
    let runs = TreeRun::all(&NEXT_WORDS)?;
    let mut found = TreeRun::findings(&runs);
    let rho = || runs.iter().map(|run| run.report.rho);
    let least = rho().fold(f64::INFINITY, f64::min);
    let most = rho().fold(0.0, f64::max);
    found.claims.extend(claims![0.2 < least && most < 2.0 => "from {least:.3} to {most:.3}"]);
    Ok(found)
}

/// Xu et al. (2023), Table 2.
pub fn on_the_fly(_: &Work) -> anyhow::Result<Findings> {
    let runs = TreeRun::all(&ON_THE_FLY)?;
    let differs = |run: &&TreeRun| run.row.5.is_some_and(|epsilon| !epsilon.is_of(run.report.epsilon));
    let apart = runs.iter().filter(differs).count();
    let mut found = TreeRun::findings(&runs);
    found.remarks.push(format!(
        "ε follows from ρ as it is printed, not from ρ itself: for {apart} of {} rows the ε of the exact ρ is another in \
         the digits printed.",
        runs.len()
    ));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_out_as_printed() {
        let found = next_words(&Work::new(0)).unwrap();
        assert_eq!(found.claims.len(), 14);
        found.claims.iter().for_each(|claim| assert!(claim.holds, "{}: {}", claim.paper, claim.here));
    }
}
