//! papers/001, Figure 11: one parameter instead of p.

use plot::{Axis, Chart, Lines, Series};
use strategy::optimize::Family;
use strategy::{Participation, Strategy};

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::{Loss, Work};

pub const ITEM: Item = Item {
    name: "banded-figure-11",
    source: Source::Banded,
    title: "Figure 11: a family of Toeplitz coefficients with one parameter",
    shows: "Toeplitz bands from one formula with a single parameter, found by a sweep without gradients (App. J), beside the \
            optimal ones: an excellent approximation.",
    timed: false,
    make,
};

const ROUNDS: [u64; 4] = [256, 1024, 4096, 16_384];
const BANDS: [usize; 5] = [4, 16, 64, 256, 1024];
/// What "excellent" is held to.
const CLOSE: f64 = 1.02;

struct Row {
    n: u64,
    bands: usize,
    alpha: f64,
    optimum: f64,
    ratio: f64,
    square_root: f64,
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut rows = Vec::new();
    for n in ROUNDS {
        for bands in BANDS.into_iter().filter(|bands| *bands as u64 <= n) {
            rows.push(row(work, n, bands)?);
        }
    }
    let header = ["n", "p", "α", "optimum, RmsLoss", "family beside it", "square root beside it"];
    let mut table = Table::new("RmsLoss of one participation", header);
    table.rows.extend(rows.iter().map(|row| {
        vec![
            Cell::from(row.n),
            Cell::from(row.bands as u64),
            Cell::number(row.alpha, 3),
            Cell::number(row.optimum, 4),
            Cell::number(row.ratio, 5),
            Cell::number(row.square_root, 4),
        ]
    }));
    let most = rows.iter().map(|row| row.ratio).fold(1.0, f64::max);
    Ok(Found {
        setting: "The formula is lost in the text. Ours is c_k = c_{k−1}·(k−1+α)/k, the coefficients of (1−x)^{−α}, with α \
                  from ½ to 1: α = ½ is the banded square root."
            .into(),
        claims: vec![Claim::new(
            "the family comes very close to the optimum",
            format!("at most {:.2} % above it", (most - 1.0) * 100.0),
            most < CLOSE,
        )],
        tables: vec![table],
        remarks: vec![
            "It comes closest for few bands, where nearly all of the loss of a square root is recovered, and is furthest \
             away where n/p is a few tens, and where p = n."
                .into(),
        ],
        charts: vec![chart(&rows)],
    })
}

fn row(work: &Work, n: u64, bands: usize) -> anyhow::Result<Row> {
    work.says(&format!("n = {n}, p = {bands}"));
    let single = Participation::single();
    let optimum = work.optimised(Family::BandToeplitz { bands }, n, single, Loss::Rms)?.rms_loss;
    let found = work.optimised(Family::BandPower { bands }, n, single, Loss::Rms)?;
    let alpha = match &found.strategy {
        // c₁ = α·c₀.
        Strategy::BandToeplitz { c, .. } if c.len() > 1 => c[1] / c[0],
        _ => f64::NAN,
    };
    let square_root = Strategy::BandSqrt { bands }.rms_loss(n, single)? / optimum;
    Ok(Row { n, bands, alpha, optimum, ratio: found.rms_loss / optimum, square_root })
}

fn chart(rows: &[Row]) -> Chart {
    let line = |n: u64| {
        let points = rows.iter().filter(|row| row.n == n);
        Series::new(
            format!("n = {n}"),
            points.map(|row| (row.bands as f64, ((row.ratio - 1.0) * 100.0).into())).collect(),
        )
    };
    Chart::Lines(Lines {
        title: "RmsLoss of the family above the optimum".into(),
        x: Axis::log("bands p"),
        y: Axis::linear("per cent"),
        series: ROUNDS.map(line).to_vec(),
    })
}
