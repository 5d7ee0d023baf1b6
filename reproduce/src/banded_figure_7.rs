//! papers/001, Figure 7: other mechanisms as rounds and epochs change.

use super::amplified::Budget;
use super::baselines::{self, AMPLIFIED};
use super::item::{Claim, Found, Item, Source};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "banded-figure-7",
    source: Source::Banded,
    title: "Figure 7: DP-BandMF beside other mechanisms as rounds and epochs change",
    shows: "The mechanisms of Figure 1(b) at one ε, (a) as the number of rounds grows and (b) as the number of epochs does. \
            DP-BandMF gains on the others as n grows, and is furthest ahead of the next best for few epochs, though not \
            monotonically.",
    timed: false,
    make,
};

const EPSILON: f64 = 1.0;
const ROUNDS: [u64; 6] = [1024, 2048, 4096, 8192, 16_384, 32_768];
const EPOCHS_OF_A: u64 = 16;
const N_OF_B: u64 = 4096;
const EPOCHS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

fn make(work: &Work) -> anyhow::Result<Found> {
    let budget = Budget::new(EPSILON);
    let mut by_rounds = Vec::new();
    let mut by_epochs = Vec::new();
    for n in ROUNDS {
        by_rounds.push((n as f64, baselines::rmse(work, budget, n, EPOCHS_OF_A)?));
    }
    for k in EPOCHS {
        by_epochs.push((k as f64, baselines::rmse(work, budget, N_OF_B, k)?));
    }
    let titles = [
        format!("(a) RMSE beside amplified BandMF, {EPOCHS_OF_A} epochs, ε = {EPSILON}"),
        format!("(b) RMSE beside amplified BandMF, n = {N_OF_B}, ε = {EPSILON}"),
    ];
    Ok(Found {
        setting: format!(
            "The text lost its numbers: ε = {EPSILON}, δ = 1e-6; (a) {EPOCHS_OF_A} epochs, (b) n = {N_OF_B}, from one epoch on. {}",
            baselines::LIST
        ),
        claims: claims(&by_rounds, &by_epochs),
        tables: vec![
            baselines::table(&titles[0], "n", &by_rounds),
            baselines::table(&titles[1], "epochs", &by_epochs),
        ],
        remarks: vec!["Stamping is left out, as in Figure 1(b).".into()],
        charts: vec![
            baselines::chart(&titles[0], "rounds n", &by_rounds),
            baselines::chart(&titles[1], "epochs k", &by_epochs),
        ],
    })
}

/// The least RMSE of what is not DP-BandMF, beside the amplified one.
fn next_best((_, rmse): &(f64, [f64; 6])) -> f64 {
    rmse[..baselines::UNAMPLIFIED].iter().copied().fold(f64::INFINITY, f64::min) / rmse[AMPLIFIED]
}

fn claims(by_rounds: &[(f64, [f64; 6])], by_epochs: &[(f64, [f64; 6])]) -> Vec<Claim> {
    let rounds: Vec<f64> = by_rounds.iter().map(next_best).collect();
    let epochs: Vec<f64> = by_epochs.iter().map(next_best).collect();
    let shown =
        |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
    let half = epochs.len() / 2;
    let most = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    vec![
        Claim::new(
            "(a) it gains on the next best as n grows",
            format!("the next best has {} times its RMSE", shown(&rounds)),
            rounds.windows(2).all(|pair| pair[1] >= pair[0] * 0.999),
        ),
        Claim::new(
            "(b) it is furthest ahead for few epochs, not monotonically",
            format!("the next best has {} times its RMSE", shown(&epochs)),
            most(&epochs[..half]) > most(&epochs[half..]) && epochs.windows(2).any(|pair| pair[1] > pair[0]),
        ),
    ]
}
