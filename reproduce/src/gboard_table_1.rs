//! papers/002, Table 1: what models for next word prediction cost.

use super::gboard::{Row, Run, SETTING, table};
use super::item::{Claim, Found, Item, Source};
use super::production::Printed;
use super::work::Work;

pub const ITEM: Item = Item {
    name: "gboard-table-1",
    source: Source::Gboard,
    title: "Table 1: ρ of next word prediction models",
    shows: "Thirteen models for next word prediction, trained with tree noise, with rounds, MinS, MaxP, ρ of zCDP and \
            estimated populations, beside live tests.",
    timed: false,
    make,
};

const ROWS: [Row; 13] = [
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

fn make(_: &Work) -> anyhow::Result<Found> {
    let runs = Run::all(&ROWS)?;
    let mut claims = runs.iter().map(Run::claim).collect::<anyhow::Result<Vec<Claim>>>()?;
    let (least, most) = runs
        .iter()
        .map(|run| run.report.rho)
        .fold((f64::INFINITY, 0.0), |(low, high), rho| (f64::min(low, rho), f64::max(high, rho)));
    claims.push(Claim::new(
        "launched models have ρ in (0.2, 2)",
        format!("from {least:.3} to {most:.3}"),
        0.2 < least && most < 2.0,
    ));
    Ok(Found {
        setting: format!("{SETTING} The two ε are those that App. A gives, for the least and the greatest ρ."),
        claims,
        tables: vec![table(&runs)?],
        remarks: vec![
            "Participations 0, b, 2b, … are not always the worst pattern of a tree; the search is over all of them.".into(),
            "Live tests and training are left out, and so is what secure aggregation adds to the clip norm, whose scale \
             is not printed."
                .into(),
        ],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_out_as_printed() {
        let found = make(&Work::new(0)).unwrap();
        assert_eq!(found.claims.len(), 14);
        found.claims.iter().for_each(|claim| assert!(claim.holds, "{}: {}", claim.paper, claim.here));
    }
}
