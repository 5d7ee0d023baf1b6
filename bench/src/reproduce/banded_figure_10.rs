//! papers/001, Figure 10: banded Toeplitz strategies for a min-sep that is not known.

use std::ops::ControlFlow;

use plot::{Axis, Chart, Lines, Series};
use strategy::optimize::{Family, Objective, Optimised, Target, flattened, optimize};
use strategy::{Participation, Strategy};

use super::item::{Claim, Found, Item, Source};
use super::sweep::{Mechanism, Sweep};
use super::work::{Loss, Work};

pub const ITEM: Item = Item {
    name: "banded-figure-10",
    source: Source::Banded,
    title: "Figure 10: coefficients and RMSE where min-sep lies in a range",
    shows: "The setting of papers/000 with a min-sep anywhere in a range. (a) Coefficients of a BLT, of banded Toeplitz bands \
            made for one separation, and of the same bands flattened by a heuristic (App. H). (b) RMSE of each as min-sep \
            changes: with the heuristic it is below the BLT's everywhere, and above that of the plain bands only close to \
            the separation they are made for. All differences are small.",
    timed: false,
    make,
};

const N: u64 = 2000;
const K: u64 = 5;
const LOW: u64 = 200;
const HIGH: u64 = 400;
const SEPARATIONS: [u64; 13] = [100, 125, 150, 175, 200, 225, 250, 275, 300, 325, 350, 375, 400];
const NAMES: [&str; 5] = [
    "blt-4",
    "band-toeplitz-400",
    "with the heuristic",
    "least mean loss, band-toeplitz-400",
    "least mean loss, blt-4",
];

fn make(work: &Work) -> anyhow::Result<Found> {
    let rule = Participation { min_sep: HIGH, max_participations: K };
    let bands = Family::BandToeplitz { bands: HIGH as usize };
    let blt = work.optimised(Family::Blt { buffers: 4 }, N, rule, Loss::Rms)?;
    let plain = work.optimised(bands, N, rule, Loss::Rms)?;
    let heuristic = Strategy::BandToeplitz {
        c: flattened(&coefficients(&plain.strategy), LOW as usize),
        column_normalised: false,
    };
    let (mean, mean_blt) = (over_the_range(bands)?, over_the_range(Family::Blt { buffers: 4 })?);
    let strategies =
        [blt.strategy.clone(), plain.strategy.clone(), heuristic, mean.strategy, mean_blt.strategy];
    let mut mechanisms = Vec::new();
    for (name, strategy) in NAMES.iter().zip(&strategies) {
        let mut mechanism = Mechanism::given(strategy.clone(), N)?;
        mechanism.name = (*name).into();
        mechanisms.push(mechanism);
    }
    let rules = SEPARATIONS.map(|b| (b, Participation { min_sep: b, max_participations: K }));
    let sweep = Sweep::over_rules(work, &mechanisms, N, &rules)?;
    let relative = sweep.relative_to(NAMES[1]);
    let (x, y) = (Axis::linear("min-sep b"), Axis::linear("RmsLoss"));
    Ok(Found {
        setting: format!(
            "n = {N}, k = {K}, min-sep from {LOW} to {HIGH} (Figure 6 of papers/000; the numbers are lost in this text). The \
             BLT has four buffers; it and the bands are made for b = {HIGH}. The heuristic's formula is lost too: c_i ← \
             c_{{{HIGH}−1}} for all i ≥ {LOW} is our reading. Ours besides: the same bands, and a BLT, with the least mean loss \
             over b = 100, 200, 300 and 400."
        ),
        claims: claims(&sweep),
        tables: vec![relative.table("RmsLoss relative to band-toeplitz-400", "min-sep"), sweep.table("RmsLoss", "min-sep")],
        remarks: sweep.remark().into_iter().chain(std::iter::once(
            "Optimising the mean loss over the range, which the paper leaves to later work, replaces the heuristic.".into(),
        )).collect(),
        charts: vec![coefficients_chart(&strategies), sweep.chart("RmsLoss, n = 2000, k = 5", x, y)],
    })
}

fn over_the_range(family: Family) -> anyhow::Result<Optimised> {
    let rule = |b| Participation { min_sep: b, max_participations: K };
    let target = Target::new(N, rule(HIGH), Objective::Rms)
        .with_participations([LOW, 200, 300, HIGH].map(rule).to_vec());
    Ok(optimize(family, &target, &mut |_| ControlFlow::Continue(()))?)
}

fn claims(sweep: &Sweep) -> Vec<Claim> {
    let below = |one: &str, other: &str| {
        SEPARATIONS.iter().filter(|b| sweep.at(one, **b) < sweep.at(other, **b)).count()
    };
    let all = SEPARATIONS.len();
    let [blt, plain, heuristic, mean, _] = NAMES;
    let (over_blt, over_plain, mean_over_blt) =
        (below(heuristic, blt), below(heuristic, plain), below(mean, blt));
    let cost = sweep.at(heuristic, HIGH) / sweep.at(plain, HIGH);
    let most = |one: &str, other: &str| {
        SEPARATIONS.iter().map(|b| sweep.at(one, *b) / sweep.at(other, *b)).fold(0.0, f64::max)
    };
    vec![
        Claim::new(
            "the heuristic's RMSE is below the BLT's everywhere",
            format!("at {over_blt} of {all} separations"),
            over_blt == all,
        ),
        Claim::new(
            "it costs something close to the separation that the bands are made for",
            format!("{cost:.3} times the RMSE at b = {HIGH}; below the plain bands at {over_plain} of {all}"),
            cost > 1.0,
        ),
        Claim::new(
            "something more principled can likely replace it",
            format!("bands of least mean loss are below the BLT at {mean_over_blt} of {all}"),
            mean_over_blt == all,
        ),
        Claim::new(
            "differences are small",
            format!(
                "the plain bands have at most {:.3} times the BLT's RMSE, the BLT at most {:.3} times theirs",
                most(plain, blt),
                most(blt, plain)
            ),
            most(plain, blt).max(most(blt, plain)) < 1.2,
        ),
    ]
}

fn coefficients(strategy: &Strategy) -> Vec<f64> {
    match strategy {
        Strategy::BandToeplitz { c, .. } => c.clone(),
        Strategy::Blt(blt) => blt.coefficients(2 * HIGH as usize),
        _ => Vec::new(),
    }
}

fn coefficients_chart(strategies: &[Strategy]) -> Chart {
    let series = NAMES.iter().zip(strategies).map(|(name, strategy)| {
        let c = coefficients(strategy);
        let lead = c.first().copied().unwrap_or(1.0);
        let points = c.iter().enumerate().skip(1).map(|(i, c)| (i as f64, (c / lead).into()));
        Series::new(*name, points.step_by(3).collect())
    });
    Chart::Lines(Lines {
        title: "Coefficients beside the first".into(),
        x: Axis::log("i"),
        y: Axis::log("c_i / c_0"),
        series: series.collect(),
    })
}
