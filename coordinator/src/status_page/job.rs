//! One job in detail.

use serde_json::Value;

use super::format::{cell, count, rate, rounded_up};
use super::{fact, number, overview, shards};

/// Returns a job's part of the page, from its object in `/status`.
pub fn section(status: &Value, is_open: bool) -> String {
    let name = cell(&status["job"]);
    let open = if is_open { " open" } else { "" };
    format!(
        "<section><details id=\"job-{name}\"{open}><summary><h2>Job {name}</h2></summary>\n<dl>{}</dl>\n{}{}</details></section>\n",
        facts(status).join(""),
        rewinds(status),
        shards::part(status),
    )
}

fn facts(status: &Value) -> Vec<String> {
    let rows = number(status, "next_row");
    let all = number(status, "iterations");
    let mut facts = vec![
        fact("next row", &format!("{} of {}{}", count(rows), count(all), overview::rows_gauge(status))),
        fact("ε spent, of the plan", &overview::epsilon(status)),
    ];
    facts.extend(rho(&status["privacy"]));
    facts.extend([
        fact("time left", &overview::left(status)),
        fact("rows a second", &rate(&status["rows_per_second"])),
        fact("bindings refused", &overview::refused(status)),
        fact("mechanism", &cell(&status["mechanism"])),
        fact("coordinates", &cell(&status["dimension"])),
        fact("branch", &cell(&status["branch"])),
        fact("newest checkpoint", &checkpoint(&status["newest_checkpoint"])),
    ]);
    facts
}

fn rho(privacy: &Value) -> Option<String> {
    let figure = |name: &str| privacy[name].as_f64().map_or("–".to_owned(), rounded_up);
    privacy["rho_planned"].as_f64()?;
    Some(fact("ρ spent, of the plan", &format!("{} of {}", figure("rho_spent"), figure("rho_planned"))))
}

fn rewinds(status: &Value) -> String {
    let rewinds = overview::rewinds(status);
    let opened = number(status, "branch");
    if rewinds.is_empty() {
        return String::new();
    }
    let words = |rewind: &Value| {
        format!("branch {} begins at row {}", cell(&rewind["branch"]), count(number(rewind, "from_row")))
    };
    let listed: Vec<_> = rewinds.iter().map(words).collect();
    let times = if opened == 1 { "Rewound once" } else { &format!("Rewound {} times", count(opened)) };
    format!("<p>{times}: {}. ε counts the rows that were released and left, too.</p>\n", listed.join(", "))
}

fn checkpoint(newest: &Value) -> String {
    newest["next_row"].as_u64().map_or("none".into(), |row| format!("before row {}", count(row)))
}
