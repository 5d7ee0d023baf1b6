//! What a process exposes against what the code defines: names, kinds, labels.

use std::collections::{BTreeMap, BTreeSet};

use node::telemetry::metric_definitions::{Kind, MetricDefinition};

/// Labels that any metric of ours may have: each has few values, whatever callers do.
const LABELS: [&str; 11] =
    ["method", "code", "kind", "reason", "version", "le", "how", "state", "delta", "data_set", "severity"];
/// Bounded by their number: [`coordinator`] watches 100 at most.
const JOB_LABEL: &str = "training_job";

pub fn defined() -> BTreeMap<&'static str, Kind> {
    let all = [
        node::telemetry::metric_definitions::DEFINITIONS,
        coordinator::DEFINITIONS,
        coordinator::JOB_DEFINITIONS,
        coordinator::DATA_SET_DEFINITIONS,
        noise_worker::DEFINITIONS,
    ];
    all.into_iter().flatten().map(|MetricDefinition { name, kind, .. }| (*name, *kind)).collect()
}

/// Panics at anything that is not defined; gives the names seen.
pub fn check_exposition(text: &str) -> BTreeSet<String> {
    let defined = defined();
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            let expected = match defined.get(name) {
                Some(Kind::Counter) => "counter",
                Some(Kind::Gauge) => "gauge",
                Some(Kind::Histogram) => "histogram",
                None => panic!("{name} is not defined"),
            };
            assert_eq!(kind, expected, "{name}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            check_labels(name, line);
            let parts = ["_bucket", "_sum", "_count"];
            let whole = parts.iter().find_map(|part| name.strip_suffix(part));
            let name = whole.filter(|name| defined.get(name) == Some(&Kind::Histogram)).unwrap_or(name);
            assert!(defined.contains_key(name), "{name} is not defined");
            seen.insert(name.to_owned());
        }
    }
    seen
}

/// Label values of ours hold neither commas nor equals signs.
fn check_labels(name: &str, line: &str) {
    let Some((_, labels)) = line.split_once('{') else { return };
    let labels = labels.split_once('}').unwrap().0;
    for (label, _) in labels.split(',').filter_map(|label| label.split_once('=')) {
        let is_known = LABELS.contains(&label) || (label == JOB_LABEL && name.starts_with("rustle_job_"));
        assert!(is_known, "{name} has the label {label}");
    }
}
