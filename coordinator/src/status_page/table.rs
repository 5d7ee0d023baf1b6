//! Tables, which become a list of cards on a narrow screen.

use super::left_out;

/// Lines that a table shows; `/status` has all.
const MAX_LINES: usize = 200;
/// The cell of what is not known, which a narrow screen leaves out.
const UNKNOWN: &str = "–";

/// Returns a table of lines of cells, which are HTML. Each cell repeats the name of its column, which a narrow screen shows
/// beside it.
pub fn table(head: &[&str], lines: impl ExactSizeIterator<Item = Vec<String>>) -> String {
    let all = lines.len();
    let names: String = head.iter().map(|name| format!("<th>{name}</th>")).collect();
    let line = |cells: Vec<String>| {
        let cell = |(cell, name): (&String, &&str)| {
            let class = if cell == UNKNOWN { " class=\"none\"" } else { "" };
            format!("<td data-name=\"{name}\"{class}><div>{cell}</div></td>")
        };
        let cells: String = cells.iter().zip(head).map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = lines.take(MAX_LINES).map(line).collect();
    let mut text = format!("<table><thead><tr>{names}</tr></thead>\n<tbody>\n{body}</tbody></table>\n");
    if all > MAX_LINES {
        text.push_str(&left_out(all - MAX_LINES, "lines"));
    }
    text
}
