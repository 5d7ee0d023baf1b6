//! Charts of one job: rows over time, and privacy over rows.

use plot::{Axis, Chart, Lines, Series, svg};
use tokio::time::Instant;

use crate::privacy_meter::{Cost, Watched};

/// As SVG elements; nothing where there is too little to draw.
pub fn charts(watched: &Watched, delta: f64, now: Instant) -> String {
    [rows(watched, now), privacy(watched, delta)]
        .into_iter()
        .flatten()
        .filter_map(|chart| svg(&[Chart::Lines(chart)]).ok())
        .collect()
}

fn rows(watched: &Watched, now: Instant) -> Option<Lines> {
    let points: Vec<_> =
        watched.history(now).map(|(ago, rows)| (-ago / 60.0, (rows as f64).into())).collect();
    (points.len() > 1).then(|| Lines {
        title: "Rows bound".into(),
        x: Axis::linear("minutes from now"),
        y: Axis::linear("rows"),
        series: vec![Series::new("bound", points)],
    })
}

/// The figures that were worked out while this coordinator ran, below the plan's.
fn privacy(watched: &Watched, delta: f64) -> Option<Lines> {
    let (spent, planned) = watched.costs()?;
    // Steps: until a figure is worked out for fewer rows, that of more rows holds for them.
    let step = |[(before, _), (rows, cost)]: &[(u64, Cost); 2]| {
        [(*before as f64, cost.epsilon.into()), (*rows as f64, cost.epsilon.into())]
    };
    let mut points = vec![(spent.first()?.0 as f64, spent.first()?.1.epsilon.into())];
    points.extend(spent.array_windows().flat_map(step));
    let first = spent.first()?.0 as f64;
    let level = |rows: f64| (rows, planned.epsilon.into());
    let limit = Series {
        dashed: true,
        ..Series::new("whole plan", vec![level(first), level(watched.iterations as f64)])
    };
    Some(Lines {
        title: format!("Privacy spent at δ = {delta:e}"),
        x: Axis::linear("rows"),
        y: Axis::linear("ε"),
        series: vec![Series::new("spent", points), limit],
    })
}
