//! Bars that show a part of a whole, as SVG.

use std::fmt::Write;

use super::Tone;

/// A bar.
#[derive(Clone, Copy, Debug)]
pub struct Gauge<'a> {
    /// What it says, for those who do not see it; HTML already.
    pub words: &'a str,
    /// The part that is filled, and a further part after it that is filled faintly; of 1.
    pub filled: f64,
    pub reserved: f64,
    pub tone: Tone,
    /// Points to mark, of 1, each with its words.
    pub marks: &'a [(f64, String)],
}

impl Gauge<'_> {
    /// Returns the bar. What is above the whole fills it.
    pub fn svg(&self) -> String {
        let percent = |part: f64| 100.0 * part.clamp(0.0, 1.0);
        let filled = percent(self.filled);
        let reserved = percent(self.filled + self.reserved);
        let mut text = format!(
            "<svg class=\"gauge {}\" role=\"img\" aria-label=\"{}\"><rect class=\"track\" width=\"100%\" height=\"100%\" rx=\"4\"/>",
            self.tone.class(),
            self.words
        );
        // Writing to a String can't fail.
        if reserved > filled {
            let _ =
                write!(text, "<rect class=\"reserved\" width=\"{reserved:.2}%\" height=\"100%\" rx=\"4\"/>");
        }
        let _ = write!(text, "<rect class=\"filled\" width=\"{filled:.2}%\" height=\"100%\" rx=\"4\"/>");
        for (at, words) in self.marks {
            let at = percent(*at);
            let _ = write!(
                text,
                "<line class=\"mark\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\"><title>{words}</title></line>"
            );
        }
        text.push_str("</svg>");
        text
    }
}

/// Returns parts side by side, each green if it is well and red if not.
pub fn strip(words: &str, are_well: &[bool]) -> String {
    let width = 100.0 / are_well.len().max(1) as f64;
    let part = |(index, is_well): (usize, &bool)| {
        let tone = if *is_well { Tone::Good } else { Tone::Bad };
        let at = width * index as f64;
        let width = width * 0.88;
        format!(
            "<rect class=\"{}\" x=\"{at:.3}%\" width=\"{width:.3}%\" height=\"100%\" rx=\"1.5\"/>",
            tone.class()
        )
    };
    let parts: String = are_well.iter().enumerate().map(part).collect();
    format!("<svg class=\"strip\" role=\"img\" aria-label=\"{words}\">{parts}</svg>\n")
}
