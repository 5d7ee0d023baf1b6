//! papers/001, Figure 1: how good banded strategies are.

use strategy::optimize::Family;
use strategy::{Participation, Strategy};

use super::amplified::Budget;
use super::baselines::{self, AMPLIFIED, BLT, SGD, UNAMPLIFIED};
use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::{Loss, Work, normalised};

pub const ITEM: Item = Item {
    name: "banded-figure-1",
    source: Source::Banded,
    title: "Figure 1: banded strategies beside each other, and beside other mechanisms as ε changes",
    shows: "(a) RMSE of banded strategies beside the best at equal bands: the implicit optimiser of general bands finds \
            what the explicit one of earlier work finds, column-normalised Toeplitz matrices come close, closer for few \
            bands and many rounds, and the banded square root is behind everywhere. (b) RMSE of DP-BandMF, amplified and \
            not, beside other mechanisms at one n and number of epochs as ε changes: amplified it is ahead everywhere.",
    timed: false,
    make,
};

const ROUNDS: [u64; 3] = [512, 1024, 2048];
const BANDS: [usize; 6] = [2, 4, 8, 16, 32, 64];
const FULL: u64 = 128;
const N: u64 = 16_384;
const EPOCHS: u64 = 16;
const EPSILONS: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

struct Banded {
    n: u64,
    bands: usize,
    /// RmsLoss of one participation: general bands, then the others beside it.
    general: f64,
    normalised: f64,
    normalised_optimum: f64,
    toeplitz: f64,
    square_root: f64,
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut banded = Vec::new();
    for n in ROUNDS {
        for bands in BANDS {
            banded.push(banded_at(work, n, bands)?);
        }
    }
    let whole =
        work.optimised(Family::BandMf { bands: FULL as usize }, FULL, Participation::single(), Loss::Rms)?;
    let dense = work.optimised(Family::Dense, FULL, Participation::single(), Loss::Rms)?;
    let mut rows = Vec::new();
    for epsilon in EPSILONS {
        rows.push((epsilon, baselines::rmse(work, Budget::new(epsilon), N, EPOCHS)?));
    }
    let title = format!("RMSE beside amplified BandMF, n = {N}, k = {EPOCHS}");
    let mut claims = claims_on_bands(&banded, whole.rms_loss / dense.rms_loss);
    claims.extend(claims_on_budgets(&rows));
    Ok(Found {
        setting: format!(
            "The text lost its numbers. (a) n = 512 to 2048 and p = 2 to 64; explicit optimisation is held against the \
             implicit one where every band is free, p = n = {FULL}. (b) n = {N}, {EPOCHS} epochs, δ = 1e-6. {}",
            baselines::LIST
        ),
        claims,
        tables: vec![banded_table(&banded), baselines::table(&title, "ε", &rows)],
        remarks: vec![
            "Stamping (a tree of smaller optimised matrices) is left out: no mechanism of ours."
                .into(),
            "The last column of (a) is the Toeplitz column optimised with its normalisation in mind (App. K), which the \
             figure does not show."
                .into(),
        ],
        charts: vec![banded_chart(&banded), baselines::chart(&title, "ε", &rows)],
    })
}

fn banded_at(work: &Work, n: u64, bands: usize) -> anyhow::Result<Banded> {
    work.says(&format!("n = {n}, p = {bands}"));
    let single = Participation::single();
    let of = |family| work.optimised(family, n, single, Loss::Rms).map(|found| found.rms_loss);
    let general = of(Family::BandMf { bands })?;
    Ok(Banded {
        n,
        bands,
        general,
        normalised: normalised(work, n, bands as u64)?.rms_loss(n, single)? / general,
        normalised_optimum: of(Family::BandToeplitzNormalised { bands })? / general,
        toeplitz: of(Family::BandToeplitz { bands })? / general,
        square_root: Strategy::BandSqrt { bands }.rms_loss(n, single)? / general,
    })
}

fn claims_on_bands(banded: &[Banded], beside_dense: f64) -> Vec<Claim> {
    let at =
        |n, p| banded.iter().find(|row| row.n == n && row.bands == p).map_or(f64::NAN, |row| row.normalised);
    let most = banded.iter().map(|row| row.normalised).fold(1.0, f64::max);
    let best_of_toeplitz = |row: &Banded| row.normalised.min(row.toeplitz).min(row.normalised_optimum);
    let behind = banded.iter().all(|row| row.square_root > best_of_toeplitz(row) - 1e-9);
    let root = banded.iter().map(|row| row.square_root).fold(1.0, f64::max);
    let percent = |ratio: f64| format!("{:.2} %", (ratio - 1.0) * 100.0);
    vec![
        Claim::new(
            "(a) the implicit optimiser reaches what the explicit one finds",
            format!(
                "{} apart from our dense optimum at p = n = {FULL}",
                percent(1.0 + (beside_dense - 1.0).abs())
            ),
            (beside_dense - 1.0).abs() < 1e-3,
        ),
        Claim::new(
            "(a) column-normalised Toeplitz strategies are a little worse, more so for more bands",
            format!(
                "at most {} ({} to {} from p = 2 to 64 at n = 1024)",
                percent(most),
                percent(at(1024, 2)),
                percent(at(1024, 64))
            ),
            most < 1.1 && at(1024, 2) < at(1024, 64),
        ),
        Claim::new(
            "(a) and less so for more rounds",
            format!(
                "p = 32: {}, {}, {} at n = 512, 1024, 2048",
                percent(at(512, 32)),
                percent(at(1024, 32)),
                percent(at(2048, 32))
            ),
            at(512, 32) > at(1024, 32) && at(1024, 32) > at(2048, 32),
        ),
        Claim::new(
            "(a) the banded square root is worse everywhere, more so for larger n",
            format!("worse: {behind}; at most {}", percent(root)),
            behind,
        ),
    ]
}

fn claims_on_budgets(rows: &[(f64, [f64; 6])]) -> Vec<Claim> {
    let ratios = |other: usize, unit: usize| -> Vec<f64> {
        rows.iter().map(|(_, rmse)| rmse[other] / rmse[unit]).collect()
    };
    let ahead =
        rows.iter().all(|(_, rmse)| rmse.iter().all(|other| *other >= rmse[AMPLIFIED] * (1.0 - 1e-9)));
    let sgd = ratios(SGD, AMPLIFIED);
    let blt = ratios(BLT, AMPLIFIED);
    let unamplified = ratios(BLT, UNAMPLIFIED);
    let ends = |ratios: &[f64]| format!("{:.2} to {:.2} times", ratios[0], ratios[ratios.len() - 1]);
    let best =
        rows.iter().all(|(_, rmse)| rmse[1..UNAMPLIFIED].iter().all(|other| *other > rmse[UNAMPLIFIED]));
    vec![
        Claim::new("(b) amplified BandMF has the least RMSE at every ε", format!("{ahead}"), ahead),
        Claim::new(
            "(b) its lead over DP-SGD grows with ε",
            ends(&sgd),
            sgd.windows(2).all(|pair| pair[1] >= pair[0] - 1e-6),
        ),
        Claim::new(
            "(b) its lead over the others falls with ε",
            format!("over the BLT {}", ends(&blt)),
            blt.windows(2).all(|pair| pair[1] <= pair[0] + 1e-6),
        ),
        Claim::new(
            "(b) unamplified BandMF is the best of what is not amplified; BLTs have 5 to 7.5 % more RMSE",
            format!("the BLT has {:.1} % more", (unamplified[0] - 1.0) * 100.0),
            best,
        ),
    ]
}

fn banded_table(banded: &[Banded]) -> Table {
    let header = [
        "n",
        "p",
        "general bands, RmsLoss",
        "Toeplitz, normalised",
        "Toeplitz as it is",
        "banded square root",
        "normalised Toeplitz, optimised as such",
    ];
    let mut table = Table::new("(a) RMSE beside the best of the same bands", header);
    table.rows.extend(banded.iter().map(|row| {
        let ratios = [row.normalised, row.toeplitz, row.square_root, row.normalised_optimum];
        let first = [Cell::from(row.n), Cell::from(row.bands as u64), Cell::number(row.general, 4)];
        first.into_iter().chain(ratios.map(|ratio| Cell::number(ratio, 4))).collect()
    }));
    table
}

fn banded_chart(banded: &[Banded]) -> plot::Chart {
    let mut series = Vec::new();
    for n in ROUNDS {
        let line = |name: &str, ratio: fn(&Banded) -> f64| {
            let rows = banded.iter().filter(|row| row.n == n);
            let points = rows.map(|row| (row.bands as f64, ratio(row).into()));
            plot::Series::new(format!("{name}, n = {n}"), points.collect())
        };
        series.push(line("normalised", |row| row.normalised));
        series.push(line("square root", |row| row.square_root));
    }
    plot::Chart::Lines(plot::Lines {
        title: "RMSE beside general bands, one participation".into(),
        x: plot::Axis::log("bands p"),
        y: plot::Axis::log("times the RMSE"),
        series,
    })
}
