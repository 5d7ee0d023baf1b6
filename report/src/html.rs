//! The statement as one self-contained HTML page with charts.

use std::fmt::Write;

use crate::charts;
use crate::error::Result;
use crate::markdown::title;
use crate::question::Question;
use crate::sections::{Block, Section, sections};
use crate::statement::Statement;

const STYLE: &str = "body{font:16px/1.5 sans-serif;color:#222;max-width:60em;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em}h2{font-size:1.2em;border-bottom:1px solid #ccc;margin-top:2em}\
table{border-collapse:collapse;margin:1em 0}th,td{border:1px solid #ccc;padding:.3em .7em;text-align:left;\
overflow-wrap:anywhere}th{background:#f4f4f4;font-weight:600}code{background:#f4f4f4;padding:0 .2em}\
svg{max-width:100%;height:auto}@media print{body{margin:0;font-size:11pt}h2{break-after:avoid}}";

/// Returns the page; `statement` is the answer to `question`.
///
/// # Errors
/// [`ReportError`](crate::ReportError) where a chart can't be drawn or accounted for.
pub fn html(statement: &Statement, question: &Question) -> Result<String> {
    let mut page = begun(&title(statement));
    let mut sections = sections(statement).into_iter();
    sections.next().into_iter().for_each(|first| section_to(&mut page, first));
    push(&mut page, format_args!("<h2>Charts</h2>\n"));
    for chart in charts::all(question)? {
        let drawn = plot::svg(std::slice::from_ref(&chart))?;
        push(&mut page, format_args!("<figure>\n{drawn}</figure>\n"));
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
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        ),
    );
    page
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
    push(page, format_args!("<table>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody>\n</table>\n"));
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
