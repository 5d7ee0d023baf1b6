//! The data sets' budgets: what is spent, reserved and left.

use serde_json::Value;

use super::Tone;
use super::format::{cell, rounded_up};
use super::gauge::Gauge;
use super::table::table;

/// The part of a budget from which on little is left.
const NEAR_ITS_END: f64 = 0.9;

/// Returns the table; nothing where no data set has a budget.
pub fn section(data_sets: &[Value]) -> String {
    if data_sets.is_empty() {
        return String::new();
    }
    let head = ["data set", "ε spent and reserved, of its budget", "left", "δ"];
    let lines = data_sets.iter().map(|data_set| {
        let value = |name: &str| data_set[name].as_f64().filter(|value| value.is_finite());
        let shown = |name: &str| value(name).map_or("–".to_owned(), rounded_up);
        // What is left is rounded down, by rounding what is not left up.
        let left = value("epsilon_left")
            .map_or("–".to_owned(), |left| format!("{:.2}", (left * 100.0).floor() / 100.0));
        let delta = data_set["delta"].as_f64().map_or("–".to_owned(), |delta| format!("{delta:e}"));
        let name = format!("{}{}", cell(&data_set["data_set"]), blocks(&data_set["blocks"]));
        vec![name, format!("{}{}", words(&shown), bar(&value)), left, delta]
    });
    format!("<section><h2>Budgets of data sets</h2>\n{}</section>\n", table(&head, lines))
}

/// Says how full the fullest block is, in percent, rounded up; nothing of a data set without blocks.
fn blocks(blocks: &Value) -> String {
    let Some(used) = blocks["used"].as_f64() else { return String::new() };
    let percent = (used * 100.0).ceil();
    let [count, used_up, fullest] = ["count", "used_up", "fullest"].map(|name| cell(&blocks[name]));
    let tone = if used >= NEAR_ITS_END { "warn" } else { "quiet" };
    format!(
        " <span class=\"{tone}\">{count} blocks, {used_up} used up; the fullest, {fullest}, at {percent} %</span>"
    )
}

fn words(shown: &impl Fn(&str) -> String) -> String {
    let [spent, reserved, budget] = ["epsilon_spent", "epsilon_reserved", "epsilon_budget"].map(shown);
    format!("{spent} spent, {reserved} reserved, of {budget}")
}

fn bar(value: &impl Fn(&str) -> Option<f64>) -> String {
    let (Some(spent), Some(budget)) =
        (value("epsilon_spent"), value("epsilon_budget").filter(|budget| *budget > 0.0))
    else {
        return String::new();
    };
    let left = value("epsilon_left").unwrap_or(0.0);
    let filled = spent / budget;
    // ε of a composition is no sum: what is neither spent nor left is reserved.
    let reserved = ((budget - left) / budget - filled).max(0.0);
    let tone = if filled >= NEAR_ITS_END { Tone::Warn } else { Tone::Quiet };
    let words = format!("ε {} of {}", rounded_up(spent), rounded_up(budget));
    Gauge { words: &words, filled, reserved, tone, marks: &[] }.svg()
}
