//! One reproduction as a page of Markdown with its picture.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::item::{Found, Item, Table};
use crate::machine::Machine;

pub struct Page {
    pub item: Item,
    pub found: Found,
    pub machine: Machine,
}

impl Page {
    /// Writes `<item>.md`, and `<item>.svg` where there is a picture.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let name = self.item.name;
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let to = |extension: &str, text: String| {
            let path = folder.join(format!("{name}.{extension}"));
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        if !self.found.charts.is_empty() {
            to("svg", plot::svg(&self.found.charts)?)?;
        }
        to("md", self.markdown())
    }

    pub fn markdown(&self) -> String {
        let Item { name, source, title, shows, .. } = self.item;
        let mut text = format!(
            "# {title}\n\n{}\n\n```sh\n{}\n```\n\n**The paper.** {shows}\n\n**Here.** {}\n",
            source.cited(),
            command(name),
            self.found.setting
        );
        if self.item.timed {
            let Machine { processor, instruction_set, cores, .. } = &self.machine;
            let _ = write!(text, "\nTimed on {processor}, {instruction_set}, {cores} processors; ");
            text.push_str(
                "where a cell has three numbers, they are the median, the least and the greatest.\n",
            );
        }
        if !self.found.claims.is_empty() {
            text.push_str("\n| the paper says | here | |\n|---|---|---|\n");
        }
        for claim in &self.found.claims {
            let holds = if claim.holds { "holds" } else { "**differs**" };
            let _ = writeln!(text, "| {} | {} | {holds} |", claim.paper, claim.here);
        }
        for table in &self.found.tables {
            text.push_str(&markdown_table(table));
        }
        if !self.found.charts.is_empty() {
            let _ = write!(text, "\n![{title}]({name}.svg)\n");
        }
        if !self.found.remarks.is_empty() {
            text.push_str("\n## Where this differs, and why\n\n");
        }
        for remark in &self.found.remarks {
            let _ = writeln!(text, "* {remark}");
        }
        text
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Item { name, title, shows, .. } = self.item;
        json!({ "name": name, "title": title, "paper": shows, "command": command(name), "found": self.found })
            .serialize(serializer)
    }
}

pub fn command(name: &str) -> String {
    format!("cargo run --release -p bench -- reproduce {name}")
}

/// Names to the left, numbers to the right.
fn markdown_table(table: &Table) -> String {
    let rule = (0..table.header.len()).map(|column| if column == 0 { "---" } else { "---:" });
    let mut text = format!(
        "\n## {}\n\n| {} |\n|{}|\n",
        table.title,
        table.header.join(" | "),
        rule.collect::<Vec<_>>().join("|")
    );
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(super::item::Cell::shown).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
