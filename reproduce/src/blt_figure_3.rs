//! papers/000, Figure 3: a fixed number of participations, and a min-sep that was not planned for.

use plot::Axis;
use strategy::Participation;

use super::blt_figure_2::WIDEST;
use super::item::{Claim, Found, Item, Source};
use super::sweep::{Mechanism, Sweep};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "blt-figure-3",
    source: Source::Blt,
    title: "Figure 3: RmsLoss at k = 3 as min-sep changes",
    shows: "n = 2000 and k = 3; BandMF and BLTs, each made for some min-sep, under others, relative to BLT(b = 400) and as \
            they are. BandMF is slightly ahead near its own number of bands, BLTs are ahead where b is far below n/k, \
            and at b = 999 BandMF is far behind: its columns all have one norm, while those that then matter most are \
            short in a Toeplitz matrix.",
    timed: false,
    make,
};

const N: u64 = 2000;
const K: u64 = 3;
const SEPARATIONS: [u64; 19] =
    [20, 30, 50, 70, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 666, 700, 800, 900, 999];
const MADE_FOR: [u64; 3] = [200, 400, 800];
const UNIT: &str = "blt-4 for b = 400";

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut mechanisms = Vec::new();
    for b in MADE_FOR {
        let rule = Participation { min_sep: b, max_participations: K };
        mechanisms.push(Mechanism::blt(work, N, 4, rule)?);
    }
    mechanisms.extend(Mechanism::band_mf(work, N, &[200, 400])?);
    mechanisms.push(Mechanism::band_normalised(work, N, 800)?);
    let rule = |b: &u64| (*b, Participation { min_sep: *b, max_participations: K });
    let rules: Vec<_> = SEPARATIONS.iter().map(rule).collect();
    let sweep = Sweep::over_rules(work, &mechanisms, N, &rules)?;
    let relative = sweep.relative_to(UNIT);
    let x = || Axis::log("min-sep b");
    Ok(Found {
        setting: "BLTs with four buffers and BandMF, made for b = 200, 400 and 800 (the text names 400 alone, as the unit)."
            .into(),
        claims: claims(&relative),
        tables: vec![relative.table("RmsLoss relative to BLT(b = 400)", "min-sep"), sweep.table("RmsLoss", "min-sep")],
        remarks: std::iter::once(WIDEST.to_owned()).chain(sweep.remark()).collect(),
        charts: vec![
            relative.chart("RmsLoss relative to BLT(b = 400), n = 2000, k = 3", x(), Axis::log("relative RmsLoss")),
            sweep.chart("RmsLoss, n = 2000, k = 3", x(), Axis::log("RmsLoss")),
        ],
    })
}

fn claims(relative: &Sweep) -> Vec<Claim> {
    let at = |b| relative.at("band-mf-400", b);
    let near = at(400);
    let far = at(50);
    let last = at(999);
    vec![
        Claim::new(
            "BandMF is slightly ahead where b is its number of bands",
            format!("BandMF(400) has {near:.3} times the loss of BLT(b = 400) at b = 400"),
            (0.9..1.0).contains(&near),
        ),
        Claim::new(
            "BLTs are ahead where b is far below n/k",
            format!("BandMF(400) has {far:.3} times the loss at b = 50"),
            far > 1.0,
        ),
        Claim::new(
            "at b = 999 BandMF is far behind",
            format!("BandMF(400) has {last:.3} times the loss, after {:.3} at b = 900", at(900)),
            last > 1.1,
        ),
    ]
}
