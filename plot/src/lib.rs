//! Line and bar charts as SVG text, for measurements and for what a plan's numbers look like.
//!
//! A [`Chart`] is plain data; [`svg`] checks all of it before it draws, and draws several charts one below
//! the other. The picture depends on the data alone.

mod axis;
mod bars;
mod check;
mod lines;
mod paper;

pub use check::PlotError;

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    #[default]
    Linear,
    /// Decades; refuses values that are not above 0.
    Log,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is shown, with its unit.
    pub label: String,
    pub scale: Scale,
}

impl Axis {
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

/// A value, and the least and the greatest seen where it stands for several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    pub middle: f64,
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
    pub name: String,
    /// (x, y), in the order in which the line runs through them.
    pub points: Vec<(f64, Value)>,
    /// For a limit or another line that was not measured.
    pub dashed: bool,
}

impl Series {
    pub fn new(name: impl Into<String>, points: Vec<(f64, Value)>) -> Self {
        Self { name: name.into(), points, dashed: false }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// Bars of one colour, one for each category; `None` leaves a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub bars: Vec<Option<Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub title: String,
    pub y: Axis,
    pub categories: Vec<String>,
    pub groups: Vec<Group>,
    /// A level to hold the bars against.
    pub level: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    Lines(Lines),
    Bars(Bars),
}

/// The charts, one below the other, as one SVG document.
/// Errors: nothing to draw; a number that is not finite, or not above 0 on a logarithmic axis; a group with
/// another number of bars than there are categories.
pub fn svg(charts: &[Chart]) -> Result<String, PlotError> {
    if charts.is_empty() {
        return Err(PlotError::Empty { title: "a page of charts".into() });
    }
    charts.iter().try_for_each(check::chart)?;
    let mut paper = paper::Paper::new(charts.len());
    for chart in charts {
        match chart {
            Chart::Lines(lines) => lines::draw(lines, &mut paper),
            Chart::Bars(bars) => bars::draw(bars, &mut paper),
        }
        paper.next_panel();
    }
    Ok(paper.finish())
}
