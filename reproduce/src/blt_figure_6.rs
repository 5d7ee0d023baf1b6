//! papers/000, Figure 6: BLTs beside banded Toeplitz strategies.

use plot::Axis;
use strategy::optimize::Family;
use strategy::{Participation, Strategy};

use super::item::{Claim, Found, Item, Source};
use super::sweep::{Mechanism, Sweep};
use super::work::{Loss, Work};

pub const ITEM: Item = Item {
    name: "blt-figure-6",
    source: Source::Blt,
    title: "Figure 6: RmsLoss of BLTs, BandToep, BandFHU and BandMF as min-sep changes",
    shows: "n = 2000 and k = 5. Mechanisms made for b = 400, under other separations. BandToep is the optimised banded \
            Toeplitz matrix, BandFHU the leading coefficients of the square root of prefix sums, which nothing needs to \
            be optimised for. BLTs are as good as both, or better.",
    timed: false,
    make,
};

const N: u64 = 2000;
const K: u64 = 5;
const MADE_FOR: u64 = 400;
const SEPARATIONS: [u64; 14] = [50, 75, 100, 150, 200, 250, 300, 350, 380, 400, 420, 450, 475, 499];
const UNIT: &str = "blt-4 for b = 400";

fn make(work: &Work) -> anyhow::Result<Found> {
    let rule = Participation { min_sep: MADE_FOR, max_participations: K };
    let mut mechanisms = vec![Mechanism::blt(work, N, 2, rule)?, Mechanism::blt(work, N, 4, rule)?];
    let toeplitz = work.optimised(Family::BandToeplitz { bands: MADE_FOR as usize }, N, rule, Loss::Rms)?;
    mechanisms.push(Mechanism::of("band-toeplitz-400", &toeplitz));
    for bands in [200, 400, 800] {
        mechanisms.push(Mechanism::given(Strategy::BandSqrt { bands }, N)?);
    }
    mechanisms.extend(Mechanism::band_mf(work, N, &[MADE_FOR as usize])?);
    let rule = |b: &u64| (*b, Participation { min_sep: *b, max_participations: K });
    let rules: Vec<_> = SEPARATIONS.iter().map(rule).collect();
    let sweep = Sweep::over_rules(work, &mechanisms, N, &rules)?;
    let relative = sweep.relative_to(UNIT);
    let title = "RmsLoss relative to BLT(b = 400), n = 2000, k = 5";
    Ok(Found {
        setting: "BandToep and BandMF have 400 bands; BandFHU has 200, 400 and 800, since the text does not say how many. BLTs \
                  have two and four buffers."
            .into(),
        claims: claims(&relative),
        tables: vec![relative.table("RmsLoss relative to BLT(b = 400)", "min-sep"), sweep.table("RmsLoss", "min-sep")],
        remarks: sweep.remark().into_iter().collect(),
        charts: vec![relative.chart(title, Axis::linear("min-sep b"), Axis::log("relative RmsLoss"))],
    })
}

fn claims(relative: &Sweep) -> Vec<Claim> {
    let least = |name: &str| SEPARATIONS.iter().map(|b| relative.at(name, *b)).fold(f64::INFINITY, f64::min);
    let ahead = |name: &str| SEPARATIONS.iter().filter(|b| relative.at(name, **b) > 1.0).count();
    ["band-toeplitz-400", "band-sqrt-400"]
        .map(|name| {
            let least = least(name);
            let ahead = ahead(name);
            let all = SEPARATIONS.len();
            Claim::new(
                format!("BLTs are comparable to or better than {name}"),
                format!(
                    "ahead at {ahead} of {all} separations; elsewhere at most {:.1} % behind",
                    (1.0 / least - 1.0) * 100.0
                ),
                least > 0.95,
            )
        })
        .to_vec()
}
