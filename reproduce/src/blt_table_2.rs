//! papers/000, Table 2: time to the coefficients of C⁻¹.

use std::hint::black_box;
use std::time::Instant;

use plot::{Axis, Chart, Lines, Series};
use strategy::{Blt, Participation, series};

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::Work;
use crate::stats::Spread;

pub const ITEM: Item = Item {
    name: "blt-table-2",
    source: Source::Blt,
    title: "Table 2: time to n Toeplitz coefficients of a BLT's inverse",
    shows: "Two ways to the first column of C⁻¹ on a V100 GPU: solving a triangular Toeplitz system, and writing the \
            column down from the parameters of the inverse BLT (Alg. 5). The second is 550 to 105,000 times as fast.",
    timed: true,
    make,
};

/// n, seconds by the triangular system, seconds by Alg. 5.
const PUBLISHED: [(usize, f64, f64); 3] =
    [(2000, 0.021, 3.8e-5), (20_000, 0.258, 3.6e-5), (200_000, 4.772, 4.5e-5)];

/// App. A, min-sep 400.
const THETA: [f64; 4] = [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778];
const OMEGA: [f64; 4] = [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734];

struct Row {
    n: usize,
    system: Spread,
    inverse: Spread,
    impulse: Spread,
    loss: Spread,
    /// Largest difference between the coefficients of the ways.
    apart: f64,
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let blt = Blt::new(THETA.to_vec(), OMEGA.to_vec())?;
    let mut rows = Vec::new();
    for (n, ..) in PUBLISHED {
        work.says(&format!("n = {n}"));
        rows.push(row(&blt, n)?);
    }
    let mut table = Table::new(
        "Seconds to n coefficients",
        [
            "n",
            "system, published",
            "system, ours",
            "Alg. 5, published",
            "Alg. 5, ours",
            "impulse through Alg. 3, ours",
            "whole loss in closed form, ours",
            "largest difference",
        ],
    );
    for (row, (_, system, inverse)) in rows.iter().zip(PUBLISHED) {
        table.rows.push(vec![
            Cell::from(row.n as u64),
            Cell::Once(system),
            Cell::Time(row.system),
            Cell::Once(inverse),
            Cell::Time(row.inverse),
            Cell::Time(row.impulse),
            Cell::Time(row.loss),
            Cell::from(format!("{:.0e}", row.apart)),
        ]);
    }
    Ok(Found {
        setting: "One thread of a processor, f64, the BLT of App. A for min-sep 400 (4 buffers; the paper does not say \
                  which it timed). Two ways more: an impulse run through the streaming product, and RmsLoss with its \
                  sensitivity from closed forms, which is what our optimiser evaluates: it needs no coefficients."
            .into(),
        claims: claims(&rows),
        tables: vec![table],
        remarks: vec![
            "A processor and a GPU: absolute times compare machines as much as methods. On one thread the time of \
             Alg. 5 grows with n; on a GPU it did not, up to 200,000."
                .into(),
            "The triangular system takes n² steps here too, so the ratio of the two ways grows with n as published."
                .into(),
        ],
        charts: vec![chart(&rows)],
    })
}

fn row(blt: &Blt, n: usize) -> anyhow::Result<Row> {
    let by_system = || series::invert(&blt.coefficients(n), n);
    let by_inverse = || {
        let (theta, omega) = blt.inverse();
        series::blt_coefficients(&theta, &omega, n)
    };
    let by_impulse = || blt.inverse_coefficients(n);
    let rule = Participation::new(400, (n as u64).div_ceil(400))?;
    let by_closed_form = || -> strategy::Result<f64> {
        Ok(blt.errors(n as u64)?.rms * blt.sensitivity(n as u64, rule)?.value)
    };
    let start = Instant::now();
    let system = by_system()?;
    let first = start.elapsed().as_secs_f64();
    let apart =
        [by_inverse(), by_impulse()].iter().map(|other| difference(&system, other)).fold(0.0, f64::max);
    // The longest takes a minute or more: once is enough.
    let once = Spread { median: first, min: first, max: first, repeats: 1 };
    Ok(Row {
        n,
        system: if n > 100_000 { once } else { timed(5, by_system) },
        inverse: timed(101, by_inverse),
        impulse: timed(101, by_impulse),
        loss: timed(101, by_closed_form),
        apart,
    })
}

fn difference(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

fn timed<T>(repeats: usize, work: impl Fn() -> T) -> Spread {
    let times: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed().as_secs_f64()
        })
        .collect();
    let nothing = Spread { median: f64::NAN, min: f64::NAN, max: f64::NAN, repeats: 0 };
    Spread::of(&times).unwrap_or(nothing)
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let ratio = |row: &Row| row.system.median / row.inverse.median;
    let shown: Vec<String> = rows.iter().map(|row| format!("{:.0}", ratio(row))).collect();
    let grows = rows.windows(2).all(|pair| ratio(&pair[0]) < ratio(&pair[1]));
    let agree = rows.iter().all(|row| row.apart < 1e-9);
    let fast = rows.iter().all(|row| row.loss.median < 3.6e-5);
    vec![
        Claim::new(
            "Alg. 5 is 550, 7176 and 104884 times as fast as the system, more so for larger n",
            format!("{} times", shown.join(", ")),
            grows && rows.iter().all(|row| ratio(row) > 10.0),
        ),
        Claim::new("both ways give the same column", format!("within 1e-9: {agree}"), agree),
        Claim::new(
            "the inner loop of optimisation costs 36 to 45 µs of GPU time whatever n is",
            format!(
                "a whole loss costs {}",
                rows.iter().map(|row| Cell::Time(row.loss).shown()).collect::<Vec<_>>().join(", ")
            ),
            fast,
        ),
    ]
}

fn chart(rows: &[Row]) -> Chart {
    let series = |name: &str, of: fn(&Row) -> Spread| {
        Series::new(name, rows.iter().map(|row| (row.n as f64, of(row).drawn(1.0))).collect())
    };
    let published = |name: &str, of: fn(&(usize, f64, f64)) -> f64| Series {
        name: name.into(),
        points: PUBLISHED.iter().map(|row| (row.0 as f64, of(row).into())).collect(),
        dashed: true,
    };
    Chart::Lines(Lines {
        title: "Time to n coefficients of C⁻¹".into(),
        x: Axis::log("rows n"),
        y: Axis::log("seconds"),
        series: vec![
            series("system", |row| row.system),
            series("Alg. 5", |row| row.inverse),
            series("impulse", |row| row.impulse),
            series("loss, closed form", |row| row.loss),
            published("system, published", |row| row.1),
            published("Alg. 5, published", |row| row.2),
        ],
    })
}
