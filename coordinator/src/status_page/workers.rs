//! The workers on the page: those that are here, and those that are gone.

use serde_json::Value;

use super::format::cell;
use super::table;

/// Returns both tables.
pub fn section(workers: &[Value], absent: &[Value]) -> String {
    let mut text = "<section><h2>Workers</h2>\n".to_owned();
    let head = ["worker", "endpoint", "shards", "last heartbeat, ms ago"];
    text.push_str(&table(&head, workers, |worker| {
        ["worker", "endpoint", "shards", "last_heard_ms"].map(|name| cell(&worker[name])).into()
    }));
    if !absent.is_empty() {
        text.push_str("<h3>Not here</h3>\n");
        let head = ["last heard of", "why"];
        text.push_str(&table(&head, absent, |worker| {
            ["since", "reason"].map(|name| cell(&worker[name])).into()
        }));
    }
    text.push_str("</section>\n");
    text
}
