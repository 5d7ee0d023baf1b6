//! papers/000, Figure 4: as many participations as fit.

use plot::Axis;
use strategy::Participation;

use super::item::{Claim, Found, Item, Source};
use super::sweep::{Mechanism, Sweep};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "blt-figure-4",
    source: Source::Blt,
    title: "Figure 4: RmsLoss at k = n/b as min-sep changes",
    shows: "n = 2000 and those b that divide it, with k = n/b participations: the best order of the data. Losses are \
            larger than in Figure 3; BandMF is slightly ahead near its own number of bands and loses more than BLTs away \
            from it, and BLTs' curves are the smoother ones.",
    timed: false,
    make,
};

const N: u64 = 2000;
/// Divisors of n.
const SEPARATIONS: [u64; 12] = [20, 25, 40, 50, 80, 100, 125, 200, 250, 400, 500, 1000];
const MADE_FOR: [u64; 3] = [100, 200, 400];
const UNIT: &str = "blt-4 for b = 400";

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut mechanisms = Vec::new();
    for b in MADE_FOR {
        let rule = Participation { min_sep: b, max_participations: N / b };
        mechanisms.push(Mechanism::blt(work, N, 4, rule)?);
    }
    mechanisms.extend(Mechanism::band_mf(work, N, &MADE_FOR.map(|b| b as usize))?);
    let rule = |b: &u64| (*b, Participation { min_sep: *b, max_participations: N / b });
    let rules: Vec<_> = SEPARATIONS.iter().map(rule).collect();
    let sweep = Sweep::over_rules(work, &mechanisms, N, &rules)?;
    let relative = sweep.relative_to(UNIT);
    let x = || Axis::log("min-sep b");
    Ok(Found {
        setting: "BLTs with four buffers and BandMF, made for b = 100, 200 and 400 and k = n/b (the text names 400 alone, as \
                  the unit)."
            .into(),
        claims: claims(&relative, &sweep),
        tables: vec![relative.table("RmsLoss relative to BLT(b = 400)", "min-sep"), sweep.table("RmsLoss", "min-sep")],
        remarks: sweep.remark().into_iter().collect(),
        charts: vec![
            relative.chart("RmsLoss relative to BLT(b = 400), k = n/b", x(), Axis::log("relative RmsLoss")),
            sweep.chart("RmsLoss, n = 2000, k = n/b", x(), Axis::log("RmsLoss")),
        ],
    })
}

fn claims(relative: &Sweep, sweep: &Sweep) -> Vec<Claim> {
    let near = relative.at("band-mf-400", 400);
    let lost = |name: &str| sweep.at(name, 40) / sweep.at(name, 400);
    let band = lost("band-mf-400");
    let blt = lost(UNIT);
    vec![
        Claim::new(
            "BandMF is slightly ahead where b is its number of bands",
            format!("BandMF(400) has {near:.3} times the loss of BLT(b = 400) at b = 400"),
            (0.9..1.0).contains(&near),
        ),
        Claim::new(
            "BandMF loses more as b falls below its number of bands",
            format!("from b = 400 to 40 its loss grows {band:.2}-fold, the BLT's {blt:.2}-fold"),
            band > blt,
        ),
    ]
}
