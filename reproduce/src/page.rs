//! Pages of Markdown: one for each reproduction, with its picture, and one that lists all.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::item::{Cell, Findings, Item, Source, Table, Words};
use crate::measure::Machine;

pub struct Page {
    pub name: &'static str,
    pub words: Words,
    pub found: Findings,
    pub machine: Machine,
}

impl Page {
    /// Writes `<item>.md`, and `<item>.svg` where there is a picture.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        if !self.found.charts.is_empty() {
            write(folder, &format!("{}.svg", self.name), &plot::svg(&self.found.charts)?)?;
        }
        write(folder, &format!("{}.md", self.name), &self.markdown())
    }

    pub fn markdown(&self) -> String {
        let Self { name, found, .. } = self;
        let Words { source, title, paper, timed, .. } = &self.words;
        let mut text = format!(
            "# {title}\n\n{}\n\n```sh\n{}\n```\n\n**The paper.** {paper}\n\n**Here.** {}\n",
            source.citation(),
            command(name),
            found.setting
        );
        if *timed {
            let Machine { processor, instruction_set, cores, .. } = &self.machine;
            let _ = write!(text, "\nTimed on {processor}, {instruction_set}, {cores} processors; ");
            text += "where a cell has three numbers, they are the median, the least and the greatest.\n";
        }
        if !found.claims.is_empty() {
            text += "\n| the paper says | here | |\n|---|---|---|\n";
        }
        for claim in &found.claims {
            let holds = if claim.holds { "holds" } else { "**differs**" };
            let _ = writeln!(text, "| {} | {} | {holds} |", claim.paper, claim.here);
        }
        text.extend(found.tables.iter().map(markdown_table));
        if !found.charts.is_empty() {
            let _ = write!(text, "\n![{title}]({name}.svg)\n");
        }
        if !found.remarks.is_empty() {
            text += "\n## Where this differs, and why\n\n";
        }
        text.extend(found.remarks.iter().map(|remark| format!("* {remark}\n")));
        text
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Words { title, paper, .. } = &self.words;
        let command = command(self.name);
        json!({ "name": self.name, "title": title, "paper": paper, "command": command, "found": self.found })
            .serialize(serializer)
    }
}

/// Writes the page that lists all others.
pub fn write_index(items: &[(Item, Words)], folder: &Path) -> anyhow::Result<()> {
    let mut text = format!(
        "# Reproductions\n\nFigures and tables of five papers, made again by Rustle's own optimisers and accounts, \
         each beside what was published. Pages and pictures are generated:\n\n```sh\n{}\n{}\n```\n\n\
         Pages without timings come out the same every time; those with timings name the processor. `--out DIR` \
         writes elsewhere, `--format json` prints all numbers whole.\n",
        command("all"),
        command("blt-table-3"),
    );
    for source in Source::ALL {
        let _ = write!(text, "\n## {}\n\n| item | what | timed |\n|---|---|---|\n", source.citation());
        for (Item { name, .. }, words) in items.iter().filter(|(_, words)| words.source == source) {
            let timed = if words.timed { "yes" } else { "" };
            let _ = writeln!(text, "| [{name}]({name}.md) | {} | {timed} |", words.title);
        }
    }
    write(folder, "README.md", &text)
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn command(name: &str) -> String {
    format!("cargo run --release -p reproduce -- {name}")
}

/// Names to the left, numbers to the right.
fn markdown_table(table: &Table) -> String {
    let rule = (0..table.header.len()).map(|column| if column == 0 { "---" } else { "---:" });
    let rule = rule.collect::<Vec<_>>().join("|");
    let mut text = format!("\n## {}\n\n| {} |\n|{rule}|\n", table.title, table.header.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(Cell::shown).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
