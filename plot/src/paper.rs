//! The SVG document: shapes, text, and the frame that all charts share.

use std::fmt::Write;

use crate::axis::{Ruler, short};

pub const WIDTH: f64 = 960.0;
pub const HEIGHT: f64 = 440.0;
/// The area within the axes of one panel.
pub const LEFT: f64 = 90.0;
pub const RIGHT: f64 = WIDTH - 210.0;
pub const TOP: f64 = 46.0;
pub const BOTTOM: f64 = HEIGHT - 80.0;

const INK: &str = "#333333";
const FAINT: &str = "#dddddd";

/// Told apart by people who see colours differently, and in print.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#555555"];

/// The colour of the `index`th series.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// How a series past the last colour is told from the first with the same one.
pub fn dashes(index: usize, dashed: bool) -> &'static str {
    match (dashed, index / COLOURS.len()) {
        (true, _) => "6 4",
        (false, 0) => "none",
        (false, 1) => "2 3",
        (false, _) => "9 3 2 3",
    }
}

pub enum Anchor {
    Start,
    Middle,
    End,
}

pub struct Paper {
    text: String,
}

impl Paper {
    pub fn new(panels: usize) -> Self {
        let height = HEIGHT * panels as f64;
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"{INK}\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n<g>\n"
        );
        Self { text }
    }

    /// Everything from here on lies one panel further down.
    pub fn next_panel(&mut self) {
        self.push(format_args!("<g transform=\"translate(0 {HEIGHT})\">\n"));
    }

    pub fn finish(mut self) -> String {
        let open = self.text.matches("<g").count();
        self.text.push_str(&"</g>".repeat(open));
        self.text.push_str("\n</svg>\n");
        self.text
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, dashes: &str) {
        let (x1, y1) = from;
        let (x2, y2) = to;
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-dasharray=\"{dashes}\"/>\n"
        ));
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], colour: &str, dashes: &str) {
        let points = list(points);
        self.push(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/>\n"
        ));
    }

    /// A shape without an edge, through which what lies below is seen.
    pub fn shade(&mut self, points: &[(f64, f64)], colour: &str) {
        let points = list(points);
        self.push(format_args!("<polygon points=\"{points}\" fill=\"{colour}\" fill-opacity=\"0.18\"/>\n"));
    }

    pub fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        self.push(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n"));
    }

    /// A box between two heights, whichever is higher.
    pub fn bar(&mut self, (left, right): (f64, f64), (one, other): (f64, f64), colour: &str) {
        let y = one.min(other);
        let width = right - left;
        let height = (one - other).abs();
        self.push(format_args!(
            "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
        ));
    }

    /// `turn`: degrees, clockwise, about (x, y).
    pub fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, turn: f64, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escape(words);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             transform=\"rotate({turn} {x:.1} {y:.1})\">{words}</text>\n"
        ));
    }

    pub fn title(&mut self, words: &str) {
        let x = LEFT;
        let y = TOP - 20.0;
        let words = escape(words);
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\" font-size=\"16\">{words}</text>\n"));
    }

    /// The y axis with its grid, and the label of it.
    pub fn vertical(&mut self, ruler: &Ruler, label: &str) {
        for tick in ruler.ticks() {
            let y = ruler.place(tick);
            self.line((LEFT, y), (RIGHT, y), FAINT, "none");
            self.words((LEFT - 8.0, y + 4.0), Anchor::End, 0.0, &short(tick));
        }
        self.line((LEFT, TOP), (LEFT, BOTTOM), INK, "none");
        self.line((LEFT, BOTTOM), (RIGHT, BOTTOM), INK, "none");
        self.words((24.0, (TOP + BOTTOM) / 2.0), Anchor::Middle, -90.0, label);
    }

    /// The x axis with its grid, and the label of it.
    pub fn horizontal(&mut self, ruler: &Ruler, label: &str) {
        for tick in ruler.ticks() {
            let x = ruler.place(tick);
            self.line((x, TOP), (x, BOTTOM), FAINT, "none");
            self.words((x, BOTTOM + 18.0), Anchor::Middle, 0.0, &short(tick));
        }
        self.words(((LEFT + RIGHT) / 2.0, BOTTOM + 42.0), Anchor::Middle, 0.0, label);
    }

    /// The name of the `index`th of `count` series, right of the axes.
    pub fn legend(&mut self, index: usize, count: usize, name: &str, dashes: &str) {
        let step = ((BOTTOM - TOP) / count as f64).min(20.0);
        let y = TOP + 6.0 + step * index as f64;
        self.polyline(&[(RIGHT + 12.0, y), (RIGHT + 36.0, y)], colour(index), dashes);
        self.words((RIGHT + 42.0, y + 4.0), Anchor::Start, 0.0, name);
    }

    fn push(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a String has no way to fail.
        let _ = self.text.write_fmt(what);
    }
}

fn list(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Text as XML holds it. What XML can't hold at all, control characters, is left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}
