//! How good banded strategies are: McKenna (2024), Figures 1, 7 and 11.

use plot::{Axis, Series};
use strategy::optimize::Family;
use strategy::{Participation, Strategy};

use crate::amplified::Budget;
use crate::baselines::{self, AMPLIFIED, BLT, Rmse, SGD, UNAMPLIFIED};
use crate::curves::{Curves, chart};
use crate::item::{Cell, Claim, Findings, Table, claims};
use crate::work::{Loss, Work, normalised};

const ROUNDS: [u64; 3] = [512, 1024, 2048];
const BANDS: [usize; 6] = [2, 4, 8, 16, 32, 64];
const FULL: u64 = 128;
const N: u64 = 16_384;
const EPOCHS: u64 = 16;
const EPSILONS: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

/// RmsLoss of one participation: general bands, then the others beside it.
struct Banded {
    n: u64,
    bands: usize,
    general: f64,
    normalised: f64,
    normalised_optimum: f64,
    toeplitz: f64,
    square_root: f64,
}

/// Figure 1.
pub fn bands_and_budgets(work: &Work) -> anyhow::Result<Findings> {
    let mut banded = Vec::new();
    for n in ROUNDS {
        for bands in BANDS {
            banded.push(banded_at(work, n, bands)?);
        }
    }
    let single = Participation::single();
    let whole = work.optimised(Family::BandMf { bands: FULL as usize }, FULL, single, Loss::Rms)?;
    let dense = work.optimised(Family::Dense, FULL, single, Loss::Rms)?;
    let mut rows = Vec::new();
    for epsilon in EPSILONS {
        rows.push((epsilon, baselines::rmse(work, Budget::new(epsilon), N, EPOCHS)?));
    }
    let title = format!("RMSE beside amplified BandMF, n = {N}, k = {EPOCHS}");
    let mut claims = claims_on_bands(&banded, whole.rms_loss / dense.rms_loss);
    claims.extend(claims_on_budgets(&rows));
    Ok(Findings {
        claims,
        tables: vec![banded_table(&banded), baselines::table(&title, "ε", &rows)],
        charts: vec![banded_chart(&banded), baselines::chart(&title, "ε", &rows)],
        ..Findings::default()
    })
}

fn banded_at(work: &Work, n: u64, bands: usize) -> anyhow::Result<Banded> {
    work.report(&format!("n = {n}, p = {bands}"));
    let single = Participation::single();
    let loss = |family| work.optimised(family, n, single, Loss::Rms).map(|found| found.rms_loss);
    let general = loss(Family::BandMf { bands })?;
    Ok(Banded {
        n,
        bands,
        general,
        normalised: normalised(work, n, bands as u64)?.rms_loss(n, single)? / general,
        normalised_optimum: loss(Family::BandToeplitzNormalised { bands })? / general,
        toeplitz: loss(Family::BandToeplitz { bands })? / general,
        square_root: Strategy::BandSqrt { bands }.rms_loss(n, single)? / general,
    })
}

fn claims_on_bands(banded: &[Banded], beside_dense: f64) -> Vec<Claim> {
    let at =
        |n, p| banded.iter().find(|row| row.n == n && row.bands == p).map_or(f64::NAN, |row| row.normalised);
    let most = banded.iter().map(|row| row.normalised).fold(1.0, f64::max);
    let root = banded.iter().map(|row| row.square_root).fold(1.0, f64::max);
    let best_of_toeplitz = |row: &Banded| row.normalised.min(row.toeplitz).min(row.normalised_optimum);
    let behind = banded.iter().all(|row| row.square_root > best_of_toeplitz(row) - 1e-9);
    let percent = |ratio: f64| format!("{:.2} %", (ratio - 1.0) * 100.0);
    let apart = (beside_dense - 1.0).abs();
    let [few, many] = [2, 64].map(|p| at(1024, p));
    let [short, middle, long] = ROUNDS.map(|n| at(n, 32));
    claims![
        apart < 1e-3 => "{} apart from our dense optimum at p = n = {FULL}", percent(1.0 + apart);
        most < 1.1 && few < many =>
            "at most {} ({} to {} from p = 2 to 64 at n = 1024)", percent(most), percent(few), percent(many);
        short > middle && middle > long =>
            "p = 32: {}, {}, {} at n = 512, 1024, 2048", percent(short), percent(middle), percent(long);
        behind => "worse: {behind}; at most {}", percent(root);
    ]
}

fn claims_on_budgets(rows: &[(f64, Rmse)]) -> Vec<Claim> {
    let ratios = |other: usize, unit: usize| {
        rows.iter().map(|(_, rmse)| rmse[other] / rmse[unit]).collect::<Vec<f64>>()
    };
    let ahead =
        rows.iter().all(|(_, rmse)| rmse.iter().all(|other| *other >= rmse[AMPLIFIED] * (1.0 - 1e-9)));
    let best =
        rows.iter().all(|(_, rmse)| rmse[1..UNAMPLIFIED].iter().all(|other| *other > rmse[UNAMPLIFIED]));
    let sgd = ratios(SGD, AMPLIFIED);
    let blt = ratios(BLT, AMPLIFIED);
    let more = (ratios(BLT, UNAMPLIFIED)[0] - 1.0) * 100.0;
    let ends = |ratios: &[f64]| format!("{:.2} to {:.2} times", ratios[0], ratios[ratios.len() - 1]);
    claims![
        ahead => "{ahead}";
        sgd.windows(2).all(|pair| pair[1] >= pair[0] - 1e-6) => "{}", ends(&sgd);
        blt.windows(2).all(|pair| pair[1] <= pair[0] + 1e-6) => "over the BLT {}", ends(&blt);
        best => "the BLT has {more:.1} % more";
    ]
}

fn banded_table(banded: &[Banded]) -> Table {
    let header = ["n", "p", "general bands, RmsLoss", "Toeplitz, normalised", "Toeplitz as it is"];
    let header = [&header[..], &["banded square root", "normalised Toeplitz, optimised as such"]].concat();
    let row = |row: &Banded| {
        let numbers = [row.general, row.normalised, row.toeplitz, row.square_root, row.normalised_optimum];
        let first = [Cell::from(row.n), Cell::from(row.bands as u64)];
        first.into_iter().chain(numbers.map(|number| Cell::number(number, 4))).collect()
    };
    Table::new("(a) RMSE beside the best of the same bands", header, banded.iter().map(row))
}

fn banded_chart(banded: &[Banded]) -> plot::Chart {
    let mut curves = Curves::new(BANDS.map(|bands| bands as f64));
    for rows in banded.chunks(BANDS.len()) {
        let n = rows[0].n;
        curves.add(format!("normalised, n = {n}"), rows.iter().map(|row| row.normalised));
        curves.add(format!("square root, n = {n}"), rows.iter().map(|row| row.square_root));
    }
    let title = "RMSE beside general bands, one participation";
    curves.chart(title, Axis::log("bands p"), Axis::log("times the RMSE"))
}

/// Figure 7: other mechanisms as rounds and epochs change.
pub fn rounds_and_epochs(work: &Work) -> anyhow::Result<Findings> {
    const EPSILON: f64 = 1.0;
    const ROUNDS: [u64; 6] = [1024, 2048, 4096, 8192, 16_384, 32_768];
    const EPOCHS_OF_A: u64 = 16;
    const N_OF_B: u64 = 4096;
    const EPOCHS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    let budget = Budget::new(EPSILON);
    let rmse = |x: u64, n, k| anyhow::Ok((x as f64, baselines::rmse(work, budget, n, k)?));
    let by_rounds =
        ROUNDS.map(|n| rmse(n, n, EPOCHS_OF_A)).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let by_epochs = EPOCHS.map(|k| rmse(k, N_OF_B, k)).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let next_best = |rows: &[(f64, Rmse)]| rows.iter().map(|(_, rmse)| next_best(rmse)).collect::<Vec<f64>>();
    let rounds = next_best(&by_rounds);
    let epochs = next_best(&by_epochs);
    let shown =
        |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
    let most = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    let (few, many) = epochs.split_at(epochs.len() / 2);
    let titles = [
        format!("(a) RMSE beside amplified BandMF, {EPOCHS_OF_A} epochs, ε = {EPSILON}"),
        format!("(b) RMSE beside amplified BandMF, n = {N_OF_B}, ε = {EPSILON}"),
    ];
    Ok(Findings {
        claims: claims![
            rounds.windows(2).all(|pair| pair[1] >= pair[0] * 0.999) =>
                "the next best has {} times its RMSE", shown(&rounds);
            most(few) > most(many) && epochs.windows(2).any(|pair| pair[1] > pair[0]) =>
                "the next best has {} times its RMSE", shown(&epochs);
        ],
        tables: vec![
            baselines::table(&titles[0], "n", &by_rounds),
            baselines::table(&titles[1], "epochs", &by_epochs),
        ],
        charts: vec![
            baselines::chart(&titles[0], "rounds n", &by_rounds),
            baselines::chart(&titles[1], "epochs k", &by_epochs),
        ],
        ..Findings::default()
    })
}

/// The least RMSE of what is not DP-BandMF, beside the amplified one.
fn next_best(rmse: &Rmse) -> f64 {
    rmse[..UNAMPLIFIED].iter().copied().fold(f64::INFINITY, f64::min) / rmse[AMPLIFIED]
}

/// Figure 11: one parameter instead of p.
pub fn one_parameter(work: &Work) -> anyhow::Result<Findings> {
    const ROUNDS: [u64; 4] = [256, 1024, 4096, 16_384];
    const BANDS: [usize; 5] = [4, 16, 64, 256, 1024];
    /// What "excellent" is held to.
    const CLOSE: f64 = 1.02;
    let single = Participation::single();
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    let mut most: f64 = 1.0;
    for n in ROUNDS {
        let mut points = Vec::new();
        for bands in BANDS.into_iter().filter(|bands| *bands as u64 <= n) {
            work.report(&format!("n = {n}, p = {bands}"));
            let optimum = work.optimised(Family::BandToeplitz { bands }, n, single, Loss::Rms)?.rms_loss;
            let found = work.optimised(Family::BandPower { bands }, n, single, Loss::Rms)?;
            let alpha = match &found.strategy {
                // c₁ = α·c₀.
                Strategy::BandToeplitz { c, .. } if c.len() > 1 => c[1] / c[0],
                _ => f64::NAN,
            };
            let ratio = found.rms_loss / optimum;
            let square_root = Strategy::BandSqrt { bands }.rms_loss(n, single)? / optimum;
            most = most.max(ratio);
            points.push((bands as f64, ((ratio - 1.0) * 100.0).into()));
            let numbers = [(alpha, 3), (optimum, 4), (ratio, 5), (square_root, 4)];
            let first = [Cell::from(n), Cell::from(bands as u64)];
            rows.push(first.into_iter().chain(numbers.map(|(x, digits)| Cell::number(x, digits))).collect());
        }
        lines.push(Series::new(format!("n = {n}"), points));
    }
    let header = ["n", "p", "α", "optimum, RmsLoss", "family beside it", "square root beside it"];
    let title = "RmsLoss of the family above the optimum";
    Ok(Findings {
        claims: claims![most < CLOSE => "at most {:.2} % above it", (most - 1.0) * 100.0],
        tables: vec![Table::new("RmsLoss of one participation", header, rows)],
        charts: vec![chart(title, Axis::log("bands p"), Axis::linear("per cent"), lines)],
        ..Findings::default()
    })
}
