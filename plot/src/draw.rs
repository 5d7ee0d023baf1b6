//! Charts drawn by `plotters`: the axes, lines with the spread as a band, bars with the spread as a line, and a legend
//! to the right or, where the page is narrow, below.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::{ends, extent, log, short};
use crate::{Bars, Chart, Lines, PlotError, Scale, check};

/// Pixels from side to side.
const WIDE: u32 = 1010;
/// The same for a phone, whose screen is some 390 wide: letters of 16 pixels become 11.
const NARROW: u32 = 520;
const HEIGHT: u32 = 440;
/// The strip to the right that holds the legend, and what a name takes where it stands below.
const LEGEND: u32 = 260;
const LEGEND_LINE: u32 = 24;
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const FAINT: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const FONT: (&str, i32) = ("sans-serif", 16);
/// Most points that are marked on a line; more would only make it thick.
const MARKED: usize = 60;
/// Pixels that a letter of a category's name takes, and the most that such names may take.
const LETTER: u32 = 7;
const MOST_OF_NAMES: u32 = 200;

/// Colours that remain distinct in print and for people with colour blindness.
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
    document(charts, WIDE)
}

/// Returns the same for a phone's screen: half as wide, with each legend below its chart.
///
/// # Errors
///
/// As [`svg`].
pub fn narrow_svg(charts: &[Chart]) -> Result<String, PlotError> {
    document(charts, NARROW)
}

fn document(charts: &[Chart], width: u32) -> Result<String, PlotError> {
    if charts.is_empty() {
        return Err(PlotError::Empty { title: "a page of charts".into() });
    }
    charts.iter().try_for_each(check::chart)?;
    let mut text = String::new();
    page(charts, width, &mut text).map_err(|error| PlotError::Drawing { why: error.to_string() })?;
    Ok(text)
}

fn page(charts: &[Chart], width: u32, text: &mut String) -> Drawn<()> {
    let is_narrow = width == NARROW;
    let below = |chart: &Chart| if is_narrow { LEGEND_LINE * series(chart) } else { 0 };
    let heights: Vec<u32> = charts.iter().map(|chart| HEIGHT + below(chart)).collect();
    let page = SVGBackend::with_string(text, (width, heights.iter().sum())).into_drawing_area();
    page.fill(&WHITE)?;
    let mut rest = page.clone();
    for (chart, height) in charts.iter().zip(heights) {
        let area;
        (area, rest) = rest.split_vertically(height);
        let (area, legend) =
            if is_narrow { area.split_vertically(HEIGHT) } else { area.split_horizontally(width - LEGEND) };
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
                draw_legend(&legend, is_narrow, named.collect())?;
            }
            Chart::Bars(chart) => {
                let values = chart.groups.iter().flat_map(|group| group.bars.iter().flatten());
                let y = extent(chart.y.scale, values.flat_map(ends).chain(chart.level));
                match chart.y.scale {
                    Scale::Linear => bars(chart, &area, y.clone(), y)?,
                    Scale::Log => bars(chart, &area, y.clone(), log(y))?,
                }
                let named = chart.groups.iter().map(|group| (&group.name, false));
                draw_legend(&legend, is_narrow, named.collect())?;
            }
        }
    }
    page.present()?;
    Ok(())
}

/// The number of names in the legend.
fn series(chart: &Chart) -> u32 {
    match chart {
        Chart::Lines(chart) => chart.series.len() as u32,
        Chart::Bars(chart) => chart.groups.len() as u32,
    }
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
fn draw_legend(area: &Area<'_>, is_below: bool, names: Vec<(&String, bool)>) -> Drawn<()> {
    // Beside a chart they start where the axes do, and lie closer if they are many.
    let beside = ((HEIGHT - 120) / names.len().max(1) as u32).min(20);
    let first = if is_below { 8 } else { 48 };
    let step = if is_below { LEGEND_LINE } else { beside } as i32;
    let style = TextStyle::from(FONT.into_font()).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (index, (name, dashed)) in names.into_iter().enumerate() {
        let y = first + step * index as i32;
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

/// The dash and the gap, in pixels, that distinguish a series beyond the last colour from the earlier one of the same colour.
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
