//! The page that lists all others.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::item::{Item, Source};
use super::page::command;

pub fn write(items: &[Item], folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("README.md");
    fs::write(&path, text(items)).with_context(|| format!("write {}", path.display()))
}

fn text(items: &[Item]) -> String {
    let mut text = format!(
        "# Reproductions\n\nFigures and tables of five papers, made again by Rustle's own optimisers and accounts, \
         each beside what was published. Pages and pictures are generated:\n\n```sh\n{}\n{}\n```\n\n\
         Pages without timings come out the same every time; those with timings name the processor. `--out DIR` \
         writes elsewhere, `--format json` prints all numbers whole.\n",
        command("all"),
        command("blt-table-3"),
    );
    for source in Source::ALL {
        let _ = write!(text, "\n## {}\n\n| item | what | timed |\n|---|---|---|\n", source.cited());
        for item in items.iter().filter(|item| item.source == source) {
            let Item { name, title, timed, .. } = item;
            let _ = writeln!(text, "| [{name}]({name}.md) | {title} | {} |", if *timed { "yes" } else { "" });
        }
    }
    text
}
