//! Charts drawn by `plotters`: the axes, lines with the spread as a band, bars with the spread as a line, and a legend
//! to the right.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::{LogCoord, WithKeyPoints};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::{Bars, Chart, Lines, PlotError, Scale, Value, check};

const WIDTH: u32 = 1010;
const HEIGHT: u32 = 440;
/// The strip to the right that holds the legend.
const LEGEND: u32 = 260;
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const FAINT: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const FONT: (&str, i32) = ("sans-serif", 16);
/// Most points that are marked on a line; more would only make it thick.
const MARKED: usize = 60;
/// Pixels that a letter of a category's name takes, and the most that such names may take.
const LETTER: u32 = 7;
const MOST_OF_NAMES: u32 = 200;

/// Told apart by people who see colours differently, and in print.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x55, 0x55, 0x55),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// A chart whose axes are drawn and whose lines are not.
type Axes<'a, 'b, X, Y> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<<X as AsRangedCoord>::CoordDescType, <Y as AsRangedCoord>::CoordDescType>,
>;

/// Returns the charts, one below the other, as one SVG document.
///
/// # Errors
///
/// Fails where there is nothing to draw, where a number is not finite, or not above 0 on a logarithmic axis, and where a
/// group has another number of bars than there are categories.
pub fn svg(charts: &[Chart]) -> Result<String, PlotError> {
    if charts.is_empty() {
        return Err(PlotError::Empty { title: "a page of charts".into() });
    }
    charts.iter().try_for_each(check::chart)?;
    let mut text = String::new();
    page(charts, &mut text).map_err(|error| PlotError::Drawing { why: error.to_string() })?;
    Ok(text)
}

fn page(charts: &[Chart], text: &mut String) -> Drawn<()> {
    let page = SVGBackend::with_string(text, (WIDTH, HEIGHT * charts.len() as u32)).into_drawing_area();
    page.fill(&WHITE)?;
    for (chart, area) in charts.iter().zip(page.split_evenly((charts.len(), 1))) {
        let (area, legend) = area.split_horizontally(WIDTH - LEGEND);
        match chart {
            Chart::Lines(chart) => {
                let points = || chart.series.iter().flat_map(|series| &series.points);
                let x = extent(chart.x.scale, points().map(|point| point.0));
                let y = extent(chart.y.scale, points().flat_map(|(_, y)| ends(y)));
                match (chart.x.scale, chart.y.scale) {
                    (Scale::Linear, Scale::Linear) => lines(chart, &area, x, y)?,
                    (Scale::Linear, Scale::Log) => lines(chart, &area, x, log(y))?,
                    (Scale::Log, Scale::Linear) => lines(chart, &area, log(x), y)?,
                    (Scale::Log, Scale::Log) => lines(chart, &area, log(x), log(y))?,
                }
                let named = chart.series.iter().map(|series| (&series.name, series.dashed));
                draw_legend(&legend, named.collect())?;
            }
            Chart::Bars(chart) => {
                let values = chart.groups.iter().flat_map(|group| group.bars.iter().flatten());
                let y = extent(chart.y.scale, values.flat_map(ends).chain(chart.level));
                match chart.y.scale {
                    Scale::Linear => bars(chart, &area, y.clone(), y)?,
                    Scale::Log => bars(chart, &area, y.clone(), log(y))?,
                }
                draw_legend(&legend, chart.groups.iter().map(|group| (&group.name, false)).collect())?;
            }
        }
    }
    page.present()?;
    Ok(())
}

/// All that an axis has to show of a value.
fn ends(value: &Value) -> [f64; 3] {
    let (low, high) = value.spread.unwrap_or((value.middle, value.middle));
    [value.middle, low, high]
}

/// The stretch of an axis that shows all of these values, with some room around them.
fn extent(scale: Scale, values: impl Iterator<Item = f64>) -> Range<f64> {
    let unit = |value: f64| if scale == Scale::Log { value.log10() } else { value };
    let (low, high) = values
        .map(unit)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), unit| (low.min(unit), high.max(unit)));
    let room = match (high - low, scale) {
        // One value alone stands in the middle.
        (0.0, Scale::Log) => 0.3,
        (0.0, Scale::Linear) => low.abs().max(1.0) / 2.0,
        (width, _) => width / 25.0,
    };
    match scale {
        Scale::Log => 10f64.powf(low - room)..10f64.powf(high + room),
        // Linear axes of values above 0 start at 0: a length is read against it.
        Scale::Linear => (if low >= 0.0 { 0.0 } else { low - room })..high + room,
    }
}

/// A logarithmic axis with round values along it: decades, 1, 2 and 5 of each where there are few, and evenly spaced
/// values where there is less than one.
fn log(axis: Range<f64>) -> WithKeyPoints<LogCoord<f64>> {
    let decades = (axis.end / axis.start).log10();
    let within: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / 10.0).ceil() as i32;
    let mut ticks: Vec<f64> = (axis.start.log10().floor() as i32..=axis.end.log10().ceil() as i32)
        .filter(|decade| decade % every == 0)
        .flat_map(|decade| within.iter().map(move |round| round * 10f64.powi(decade)))
        .filter(|tick| axis.contains(tick))
        .collect();
    if ticks.len() < 3 {
        ticks = RangedCoordf64::from(axis.clone()).key_points(6);
    }
    axis.log_scale().with_key_points(ticks)
}

/// The axes with their grid. `below`: pixels for what stands below the chart; `ticks`: whether x has any.
fn axes<'a, 'b, X, Y>(
    area: &'a Area<'b>,
    (title, x_label, y_label): (&str, &str, &str),
    (x, y): (X, Y),
    (below, ticks): (u32, usize),
) -> Drawn<Axes<'a, 'b, X, Y>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(printable(title), ("sans-serif", 20, &INK))
        .margin(12)
        .x_label_area_size(below)
        .y_label_area_size(78)
        .build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(printable(x_label)).y_desc(printable(y_label)).x_labels(ticks).y_labels(8);
    mesh.x_label_formatter(&|value| short(*value)).y_label_formatter(&|value| short(*value));
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style((FONT.0, FONT.1, &INK));
    mesh.draw()?;
    Ok(chart)
}

fn lines<'b, X, Y>(chart: &Lines, area: &Area<'b>, x: X, y: Y) -> Drawn<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let words = (chart.title.as_str(), chart.x.label.as_str(), chart.y.label.as_str());
    let mut context = axes(area, words, (x, y), (48, 8))?;
    for (index, series) in chart.series.iter().enumerate() {
        let colour = colour(index);
        let edge = |pick: fn((f64, f64)) -> f64| {
            series.points.iter().filter_map(move |(x, y)| Some((*x, pick(y.spread?)))).collect::<Vec<_>>()
        };
        let mut band = edge(|(low, _)| low);
        band.extend(edge(|(_, high)| high).into_iter().rev());
        if !band.is_empty() {
            context.draw_series([Polygon::new(band, colour.mix(0.18))])?;
        }
        let points = series.points.iter().map(|(x, y)| (*x, y.middle));
        let style = colour.stroke_width(2);
        match dashes(index, series.dashed) {
            None => context.draw_series(LineSeries::new(points.clone(), style))?,
            Some((dash, gap)) => {
                context.draw_series(DashedLineSeries::new(points.clone(), dash, gap, style))?
            }
        };
        if series.points.len() <= MARKED {
            context.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
        }
    }
    Ok(())
}

fn bars<'b, Y>(chart: &Bars, area: &Area<'b>, extent: Range<f64>, y: Y) -> Drawn<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let all = chart.categories.len() as f64;
    let longest = chart.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    let below = (longest * LETTER + 12).clamp(40, MOST_OF_NAMES);
    let words = (chart.title.as_str(), "", chart.y.label.as_str());
    let mut context = axes(area, words, (0.0..all, y), (below, 0))?;
    let floor = if chart.y.scale == Scale::Log { extent.start } else { extent.start.max(0.0) };
    let width = 0.8 / chart.groups.len() as f64;
    for (index, group) in chart.groups.iter().enumerate() {
        let placed = group.bars.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?)));
        for (place, value) in placed {
            let left = place as f64 + 0.1 + index as f64 * width;
            let corners = [(left, floor), (left + width, value.middle)];
            context.draw_series([Rectangle::new(corners, colour(index).filled())])?;
            if let Some((low, high)) = value.spread {
                let middle = left + width / 2.0;
                context.draw_series([PathElement::new([(middle, low), (middle, high)], INK)])?;
            }
        }
    }
    if let Some(level) = chart.level {
        context.draw_series(DashedLineSeries::new([(0.0, level), (all, level)], 6, 4, INK.into()))?;
    }
    let upright = TextStyle::from(FONT.into_font()).color(&INK).transform(FontTransform::Rotate270);
    let upright = upright.pos(Pos::new(HPos::Right, VPos::Center));
    for (place, name) in chart.categories.iter().enumerate() {
        let (x, y) = context.backend_coord(&(place as f64 + 0.5, extent.start));
        let (left, top) = area.get_base_pixel();
        area.draw_text(&printable(name), &upright, (x - left, y - top + 8))?;
    }
    Ok(())
}

/// The names of the series, each with a piece of its line.
fn draw_legend(area: &Area<'_>, names: Vec<(&String, bool)>) -> Drawn<()> {
    let step = ((HEIGHT - 120) / names.len().max(1) as u32).min(20) as i32;
    let style = TextStyle::from(FONT.into_font()).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (index, (name, dashed)) in names.into_iter().enumerate() {
        let y = 48 + step * index as i32;
        let line = [(4, y), (28, y)];
        let stroke = colour(index).stroke_width(2);
        match dashes(index, dashed) {
            None => area.draw(&PathElement::new(line, stroke))?,
            Some((dash, gap)) => area.draw(&DashedPathElement::new(line, dash, gap, stroke))?,
        }
        area.draw_text(&printable(name), &style, (34, y))?;
    }
    Ok(())
}

/// The colour of the `index`th series.
fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// The dash and the gap, in pixels, by which a series past the last colour is told from the first with the same one.
fn dashes(index: usize, dashed: bool) -> Option<(u32, u32)> {
    match (dashed, index / COLOURS.len()) {
        (true, _) => Some((6, 4)),
        (false, 0) => None,
        (false, 1) => Some((2, 3)),
        (false, _) => Some((9, 3)),
    }
}

/// Text without what XML can't hold at all.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() && !['\u{fffe}', '\u{ffff}'].contains(letter)).collect()
}

/// A value in few letters: 20, 0.05, 1.5k, 100M, 3e-7.
fn short(value: f64) -> String {
    let size = value.abs();
    let (divided, suffix) = match size {
        _ if size >= 1e15 || (size < 1e-4 && size > 0.0) => {
            // Three digits that count: a tick may be a rounding error away from the value it stands for.
            let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
            return format!("{rounded:e}");
        }
        _ if size >= 1e12 => (value / 1e12, "T"),
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{divided:.6}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_show_all_values_and_begin_at_zero_where_they_can() {
        assert_eq!(extent(Scale::Linear, [0.0, 25.0].into_iter()), 0.0..26.0);
        assert_eq!(extent(Scale::Linear, [-25.0, 0.0].into_iter()), -26.0..1.0);
        let decades = extent(Scale::Log, [1.0, 1e25].into_iter());
        assert!((decades.start - 0.1).abs() < 1e-9 && (decades.end / 1e26 - 1.0).abs() < 1e-9, "{decades:?}");
    }

    #[test]
    fn a_single_value_has_an_axis_too() {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = extent(scale, std::iter::once(5.0));
            assert!(axis.contains(&5.0) && axis.start < axis.end, "{scale:?}: {axis:?}");
        }
    }

    #[test]
    fn ticks_of_logarithmic_axes_are_round_and_within() {
        let ticks = |axis: Range<f64>| log(axis).bold_points().to_vec();
        assert_eq!(ticks(2e4..2e8), [1e5, 1e6, 1e7, 1e8]);
        assert_eq!(ticks(3.0..30.0), [5.0, 10.0, 20.0]);
        assert!(ticks(1e-100..1e100).len() <= 12);
        let narrow = ticks(1.2..1.9);
        assert!(narrow.len() > 3 && narrow.iter().all(|tick| (1.2..1.9).contains(tick)), "{narrow:?}");
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0, 0.05, 20.0, 1.5e3, 1e8, 3e-7, -2e9].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "0.05", "20", "1.5k", "100M", "3e-7", "-2G"]);
        assert_eq!(short(0.1 + 0.2), "0.3");
    }
}
