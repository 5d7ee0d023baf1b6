//! papers/001, Figure 10: banded Toeplitz strategies for a min-sep that is not known.

use std::ops::ControlFlow;

use plot::{Axis, Chart, Lines, Series};
use strategy::optimize::{Family, Objective, Optimized, Target, flatten_tail, optimize};
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
const SEPARATIONS: [u64; 11] = [200, 220, 240, 260, 280, 300, 320, 340, 360, 380, 400];
const NAMES: [&str; 6] = [
    "blt-4",
    "band-toeplitz-400",
    "with the heuristic",
    "least mean loss, band-toeplitz-400",
    "least mean loss, blt-4",
    "blt-4 for MaxLoss",
];

fn make(work: &Work) -> anyhow::Result<Found> {
    let rule = Participation { min_sep: HIGH, max_participations: K };
    let bands = Family::BandToeplitz { bands: HIGH as usize };
    let blt = work.optimised(Family::Blt { buffers: 4 }, N, rule, Loss::Rms)?;
    let plain = work.optimised(bands, N, rule, Loss::Rms)?;
    let heuristic = Strategy::BandToeplitz {
        c: flatten_tail(&coefficients(&plain.strategy), LOW as usize),
        column_normalised: false,
    };
    let for_max = work.optimised(Family::Blt { buffers: 4 }, N, rule, Loss::Max)?;
    let mean = over_the_range(bands)?;
    let mean_blt = over_the_range(Family::Blt { buffers: 4 })?;
    let strategies = [
        blt.strategy.clone(),
        plain.strategy.clone(),
        heuristic,
        mean.strategy,
        mean_blt.strategy,
        for_max.strategy.clone(),
    ];
    let mut mechanisms = Vec::new();
    for (name, strategy) in NAMES.iter().zip(&strategies) {
        let mut mechanism = Mechanism::given(strategy.clone(), N)?;
        mechanism.name = (*name).into();
        mechanisms.push(mechanism);
    }
    let rules = SEPARATIONS.map(|b| (b, Participation { min_sep: b, max_participations: K }));
    let sweep = Sweep::over_rules(work, &mechanisms, N, &rules)?;
    let relative = sweep.relative_to(NAMES[1]);
    let x = Axis::linear("min-sep b");
    let y = Axis::linear("RmsLoss");
    Ok(Found {
        setting: format!(
            "n = {N}, k = {K}, min-sep from {LOW} to {HIGH} (Figure 6 of papers/000; the numbers are lost in this text). The \
             BLT has four buffers; it and the bands are made for b = {HIGH}. The heuristic's formula is lost too: c_i ← \
             c_{{{HIGH}−1}} for all i ≥ {LOW} is our reading. Ours besides: the same bands, and a BLT, with the least mean loss \
             over b = 200, 250, 300, 350 and 400, and a BLT made for MaxLoss."
        ),
        claims: claims(&sweep),
        tables: vec![relative.table("RmsLoss relative to band-toeplitz-400", "min-sep"), sweep.table("RmsLoss", "min-sep")],
        remarks: sweep.remark().into_iter().chain(std::iter::once(
            "The text does not say what its BLT was made for. One made for RmsLoss, as the bands are, is ahead of the \
             heuristic in the middle of the range; one made for MaxLoss, as papers/000 runs them, is not."
                .into(),
        )).collect(),
        charts: vec![coefficients_chart(&strategies), sweep.chart("RmsLoss, n = 2000, k = 5", x, y)],
    })
}

fn over_the_range(family: Family) -> anyhow::Result<Optimized> {
    let rule = |b| Participation { min_sep: b, max_participations: K };
    let target = Target::new(N, rule(HIGH), Objective::Rms)
        .with_participations([LOW, 250, 300, 350, HIGH].map(rule).to_vec());
    Ok(optimize(family, &target, &mut |_| ControlFlow::Continue(()))?)
}

fn claims(sweep: &Sweep) -> Vec<Claim> {
    let below = |one: &str, other: &str| {
        SEPARATIONS.iter().filter(|b| sweep.at(one, **b) < sweep.at(other, **b)).count()
    };
    let all = SEPARATIONS.len();
    let [blt, plain, heuristic, mean, _, for_max] = NAMES;
    let over_blt = below(heuristic, blt);
    let over_max = below(heuristic, for_max);
    let over_plain = below(heuristic, plain);
    let mean_over_max = below(mean, for_max);
    let cost = sweep.at(heuristic, HIGH) / sweep.at(plain, HIGH);
    let most = |one: &str, other: &str| {
        SEPARATIONS.iter().map(|b| sweep.at(one, *b) / sweep.at(other, *b)).fold(0.0, f64::max)
    };
    vec![
        Claim::new(
            "the heuristic's RMSE is below the BLT's everywhere",
            format!(
                "at {over_max} of {all} separations, of a BLT made for MaxLoss; at {over_blt} of one made for RmsLoss"
            ),
            over_blt == all,
        ),
        Claim::new(
            "it costs something close to the separation that the bands are made for",
            format!("{cost:.3} times the RMSE at b = {HIGH}; below the plain bands at {over_plain} of {all}"),
            cost > 1.0,
        ),
        Claim::new(
            "something more principled can likely replace it",
            format!("bands of least mean loss are below the BLT for MaxLoss at {mean_over_max} of {all}"),
            mean_over_max == all,
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
