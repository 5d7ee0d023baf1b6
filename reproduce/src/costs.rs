//! What models in production cost: McMahan, Xu, Zhang (2024), Table 4, and Xu et al. (2023), Tables 1 and 2.

use accounting::{Report, zcdp};
use strategy::optimize::Family;
use strategy::{Participation, Strategy, Tree};

use crate::item::{Cell, Claim, Findings, Table, claims};
use crate::production::{B400_NOISE, B1000_NOISE, DELTA, Printed, Production, REPORT_GOAL, TREE_NOISE};
use crate::work::{Loss, Work, normalised};

/// (name, σ, rounds, MinS, MaxP, ρ, ε), as published. MinS counts the rounds in between.
type Row = (&'static str, f64, u64, u64, u64, Printed, Printed);

const BLTS: [(Production, Row); 6] = [
    (Production::B400, ("es-ES, BLT", B400_NOISE, 1280, 300, 4, Printed(0.16, 2), Printed(3.46, 2))),
    (Production::B400, ("id-ID, BLT", B400_NOISE, 2350, 447, 5, Printed(0.20, 2), Printed(3.93, 2))),
    (Production::B1000, ("pt-BR, BLT", B1000_NOISE, 2000, 2001, 1, Printed(0.0223, 4), Printed(1.25, 2))),
    (
        Production::B1000,
        ("pt-BR, BLT, report goal 12K", 16.1, 2000, 1181, 2, Printed(0.0140, 4), Printed(0.98, 2)),
    ),
    (Production::B100, ("pt-PT, BLT", 3.12, 430, 92, 4, Printed(1.11, 2), Printed(10.19, 2))),
    (Production::B100, ("pt-PT, BLT, report goal 6K", 5.5, 320, 49, 6, Printed(0.75, 2), Printed(8.19, 2))),
];
const TREES: [Row; 2] = [
    ("id-ID, tree", TREE_NOISE, 2350, 437, 5, Printed(0.94, 2), Printed(9.29, 2)),
    ("pt-PT, tree", TREE_NOISE, 430, 91, 4, Printed(1.33, 2), Printed(11.27, 2)),
];
/// σ of es-ES's BandMF, in a unit that is not printed.
const BAND_NOISE: f64 = 1.411;
/// Made for 2000 rounds with 400 and 1000 bands.
const BANDS: [(u64, Row); 2] = [
    (400, ("es-ES, BandMF", BAND_NOISE, 1280, 296, 4, Printed(0.29, 2), Printed(4.82, 2))),
    (1000, ("pt-BR, BandMF", 4.523, 2000, 2001, 1, Printed(0.0245, 4), Printed(1.32, 2))),
];
const MADE_FOR: u64 = 2000;

/// Launches named in the text: (ρ, ε).
const LAUNCHES: [(&str, Printed, Printed); 11] = [
    ("pt-BR", Printed(0.022, 3), Printed(1.234, 3)),
    ("pt-PT", Printed(0.749, 3), Printed(8.19, 2)),
    ("pt-PT, before", Printed(0.99, 2), Printed(9.56, 2)),
    ("es-ES", Printed(0.202, 3), Printed(4.0, 0)),
    ("es-ES, before", Printed(0.89, 2), Printed(9.01, 2)),
    ("id-ID", Printed(0.099, 3), Printed(2.74, 2)),
    ("English", Printed(0.29, 2), Printed(4.84, 2)),
    ("es-AR", Printed(0.392, 3), Printed(5.73, 2)),
    ("es-MX", Printed(1.39, 2), Printed(11.58, 2)),
    ("Latin America", Printed(0.54, 2), Printed(6.84, 2)),
    ("es-ES, BandMF", Printed(0.29, 2), Printed(4.82, 2)),
];

struct Account {
    row: Row,
    report: Report,
}

impl Account {
    fn new(strategy: &Strategy, row: Row) -> anyhow::Result<Self> {
        let (_, sigma, n, between, most, ..) = row;
        let rule = Participation::new(between + 1, most)?;
        Ok(Self { row, report: Report::at_delta(strategy.sensitivity(n, rule)?, sigma, DELTA)? })
    }

    fn claim(&self) -> Claim {
        let (name, .., rho, epsilon) = self.row;
        let Report { rho: ours, epsilon: ours_epsilon, .. } = self.report;
        Claim::new(
            format!("{name}: ρ = {}, ε = {}", rho.shown(), epsilon.shown()),
            format!("ρ = {ours:.6}, ε = {ours_epsilon:.4}"),
            rho.is_of(ours) && epsilon.is_of(ours_epsilon),
        )
    }

    fn cells(&self) -> Vec<Cell> {
        let (name, sigma, n, between, most, rho, epsilon) = self.row;
        let Report { rho: ours, epsilon: ours_epsilon, .. } = self.report;
        let mut cells = vec![name.into(), Cell::number(sigma, 3), n.into(), between.into(), most.into()];
        cells.extend([rho.shown().into(), Cell::number(ours, 6)]);
        cells.extend([epsilon.shown().into(), Cell::number(ours_epsilon, 4)]);
        cells
    }
}

/// McMahan, Xu, Zhang (2024), Table 4.
pub fn in_production(work: &Work) -> anyhow::Result<Findings> {
    let mut accounts = without_search()?;
    accounts.extend(bands(work)?);
    let header =
        ["model", "σ", "rounds", "MinS", "MaxP", "ρ, published", "ρ, ours", "ε, published", "ε, ours"];
    let table = Table::new("Runs", header, accounts.iter().map(Account::cells));
    let mut claims: Vec<Claim> = accounts.iter().map(Account::claim).collect();
    let (launches, pairs) = launches()?;
    claims.push(pairs);
    let remarks = remarks(&accounts)?;
    Ok(Findings { claims, tables: vec![table, launches], remarks, ..Findings::default() })
}

fn without_search() -> anyhow::Result<Vec<Account>> {
    let blts = BLTS.iter().map(|(blt, row)| Account::new(&blt.strategy()?, *row));
    let tree = Strategy::Tree(Tree::default());
    blts.chain(TREES.iter().map(|row| Account::new(&tree, *row))).collect()
}

fn bands(work: &Work) -> anyhow::Result<Vec<Account>> {
    let account = |(bands, row): &(u64, Row)| {
        // One participation costs a column of norm one, whatever is in it: no need to search the widest.
        if row.4 == 1 {
            return Account::new(&normalised(work, MADE_FOR, *bands)?, *row);
        }
        let family = Family::BandMf { bands: *bands as usize };
        let found = work.optimised(family, MADE_FOR, Participation::single(), Loss::Rms)?;
        Account::new(&found.strategy, *row)
    };
    BANDS.iter().map(account).collect()
}

/// ε of ρ as it is printed, and ρ of ε as it is printed.
fn launches() -> anyhow::Result<(Table, Claim)> {
    let mut rows = Vec::new();
    let mut within = 0;
    for (name, rho, epsilon) in LAUNCHES {
        let least = rho.0 - 10f64.powi(-(rho.1 as i32));
        let epsilon_of = |rho: f64| zcdp::gaussian_epsilon(rho, DELTA);
        let low = epsilon_of(least)?;
        let high = epsilon_of(rho.0 + 0.5 * 10f64.powi(-(rho.1 as i32)))?;
        let digit = 10f64.powi(-(epsilon.1 as i32));
        within += usize::from((low..high + digit).contains(&epsilon.0));
        let printed = [name.into(), rho.shown().into(), epsilon.shown().into()];
        let cells = [Cell::number(epsilon_of(rho.0)?, 4), Cell::number(low, 4)];
        rows.push(printed.into_iter().chain(cells).collect());
    }
    let header = ["model", "ρ, published", "ε, published", "ε of that ρ", "least ε of a ρ printed so"];
    let here = format!("{within} are one Gaussian mechanism's, of a ρ that is printed so");
    let claim = Claim::new("", here, within == LAUNCHES.len());
    Ok((Table::new("Pairs of ρ and ε in Sec. 5", header, rows), claim))
}

fn remarks(accounts: &[Account]) -> anyhow::Result<Vec<String>> {
    let rho_of = |name: &str| {
        let found = accounts.iter().find(|account| account.row.0 == name);
        found.map_or(f64::NAN, |account| account.report.rho)
    };
    let crowded = Strategy::Tree(Tree::default()).sensitivity(430, Participation::new(1, 4)?)?;
    let tree = rho_of("pt-PT, tree");
    let norm = BAND_NOISE * (rho_of("es-ES, BandMF") / 0.29).sqrt();
    Ok(vec![
        format!(
            "pt-PT with a tree does not follow from what is printed beside it: σ = 7, 430 rounds, MinS 91 and MaxP 4 cost \
             ρ = {tree:.4}. Even four participations in any four rounds, one after the other, would cost no more than \
             {:.4}. Xu et al. (2023) prints 0.99 for 430 rounds of the same language at MinS 54 and MaxP 7, which we get.",
            zcdp::rho(crowded.value, TREE_NOISE)?
        ),
        format!(
            "es-ES with BandMF: σ = 1.411 is in another unit than that of pt-BR. With columns of norm one, in which pt-BR's \
             figures come out, 0.29 needs σ = {norm:.3}; columns overlap at this min-sep, below 400 bands. How their matrix \
             is scaled is not printed."
        ),
    ])
}

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
    fn all_blts_and_a_tree_come_out_as_printed() {
        let accounts = without_search().unwrap();
        let failed: Vec<&str> =
            accounts.iter().filter(|account| !account.claim().holds).map(|account| account.row.0).collect();
        assert_eq!(failed, ["pt-PT, tree"], "the one row that contradicts itself");
        // Golden values: ρ and ε before any rounding.
        let golden = [
            (0.15337137, 3.45647),
            (0.19488609, 3.92921),
            (0.02227583, 1.24998),
            (0.01393957, 0.97891),
            (1.10766517, 10.18769),
            (0.74898627, 8.18441),
            (92.0 / 98.0, 9.28338),
        ];
        for (account, (rho, epsilon)) in accounts.iter().zip(golden) {
            let Report { rho: ours, epsilon: ours_epsilon, .. } = account.report;
            assert!((ours - rho).abs() < 6e-9 && (ours_epsilon - epsilon).abs() < 6e-6, "{}", account.row.0);
        }
    }

    #[test]
    fn pairs_of_rho_and_epsilon_are_gaussian() {
        assert!(launches().unwrap().1.holds);
    }

    #[test]
    fn every_row_comes_out_as_printed() {
        let found = next_words(&Work::new(0)).unwrap();
        assert_eq!(found.claims.len(), 14);
        found.claims.iter().for_each(|claim| assert!(claim.holds, "{}: {}", claim.paper, claim.here));
    }
}
