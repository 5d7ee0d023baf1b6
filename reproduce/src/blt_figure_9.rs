//! papers/000, Figure 9: ρ of production mechanisms as rounds go on.

use plot::Axis;

use super::blt_figure_8::{BANDS, BANDS_REMARK, MADE_FOR, TREE, bands, tree};
use super::extrapolated::{Panel, Point, Runner};
use super::item::{Claim, Found, Item, Source};
use super::production::{B400_NOISE, B1000_NOISE, Production, REPORT_GOAL};
use super::work::{Work, normalised};

pub const ITEM: Item = Item {
    name: "blt-figure-9",
    source: Source::Blt,
    title: "Figure 9: ρ as the rounds change",
    shows: "Three panels, min-sep 100, 400 and 1000: ρ of TreeAgg, BandMF (up to the 2000 rounds it is made for) and BLTs as \
            used in production over the number of rounds, with as many participations as fit, at a report goal of 6500. \
            BLTs cost less than trees.",
    timed: false,
    make,
};

const ROUNDS: [u64; 18] =
    [50, 100, 200, 300, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000, 2400, 2800, 3200, 3600, 4000];
const WIDE: &str = "band-toeplitz-1000, normalised";

/// The panels: min-sep, the BLT that was made for it, and σ at the report goal of 6500.
const BLTS: [(u64, Production, f64); 3] = [
    (100, Production::B100, 3.12 * REPORT_GOAL as f64 / 3000.0),
    (400, Production::B400, B400_NOISE),
    (1000, Production::B1000, B1000_NOISE),
];

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut panels = Vec::new();
    for (min_sep, of, noise) in BLTS {
        let mut runners = vec![tree()];
        match min_sep {
            400 => runners.push(bands(work)?),
            1000 => runners.push(Runner {
                name: WIDE.into(),
                strategy: normalised(work, MADE_FOR, min_sep)?,
                noise: 4.523,
                rounds: MADE_FOR,
            }),
            _ => {}
        }
        runners.push(blt(min_sep, of, noise)?);
        work.says(&format!("min-sep {min_sep}"));
        panels.push(panel(min_sep, &runners)?);
    }
    Ok(Found {
        setting: "σ at a report goal of 6500: 7 (tree), 7.379 and 8.681 (BLTs of App. A for 400 and 1000), 2.981 and 4.523 \
                  (BandMF of 400 and 1000 bands, columns of norm one). The BLT for 100 ran with 3.12 at a report goal of \
                  3000, which is 6.76 at 6500. k = ⌈n/b⌉."
            .into(),
        claims: claims(&panels),
        tables: panels.iter().map(Panel::table).collect(),
        remarks: vec![
            "Published as curves without numbers, so only what is said of them is compared.".into(),
            BANDS_REMARK.into(),
            "General bands with 1000 diagonals are too many numbers to search; the optimal Toeplitz column with every \
             column of C scaled to norm one stands for them. Columns of norm one that don't overlap cost the same, \
             whatever is in them."
                .into(),
            "Below 2000 rounds BandMF of 400 bands runs with the leading block of its matrix, whose last columns are cut \
             and shorter; the stand-in for 1000 bands is normalised anew for each number of rounds."
                .into(),
        ],
        charts: panels.iter().map(Panel::chart).collect(),
    })
}

fn blt_name(min_sep: u64) -> String {
    format!("blt-4 for b = {min_sep}")
}

fn blt(min_sep: u64, of: Production, noise: f64) -> anyhow::Result<Runner> {
    Ok(Runner { name: blt_name(min_sep), strategy: of.strategy()?, noise, rounds: u64::MAX })
}

fn panel(min_sep: u64, runners: &[Runner]) -> anyhow::Result<Panel> {
    let title = format!("Min-sep {min_sep}");
    // One line a runner: the rounds are the axis.
    Panel::over(title, Axis::linear("rounds n"), &ROUNDS, (runners, &[0]), |n, _| Point::at(n, min_sep))
}

fn claims(panels: &[Panel]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = BLTS.iter().zip(panels).map(|((b, ..), panel)| ahead(*b, panel)).collect();
    let beyond = panels[1].at(BANDS, 2400).is_nan() && panels[1].at(&blt_name(400), 4000).is_finite();
    claims.push(Claim::new(
        "BandMF ends at the rounds it is made for; BLTs and trees go on",
        format!("BandMF up to {MADE_FOR} rounds, the others up to 4000"),
        beyond,
    ));
    claims
}

fn ahead(min_sep: u64, panel: &Panel) -> Claim {
    let (below, all) = panel.places_below(&blt_name(min_sep), TREE);
    let ratio = panel.at(TREE, 2000) / panel.at(&blt_name(min_sep), 2000);
    Claim::new(
        format!("the BLT costs less than the tree at min-sep {min_sep}"),
        format!("in {below} of {all} places; at 2000 rounds the tree's ρ is {ratio:.2} times as large"),
        below == all,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blts_cost_less_than_trees_however_many_rounds() {
        for (min_sep, of, noise) in BLTS {
            let panel = panel(min_sep, &[tree(), blt(min_sep, of, noise).unwrap()]).unwrap();
            let claim = ahead(min_sep, &panel);
            assert!(claim.holds, "{}: {}", claim.paper, claim.here);
        }
    }
}
