//! Definitions as a table for people: docs/metrics.md is made of these.

use std::fmt::Write;

use metrics::Unit;

use crate::telemetry::metric_definitions::{Kind, MetricDefinition};

/// A Markdown section: heading, and one line a metric in the order of the definitions.
pub fn section(heading: &str, definitions: &[MetricDefinition]) -> String {
    let mut text = format!("## {heading}\n\n| metric | kind | unit | meaning |\n|---|---|---|---|\n");
    for MetricDefinition { name, kind, unit, description } in definitions {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let unit = if *unit == Unit::Count { "–" } else { unit.as_str() };
        // Writing to a String has no way to fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {description} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_every_metric() {
        let definitions = crate::telemetry::metric_definitions::DEFINITIONS;
        let text = section("Node", definitions);
        assert_eq!(text.lines().count(), definitions.len() + 4);
        assert!(text.contains("| `rustle_rpc_duration_seconds` | histogram | seconds |"), "{text}");
    }
}
