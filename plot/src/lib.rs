//! Line and bar charts as SVG text, for measurements and for what a plan's numbers look like.
//!
//! A [`Chart`] is plain data; [`svg`] checks all of it before it draws, and draws several charts one below the other.
//! The picture depends on the data alone. [`narrow_svg`] draws for a phone's screen.
//!
//! ```
//! use plot::{Axis, Chart, Series};
//!
//! let losses = Series::new("blt-4", vec![(10.0, 1.5.into()), (100.0, 2.5.into())]);
//! let chart = Chart::lines("Losses", Axis::log("rows"), Axis::linear("loss"), [losses]);
//! assert!(plot::svg(&[chart])?.starts_with("<svg"));
//! # Ok::<(), plot::PlotError>(())
//! ```
//!
//! # Layout
//!
//! * `check`: which charts can be drawn, and [`PlotError`].
//! * `draw`: the drawing, by the crate `plotters`.
#![deny(missing_docs)]

mod axis;
mod check;
mod draw;

pub use check::PlotError;
pub use draw::{narrow_svg, svg};

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; refuses values that are not above 0.
    Log,
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is shown, with its unit.
    pub label: String,
    /// How values lie along it.
    pub scale: Scale,
}

impl Axis {
    /// Returns an axis with a linear scale.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// Returns an axis with a logarithmic scale.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

/// A value, and the least and the greatest seen where it stands for several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The value that is drawn.
    pub middle: f64,
    /// The least and the greatest.
    pub spread: Option<(f64, f64)>,
}

impl From<f64> for Value {
    fn from(middle: f64) -> Self {
        Self { middle, spread: None }
    }
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// (x, y), in the order in which the line runs through them.
    pub points: Vec<(f64, Value)>,
    /// Set for a limit or another line that was not measured.
    pub dashed: bool,
}

impl Series {
    /// Returns a line that is not dashed.
    pub fn new(name: impl Into<String>, points: Vec<(f64, Value)>) -> Self {
        Self { name: name.into(), points, dashed: false }
    }
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The words above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// Bars of one colour, one for each category; `None` leaves a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The name in the legend.
    pub name: String,
    /// One bar for each category.
    pub bars: Vec<Option<Value>>,
}

/// A chart of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The words above the chart.
    pub title: String,
    /// The vertical axis.
    pub y: Axis,
    /// The names below the bars.
    pub categories: Vec<String>,
    /// The bars that stand side by side in each category.
    pub groups: Vec<Group>,
    /// A level to compare the bars with.
    pub level: Option<f64>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Lines over one axis.
    Lines(Lines),
    /// Bars by category.
    Bars(Bars),
}

impl Chart {
    /// Returns a chart of lines.
    pub fn lines(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        series: impl IntoIterator<Item = Series>,
    ) -> Self {
        Self::Lines(Lines { title: title.into(), x, y, series: series.into_iter().collect() })
    }

    /// Returns a chart of bars, from groups by name.
    pub fn bars<N: Into<String>>(
        title: impl Into<String>,
        y: Axis,
        categories: Vec<String>,
        groups: impl IntoIterator<Item = (N, Vec<Option<Value>>)>,
        level: Option<f64>,
    ) -> Self {
        let groups = groups.into_iter().map(|(name, bars)| Group { name: name.into(), bars }).collect();
        Self::Bars(Bars { title: title.into(), y, categories, groups, level })
    }
}
