//! The privacy of BLTs and bands in production: McMahan, Xu, Zhang (2024), Table 4.

use accounting::{Report, zcdp};
use strategy::optimize::Family;
use strategy::{Participation, Strategy, Tree};

use crate::item::{Cell, Claim, Findings, Table};
use crate::production::{B400_NOISE, B1000_NOISE, DELTA, Printed, Production, TREE_NOISE};
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
}
