//! Bar charts: groups side by side in each category, the spread as a line through the end of a bar.

use crate::Bars;
use crate::axis::Ruler;
use crate::paper::{Anchor, BOTTOM, LEFT, Paper, RIGHT, TOP, colour};

const INK: &str = "#333333";

/// The chart has been checked.
pub fn draw(chart: &Bars, paper: &mut Paper) {
    let values = chart.groups.iter().flat_map(|group| group.bars.iter().flatten());
    let heights = values.flat_map(|value| {
        let (low, high) = value.spread.unwrap_or((value.middle, value.middle));
        [value.middle, low, high]
    });
    let y = Ruler::new(chart.y.scale, heights.chain(chart.level), BOTTOM, TOP);
    paper.title(&chart.title);
    paper.vertical(&y, &chart.y.label);
    let category = (RIGHT - LEFT) / chart.categories.len() as f64;
    let bar = 0.8 * category / chart.groups.len() as f64;
    for (index, group) in chart.groups.iter().enumerate() {
        for (place, value) in group.bars.iter().enumerate() {
            let Some(value) = value else { continue };
            let left = LEFT + (place as f64 + 0.1) * category + index as f64 * bar;
            paper.bar((left, left + bar), (y.floor(), y.place(value.middle)), colour(index));
            if let Some((low, high)) = value.spread {
                let middle = left + bar / 2.0;
                paper.line((middle, y.place(low)), (middle, y.place(high)), INK, "none");
            }
        }
        paper.legend(index, chart.groups.len(), &group.name, "none");
    }
    for (place, name) in chart.categories.iter().enumerate() {
        let middle = LEFT + (place as f64 + 0.5) * category;
        paper.words((middle, BOTTOM + 14.0), Anchor::End, -35.0, name);
    }
    if let Some(level) = chart.level {
        paper.line((LEFT, y.place(level)), (RIGHT, y.place(level)), INK, "6 4");
    }
}
