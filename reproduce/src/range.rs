//! Banded Toeplitz strategies for a min-sep that is not known: McKenna (2024), Figure 10.

use std::ops::ControlFlow;

use plot::{Axis, Series};
use strategy::optimize::{Family, Objective, Optimized, Target, flatten_tail, optimize};
use strategy::{Participation, Strategy};

use crate::curves::{Curves, chart};
use crate::item::{Cell, Claim, Findings, claims};
use crate::sweep::{self, Mechanism, rules};
use crate::work::{Loss, Work};

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

/// Figure 10.
pub fn min_sep_in_a_range(work: &Work) -> anyhow::Result<Findings> {
    let rule = Participation { min_sep: HIGH, max_participations: K };
    let bands = Family::BandToeplitz { bands: HIGH as usize };
    let blt = Family::Blt { buffers: 4 };
    let plain = work.optimised(bands, N, rule, Loss::Rms)?;
    let c = flatten_tail(&coefficients(&plain.strategy), LOW as usize);
    let strategies = [
        work.optimised(blt, N, rule, Loss::Rms)?.strategy.clone(),
        plain.strategy.clone(),
        Strategy::BandToeplitz { c, column_normalised: false },
        over_the_range(bands)?.strategy,
        over_the_range(blt)?.strategy,
        work.optimised(blt, N, rule, Loss::Max)?.strategy.clone(),
    ];
    let mut mechanisms = Vec::new();
    for (name, strategy) in NAMES.iter().zip(&strategies) {
        mechanisms.push(Mechanism { name: (*name).into(), ..Mechanism::given(strategy.clone(), N)? });
    }
    let (losses, remark) = sweep::losses(work, &mechanisms, N, &rules(SEPARATIONS, |_| K))?;
    let relative = losses.relative_to(NAMES[1]);
    let x = Axis::linear("min-sep b");
    Ok(Findings {
        claims: claims(&losses),
        tables: vec![
            relative.table("RmsLoss relative to band-toeplitz-400", "min-sep", Cell::whole, 3),
            losses.table("RmsLoss", "min-sep", Cell::whole, 3),
        ],
        remarks: remark.into_iter().collect(),
        charts: vec![
            coefficients_chart(&strategies),
            losses.chart("RmsLoss, n = 2000, k = 5", x, Axis::linear("RmsLoss")),
        ],
        ..Findings::default()
    })
}

fn over_the_range(family: Family) -> anyhow::Result<Optimized> {
    let rule = |b| Participation { min_sep: b, max_participations: K };
    let target = Target::new(N, rule(HIGH), Objective::Rms)
        .with_participations([LOW, 250, 300, 350, HIGH].map(rule).to_vec());
    Ok(optimize(family, &target, &mut |_| ControlFlow::Continue(()))?)
}

fn claims(losses: &Curves) -> Vec<Claim> {
    let below = |one: &str, other: &str| losses.places_below(one, other).0;
    let most = |one: &str, other: &str| {
        SEPARATIONS.iter().map(|b| losses.at(one, *b) / losses.at(other, *b)).fold(0.0, f64::max)
    };
    let [blt, plain, heuristic, mean, _, for_max] = NAMES;
    let all = SEPARATIONS.len();
    let over_blt = below(heuristic, blt);
    let over_max = below(heuristic, for_max);
    let over_plain = below(heuristic, plain);
    let mean_over_max = below(mean, for_max);
    let cost = losses.at(heuristic, HIGH) / losses.at(plain, HIGH);
    let plain_most = most(plain, blt);
    let blt_most = most(blt, plain);
    claims![
        over_blt == all =>
            "at {over_max} of {all} separations, of a BLT made for MaxLoss; at {over_blt} of one made for RmsLoss";
        cost > 1.0 =>
            "{cost:.3} times the RMSE at b = {HIGH}; below the plain bands at {over_plain} of {all}";
        mean_over_max == all =>
            "bands of least mean loss are below the BLT for MaxLoss at {mean_over_max} of {all}";
        plain_most.max(blt_most) < 1.2 =>
            "the plain bands have at most {plain_most:.3} times the BLT's RMSE, the BLT at most {blt_most:.3} times theirs";
    ]
}

fn coefficients(strategy: &Strategy) -> Vec<f64> {
    match strategy {
        Strategy::BandToeplitz { c, .. } => c.clone(),
        Strategy::Blt(blt) => blt.coefficients(2 * HIGH as usize),
        _ => Vec::new(),
    }
}

fn coefficients_chart(strategies: &[Strategy]) -> plot::Chart {
    let series = NAMES.iter().zip(strategies).map(|(name, strategy)| {
        let c = coefficients(strategy);
        let lead = c.first().copied().unwrap_or(1.0);
        let points = c.iter().enumerate().skip(1).map(|(i, c)| (i as f64, (c / lead).into()));
        Series::new(*name, points.step_by(3).collect())
    });
    chart("Coefficients beside the first", Axis::log("i"), Axis::log("c_i / c_0"), series)
}
