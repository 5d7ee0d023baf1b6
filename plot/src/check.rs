//! What can be drawn: finite numbers, above 0 on a logarithmic axis, and at least one of them.

use crate::{Axis, Bars, Chart, Lines, Scale, Value};

/// Why a chart can't be drawn.
#[derive(Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the messages name the fields
pub enum PlotError {
    #[error("nothing to draw in \"{title}\"")]
    Empty { title: String },
    #[error("{value} in \"{series}\" of \"{title}\" can't be drawn; allowed: finite numbers")]
    NotFinite { title: String, series: String, value: f64 },
    #[error("{value} in \"{series}\" can't be drawn on the logarithmic axis \"{axis}\"; allowed: above 0")]
    NotPositive { axis: String, series: String, value: f64 },
    #[error("\"{group}\" of \"{title}\" has {got} bars; allowed: {expected}, one a category")]
    Bars { title: String, group: String, got: usize, expected: usize },
    #[error("the picture can't be drawn: {why}")]
    Drawing { why: String },
}

pub(crate) fn chart(chart: &Chart) -> Result<(), PlotError> {
    match chart {
        Chart::Lines(chart) => lines(chart),
        Chart::Bars(chart) => bars(chart),
    }
}

fn lines(chart: &Lines) -> Result<(), PlotError> {
    if chart.series.iter().all(|series| series.points.is_empty()) {
        return Err(PlotError::Empty { title: chart.title.clone() });
    }
    for series in &chart.series {
        for (x, y) in &series.points {
            number(&chart.title, &chart.x, &series.name, *x)?;
            value(&chart.title, &chart.y, &series.name, y)?;
        }
    }
    Ok(())
}

fn bars(chart: &Bars) -> Result<(), PlotError> {
    if chart.groups.iter().all(|group| group.bars.iter().all(Option::is_none)) {
        return Err(PlotError::Empty { title: chart.title.clone() });
    }
    for group in &chart.groups {
        let got = group.bars.len();
        let expected = chart.categories.len();
        if got != expected {
            let title = chart.title.clone();
            let group = group.name.clone();
            return Err(PlotError::Bars { title, group, got, expected });
        }
        group.bars.iter().flatten().try_for_each(|bar| value(&chart.title, &chart.y, &group.name, bar))?;
    }
    chart.level.map_or(Ok(()), |level| number(&chart.title, &chart.y, "the level", level))
}

fn value(title: &str, axis: &Axis, series: &str, value: &Value) -> Result<(), PlotError> {
    let spread = value.spread.map(|(low, high)| [low, high]);
    let mut numbers = std::iter::once(value.middle).chain(spread.into_iter().flatten());
    numbers.try_for_each(|value| number(title, axis, series, value))
}

fn number(title: &str, axis: &Axis, series: &str, value: f64) -> Result<(), PlotError> {
    let series = series.to_owned();
    if !value.is_finite() {
        return Err(PlotError::NotFinite { title: title.into(), series, value });
    }
    if axis.scale == Scale::Log && value <= 0.0 {
        return Err(PlotError::NotPositive { axis: axis.label.clone(), series, value });
    }
    Ok(())
}
