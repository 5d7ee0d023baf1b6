//! papers/004, Figure 1: ε of users of many records, by mixtures and by what one record's ε implies for groups.

use accounting::{Account, AccountingError, Neighbouring, amplified, summary, user_level};
use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "user-level-figure-1",
    source: Source::UserLevel,
    title: "Figure 1: ε of ELS by mixtures of Gaussians and by a black box",
    shows: "ε over G, the most records of one user, for several noise multipliers, T = 2000 rounds, p = 0.01 and δ = 1e-6: by \
            the mixture of Gaussians, whose growth is near linear, and by group privacy from the ε of one record, whose \
            growth is exponential and which ended in no answer at σ = 0.5 and 1 for larger G.",
    timed: false,
    make,
};

const ROUNDS: u64 = 2000;
const Q: f64 = 0.01;
const DELTA: f64 = 1e-6;
const SIGMAS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const GROUPS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// ε by dp-accounting 0.6.0 (grid 1e-4) at σ = 1.
const PEER: [(u64, f64); 3] = [(1, 2.955257998), (4, 14.53498083), (16, 90.90120793)];

struct Line {
    sigma: f64,
    /// By group, in order.
    mixture: Vec<f64>,
    /// `None` where no ε up to 10⁴ for one record will do.
    black_box: Vec<Option<f64>>,
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let lines: anyhow::Result<Vec<Line>> = SIGMAS.par_iter().map(|sigma| line(work, *sigma)).collect();
    let lines = lines?;
    Ok(Found {
        setting: "The T, p and δ named above. G and σ ∈ {2, 4} are ours; the text names 0.5 and 1 alone. The black box is \
                  δ_G = δ·(e^{Gε} − 1)/(e^ε − 1) at Gε, the best ε for each G, with δ(ε) of one record by the near-exact \
                  account."
            .into(),
        claims: claims(&lines),
        tables: vec![table("ε by mixtures", &lines, |line| line.mixture.iter().copied().map(Some).collect()),
            table("ε by the black box", &lines, |line| line.black_box.clone()),
            peer(&lines)],
        remarks: vec![
            "Published as curves without numbers; a peer's figures stand beside ours where there are some.".into(),
            "A dash stands where the black box has no answer: δ(ε) of one record does not fall as fast as e^{(G−1)ε} grows, \
             for any ε up to 10⁴. The text says so of σ = 0.5 and 1; here σ = 2 comes to it at G = 64."
                .into(),
            "Beyond a few records a user the mixture's ε grows faster than linearly too, by what composition in many rounds \
             costs: nothing beside the black box."
                .into(),
        ],
        charts: vec![chart(&lines)],
    })
}

fn line(work: &Work, sigma: f64) -> anyhow::Result<Line> {
    work.says(&format!("σ = {sigma}"));
    let one = amplified::profile(sigma, Q, ROUNDS, Neighbouring::ZeroOut)?;
    let mixture = GROUPS.iter().map(|group| {
        let event = user_level::round(sigma, Q, *group)?.times(ROUNDS);
        Account::of(&event, Neighbouring::ZeroOut)?.epsilon(DELTA)
    });
    let black_box = GROUPS.iter().map(|group| match summary::group_epsilon(&one, *group, DELTA) {
        Ok(epsilon) => Ok(Some(epsilon)),
        Err(AccountingError::OutOfReach { .. }) => Ok(None),
        Err(other) => Err(other),
    });
    Ok(Line {
        sigma,
        mixture: mixture.collect::<Result<_, _>>()?,
        black_box: black_box.collect::<Result<_, _>>()?,
    })
}

impl Line {
    /// ln ε over ln G, from one record to `group`.
    fn growth(&self, group: u64) -> f64 {
        (self.at(group).0 / self.mixture[0]).ln() / (group as f64).ln()
    }

    fn at(&self, group: u64) -> (f64, Option<f64>) {
        let place = GROUPS.iter().position(|other| *other == group);
        place.map_or((f64::NAN, None), |place| (self.mixture[place], self.black_box[place]))
    }
}

fn claims(lines: &[Line]) -> Vec<Claim> {
    let below = |line: &Line| {
        line.mixture.iter().zip(&line.black_box).all(|(m, b)| b.is_none_or(|b| *m <= b * (1.0 + 2e-3)))
    };
    let growths = |group: u64| {
        let of = |line: &Line| format!("{:.2} at σ = {}", line.growth(group), line.sigma);
        lines.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let near = lines.iter().all(|line| line.growth(8) < 1.25);
    let worst = lines.iter().find(|line| line.sigma == 2.0).map_or((f64::NAN, None), |line| line.at(64));
    vec![
        Claim::new(
            "by mixtures ε is near linear in G",
            format!("up to G = 8 as G to the power {}; up to 64 {}", growths(8), growths(64)),
            near,
        ),
        Claim::new(
            "by the black box it is far larger",
            match worst {
                (mixture, Some(black_box)) => {
                    format!("σ = 2, G = 64: {black_box:.0} instead of {mixture:.1}")
                }
                (mixture, None) => format!("σ = 2, G = 64: no answer instead of {mixture:.1}"),
            },
            lines.iter().all(below) && worst.1.is_none_or(|black_box| black_box > 3.0 * worst.0),
        ),
        Claim::new(
            "a peer's mixture accountant at σ = 1",
            "within 5e-5 of ours, and not above it by more than 1e-5".to_owned(),
            PEER.iter().all(|(group, peer)| {
                lines
                    .iter()
                    .filter(|line| line.sigma == 1.0)
                    .all(|line| (-1e-5..5e-5).contains(&(line.at(*group).0 / peer - 1.0)))
            }),
        ),
    ]
}

fn table(title: &str, lines: &[Line], pick: impl Fn(&Line) -> Vec<Option<f64>>) -> Table {
    let header =
        std::iter::once("G".to_owned()).chain(lines.iter().map(|line| format!("σ = {}", line.sigma)));
    let mut table = Table::new(title, header);
    let columns: Vec<_> = lines.iter().map(pick).collect();
    for (place, group) in GROUPS.iter().enumerate() {
        let cells = columns.iter().map(|column| Cell::maybe(column[place], 3));
        table.rows.push(std::iter::once(Cell::from(*group)).chain(cells).collect());
    }
    table
}

fn peer(lines: &[Line]) -> Table {
    let mut table = Table::new("Beside dp-accounting 0.6.0, σ = 1, grid 1e-4", ["G", "ε, peer's", "ε, ours"]);
    for (group, peer) in PEER {
        let ours = lines.iter().find(|line| line.sigma == 1.0).map(|line| line.at(group).0);
        table.rows.push(vec![group.into(), Cell::number(peer, 6), Cell::maybe(ours, 6)]);
    }
    table
}

fn chart(lines: &[Line]) -> Chart {
    let points = |values: &mut dyn Iterator<Item = Option<f64>>| {
        GROUPS.iter().zip(values).filter_map(|(g, value)| Some((*g as f64, value?.into()))).collect()
    };
    let series = lines.iter().flat_map(|line| {
        let mixture = points(&mut line.mixture.iter().copied().map(Some));
        let black_box = points(&mut line.black_box.iter().copied());
        let dashed = Series::new(format!("black box, σ = {}", line.sigma), black_box);
        [Series::new(format!("mixture, σ = {}", line.sigma), mixture), Series { dashed: true, ..dashed }]
    });
    let title = format!("ε of {ROUNDS} rounds of ELS, p = {Q}, δ = {DELTA:e}");
    let x = Axis::log("G, most records of one user");
    let y = Axis::log("ε");
    Chart::Lines(Lines { title, x, y, series: series.collect() })
}
