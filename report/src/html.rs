//! The statement as one self-contained HTML page with charts.

use std::fmt::Write;

use crate::charts;
use crate::error::Result;
use crate::figures::Figures;
use crate::job::SweepCharge;
use crate::markdown::title;
use crate::question::Question;
use crate::sections::{Block, Section, number, power, sections, unit};
use crate::statement::Statement;

const STYLE: &str = include_str!("style.css");

/// Returns the page; `statement` is the answer to `question`.
///
/// # Errors
/// [`ReportError`](crate::ReportError) where a chart can't be drawn or accounted for.
pub fn html(statement: &Statement, question: &Question) -> Result<String> {
    let mut page = begun(&title(statement));
    page.push_str(&summary(statement));
    let mut sections = sections(statement).into_iter();
    sections.next().into_iter().for_each(|first| section_to(&mut page, first));
    push(&mut page, format_args!("<h2>Charts</h2>\n"));
    for chart in charts::all(question)? {
        let chart = std::slice::from_ref(&chart);
        push(&mut page, format_args!("<figure class=\"wide\">\n{}</figure>\n", plot::svg(chart)?));
        push(&mut page, format_args!("<figure class=\"narrow\">\n{}</figure>\n", plot::narrow_svg(chart)?));
    }
    sections.for_each(|section| section_to(&mut page, section));
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

/// Returns a page of these sections, without charts.
pub(crate) fn page(title: &str, sections: Vec<Section>) -> String {
    let mut page = begun(title);
    sections.into_iter().for_each(|section| section_to(&mut page, section));
    page.push_str("</body>\n</html>\n");
    page
}

/// Returns the beginning of a page, up to its title.
fn begun(title: &str) -> String {
    let title = escape(title);
    let mut page = String::new();
    push(
        &mut page,
        format_args!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        ),
    );
    page
}

/// Returns the box with the essence: ε of the plan and so far, of whom, of what, and when this was stated.
fn summary(statement: &Statement) -> String {
    let sweep = statement.job.as_ref().and_then(|job| job.sweep.as_ref());
    let not_selected =
        |sweep: &SweepCharge| ("not what is selected", format!("a run of sweep {}", sweep.sweep));
    let mut facts: Vec<_> = sweep.map(not_selected).into_iter().collect();
    facts.push(("ε of the whole plan", epsilon(&statement.figures, statement.exact)));
    if let Some(released) = &statement.released {
        let so_far = epsilon(&released.figures, statement.exact && released.sensitivity_exact);
        facts.push(("ε of what was released", so_far));
        facts.push(("rows", format!("{} of {} charged for", released.reached, statement.iterations)));
    }
    facts.push(("protected", format!("one {}, under {}", unit(statement.unit), statement.adjacency.name())));
    let noise = format!("{}, noise multiplier {}", statement.mechanism, number(statement.noise_multiplier));
    facts.push(("mechanism", noise));
    facts.extend(statement.job.iter().map(|job| ("job", format!("{}, {}", job.job, job.state))));
    let date = statement.date.as_ref().map_or(String::new(), |date| format!("{date}, "));
    facts.push(("stated", format!("{date}by rustle {}", statement.rustle_version)));
    let facts: String = facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escape(value)))
        .collect();
    format!("<dl class=\"summary\">\n{facts}</dl>\n")
}

/// Returns the first guarantee in few words. An estimate and an upper bound are called so.
fn epsilon(figures: &Figures, is_exact: bool) -> String {
    let Some(first) = figures.guarantees.first() else { return "not stated".to_owned() };
    let kind = match (first.delta_upper_bound, is_exact) {
        (Some(_), _) => ", an estimate",
        (None, false) => ", an upper bound",
        (None, true) => "",
    };
    format!("{} at δ = {}{kind}", number(first.epsilon), power(first.delta))
}

fn section_to(page: &mut String, section: Section) {
    push(page, format_args!("<h2>{}</h2>\n", escape(section.title)));
    for block in section.blocks {
        match block {
            Block::Point { label, text } => {
                push(page, format_args!("<p><strong>{}.</strong> {}</p>\n", escape(label), coded(&text)));
            }
            Block::Table { head, rows } => table(page, &head, &rows),
        }
    }
}

fn table(page: &mut String, head: &[&'static str], rows: &[Vec<String>]) {
    let row = |cells: Vec<String>, tag: &str| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = row(head.iter().map(ToString::to_string).collect(), "th");
    let body: String = rows.iter().map(|cells| row(cells.clone(), "td")).collect();
    push(
        page,
        format_args!(
            "<div class=\"table\"><table>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
        ),
    );
}

/// Escapes a text, and sets the parts between backticks as code.
fn coded(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let set = |(index, part): (usize, &str)| {
        if index % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(part) }
    };
    parts.map(set).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn push(page: &mut String, text: std::fmt::Arguments) {
    page.write_fmt(text).expect("a String can always be written to");
}
