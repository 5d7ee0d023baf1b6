//! The statement as Markdown.

use std::fmt::Write;

use crate::sections::{Block, Section, sections};
use crate::statement::Statement;

/// Returns the statement as a Markdown page.
#[must_use]
pub fn markdown(statement: &Statement) -> String {
    page(&title(statement), sections(statement))
}

/// Returns a page of these sections.
pub(crate) fn page(title: &str, sections: Vec<Section>) -> String {
    let mut page = format!("# {title}\n");
    for section in sections {
        push(&mut page, format_args!("\n## {}\n", section.title));
        for block in section.blocks {
            match block {
                Block::Point { label, text } => push(&mut page, format_args!("\n**{label}.** {text}\n")),
                Block::Table { head, rows } => table(&mut page, &head, &rows),
            }
        }
    }
    page
}

/// Returns the title of the page.
pub(crate) fn title(statement: &Statement) -> String {
    match &statement.job {
        Some(job) => format!("Privacy of job {}", job.job),
        None => format!("Privacy of a run of {} rounds of {}", statement.iterations, statement.mechanism),
    }
}

fn table(page: &mut String, head: &[&'static str], rows: &[Vec<String>]) {
    push(page, format_args!("\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len())));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        push(page, format_args!("| {} |\n", cells.join(" | ")));
    }
}

fn push(page: &mut String, text: std::fmt::Arguments) {
    page.write_fmt(text).expect("a String can always be written to");
}
