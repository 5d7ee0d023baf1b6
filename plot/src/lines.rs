//! Line charts: each series a line with its points, and its spread as a band.

use crate::axis::Ruler;
use crate::paper::{BOTTOM, LEFT, Paper, RIGHT, TOP, colour, dashes};
use crate::{Lines, Series};

/// Most points that are marked on a line; more would only make it thick.
const MARKED: usize = 60;

/// The chart has been checked.
pub fn draw(chart: &Lines, paper: &mut Paper) {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x = Ruler::new(chart.x.scale, points().map(|point| point.0), LEFT, RIGHT);
    let heights = points().flat_map(|(_, y)| {
        let (low, high) = y.spread.unwrap_or((y.middle, y.middle));
        [y.middle, low, high]
    });
    let y = Ruler::new(chart.y.scale, heights, BOTTOM, TOP);
    paper.title(&chart.title);
    paper.horizontal(&x, &chart.x.label);
    paper.vertical(&y, &chart.y.label);
    for (index, series) in chart.series.iter().enumerate() {
        line(series, index, (&x, &y), paper);
        let dashes = dashes(index, series.dashed);
        paper.legend(index, chart.series.len(), &series.name, dashes);
    }
}

fn line(series: &Series, index: usize, (x, y): (&Ruler, &Ruler), paper: &mut Paper) {
    let spread = |pick: fn((f64, f64)) -> f64| {
        let edge = series.points.iter().filter_map(move |(at, value)| Some((*at, pick(value.spread?))));
        edge.map(|(at, edge)| (x.place(at), y.place(edge))).collect::<Vec<_>>()
    };
    let mut band = spread(|(low, _)| low);
    band.extend(spread(|(_, high)| high).into_iter().rev());
    if !band.is_empty() {
        paper.shade(&band, colour(index));
    }
    let middle = series.points.iter().map(|(at, value)| (x.place(*at), y.place(value.middle)));
    let middle: Vec<_> = middle.collect();
    paper.polyline(&middle, colour(index), dashes(index, series.dashed));
    if !series.dashed && middle.len() <= MARKED {
        middle.iter().for_each(|&at| paper.dot(at, colour(index)));
    }
}
