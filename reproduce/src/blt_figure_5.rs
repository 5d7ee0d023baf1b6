//! papers/000, Figure 5: more or fewer rounds than planned for.

use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;
use strategy::optimize::Family;
use strategy::{Participation, Strategy};

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::{Loss, Work};

pub const ITEM: Item = Item {
    name: "blt-figure-5",
    source: Source::Blt,
    title: "Figure 5: RmsLoss as the rounds that are run change",
    shows: "BandMF and BLTs made for n = 800 or n = 2000 and b = 400, run for other n with as many participations as fit. \
            BandMF ends at the n it was made for; BLTs go on, and hardly mind. Two buffers are as good as five; one is \
            not, with more than 1.07 times the loss.",
    timed: false,
    make,
};

const MIN_SEP: u64 = 400;
const ROUNDS: [u64; 21] = [
    50, 100, 200, 300, 400, 401, 500, 600, 700, 800, 801, 900, 1000, 1100, 1200, 1201, 1400, 1600, 1601,
    1800, 2000,
];
/// Published as "not shown, above".
const ONE_BUFFER: f64 = 1.07;
/// Five buffers, made for 2000 rounds.
const UNIT: usize = 3;

struct Made {
    name: String,
    strategy: Strategy,
    /// Most rounds it can run.
    most: u64,
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let made = mechanisms(work)?;
    let losses: anyhow::Result<Vec<Vec<Option<f64>>>> =
        made.par_iter().map(|made| ROUNDS.iter().map(|n| loss(made, *n)).collect()).collect();
    let losses = losses?;
    let unit: Vec<f64> = losses[UNIT].iter().map(|loss| loss.unwrap_or(f64::NAN)).collect();
    let relative: Vec<Vec<Option<f64>>> = losses
        .iter()
        .map(|row| row.iter().zip(&unit).map(|(loss, unit)| loss.map(|loss| loss / unit)).collect())
        .collect();
    Ok(Found {
        setting: "The n and b named above; k = ⌈n/b⌉ at each n. Relative to the BLT with five buffers made for n = 2000, \
                  since the text does not name the unit."
            .into(),
        claims: claims(&relative),
        tables: vec![table("Relative RmsLoss", &made, &relative), table("RmsLoss", &made, &losses)],
        remarks: vec![
            "k is rounded up here, so that no allowed pattern is left out: at n = 401 two participations fit 400 rounds \
             apart. The stairs of the right panel come one round after each multiple of b."
                .into(),
            "BandMF runs with the leading block of its matrix, whose last columns are cut and no longer of norm one; the \
             sensitivity is that of the block."
                .into(),
        ],
        charts: vec![
            chart("RmsLoss relative to blt-5 made for 2000 rounds", &made, &relative),
            chart("RmsLoss, b = 400, k = ⌈n/b⌉", &made, &losses),
        ],
    })
}

fn mechanisms(work: &Work) -> anyhow::Result<Vec<Made>> {
    let mut made = Vec::new();
    for buffers in [2, 5] {
        for n in [800, 2000] {
            let rule = Participation { min_sep: MIN_SEP, max_participations: n / MIN_SEP };
            let found = work.optimised(Family::Blt { buffers }, n, rule, Loss::Rms)?;
            let name = format!("blt-{buffers} for n = {n}");
            made.push(Made { name, strategy: found.strategy.clone(), most: u64::MAX });
        }
    }
    for n in [800, 2000] {
        let found = work.optimised(Family::BandMf { bands: 400 }, n, Participation::single(), Loss::Rms)?;
        made.push(Made {
            name: format!("band-mf-400 for n = {n}"),
            strategy: found.strategy.clone(),
            most: n,
        });
    }
    let rule = Participation { min_sep: MIN_SEP, max_participations: 5 };
    let one = work.optimised(Family::Blt { buffers: 1 }, 2000, rule, Loss::Rms)?;
    made.push(Made { name: "blt-1 for n = 2000".into(), strategy: one.strategy.clone(), most: u64::MAX });
    Ok(made)
}

/// `None` past the rounds it can run.
fn loss(made: &Made, n: u64) -> anyhow::Result<Option<f64>> {
    if n > made.most {
        return Ok(None);
    }
    let rule = Participation::new(MIN_SEP, n.div_ceil(MIN_SEP))?;
    Ok(Some(made.strategy.rms_loss(n, rule)?))
}

fn claims(relative: &[Vec<Option<f64>>]) -> Vec<Claim> {
    let most = |row: &[Option<f64>]| row.iter().flatten().copied().fold(0.0, f64::max);
    let last = |row: &[Option<f64>]| row.last().copied().flatten().unwrap_or(f64::NAN);
    let two = most(&relative[1]);
    let short = last(&relative[2]);
    let one = last(&relative[6]);
    vec![
        Claim::new("two buffers are as good as five", format!("at most {two:.3} times the loss"), two < 1.02),
        Claim::new(
            "a BLT made for n = 800 is nearly as good at 2000",
            format!("{short:.3} times the loss"),
            short < 1.1,
        ),
        Claim::new(
            "one buffer has more than 1.07 times the loss",
            format!("{one:.3} at n = 2000"),
            one > ONE_BUFFER,
        ),
    ]
}

fn table(title: &str, made: &[Made], losses: &[Vec<Option<f64>>]) -> Table {
    let header = std::iter::once("n".to_owned()).chain(made.iter().map(|made| made.name.clone()));
    let mut table = Table::new(title, header);
    for (i, n) in ROUNDS.iter().enumerate() {
        let cells = losses.iter().map(|row| Cell::maybe(row[i], 3));
        table.rows.push(std::iter::once(Cell::from(*n)).chain(cells).collect());
    }
    table
}

fn chart(title: &str, made: &[Made], losses: &[Vec<Option<f64>>]) -> Chart {
    let series = made.iter().zip(losses).map(|(made, losses)| {
        let points = ROUNDS.iter().zip(losses).filter_map(|(n, loss)| Some((*n as f64, (*loss)?.into())));
        Series::new(&made.name, points.collect())
    });
    let x = Axis::linear("rounds run, n");
    let y = Axis::log("RmsLoss");
    Chart::Lines(Lines { title: title.into(), x, y, series: series.collect() })
}
