//! papers/002, Table 2: what models that rescore words on the fly cost.

use super::gboard::{Row, Run, SETTING, table};
use super::item::{Claim, Found, Item, Source};
use super::production::Printed;
use super::work::Work;

pub const ITEM: Item = Item {
    name: "gboard-table-2",
    source: Source::Gboard,
    title: "Table 2: ρ and ε of on-the-fly models",
    shows: "Seven models that rescore words on the fly, trained with tree noise, with rounds, MinS, MaxP, ρ of zCDP and ε \
            at δ = 1e-10, beside live tests.",
    timed: false,
    make,
};

const ROWS: [Row; 7] = [
    ("de-DE", 1170, 206, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(3.24)),
    ("en-GB", 1220, 206, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(2.38)),
    ("es-ES", 1280, 197, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(4.21)),
    ("fr-FR", 1300, 290, 4, Printed(0.61, 2), Some(Printed(7.31, 2)), Some(2.79)),
    ("it-IT", 1360, 188, 5, Printed(0.89, 2), Some(Printed(9.01, 2)), Some(3.32)),
    ("ru-RU", 870, 327, 3, Printed(0.32, 2), Some(Printed(5.13, 2)), Some(6.63)),
    ("pt-PT", 430, 54, 7, Printed(0.99, 2), Some(Printed(9.56, 2)), Some(0.83)),
];

fn make(_: &Work) -> anyhow::Result<Found> {
    let runs = Run::all(&ROWS)?;
    let of_exact = |run: &Run| run.row.5.is_some_and(|epsilon| !epsilon.is_of(run.report.epsilon));
    let apart = runs.iter().filter(|run| of_exact(run)).count();
    Ok(Found {
        setting: SETTING.into(),
        claims: runs.iter().map(Run::claim).collect::<anyhow::Result<Vec<Claim>>>()?,
        tables: vec![table(&runs)?],
        remarks: vec![
            format!(
                "ε follows from ρ as it is printed, not from ρ itself: for {apart} of {} rows the ε of the exact ρ is \
                 another in the digits printed.",
                runs.len()
            ),
            "Live tests and training are left out.".into(),
        ],
        charts: Vec::new(),
    })
}
