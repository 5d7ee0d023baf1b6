//! Every metric of this crate, and the form in which other crates define theirs.
//!
//! Grammar: `rustle_<subsystem>_<what>[_<unit>][_total]`; `_total` on counters and on nothing else; a metric
//! that has a unit ends in it. Labels are bounded: never an id, an address or an error's text.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

/// Calls that ended. Labels: `method` (a known "/package.Service/Method", or "other"), `code` (a gRPC code in
/// snake case; "cancelled" also where the caller left before the end).
pub const RPC_REQUESTS: &str = "rustle_rpc_requests_total";
/// The time from the arrival of a call to the end of its last message. Labels: `method`, `code`, as above.
pub const RPC_DURATION: &str = "rustle_rpc_duration_seconds";
/// Calls that have begun and not ended. Labels: `method`, as above.
pub const RPC_IN_FLIGHT: &str = "rustle_rpc_in_flight_requests";
/// Always 1. Labels: `version`.
pub const BUILD_INFO: &str = "rustle_build_info";
/// Refreshed at each scrape. No labels.
pub const RESIDENT_MEMORY: &str = "rustle_process_resident_memory_bytes";
/// Connections closed before a call: over a cap, a failed handshake, another user. No labels.
pub const CONNECTIONS_REFUSED: &str = "rustle_connections_refused_total";
/// Calls refused before their handler. Labels: `reason` (unauthenticated, forbidden).
pub const CALLS_REFUSED: &str = "rustle_calls_refused_total";

/// The kind of a metric, as in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only rises.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// A distribution.
    Histogram,
}

/// The definition of one metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricDefinition {
    /// The metric's name, by the grammar above.
    pub name: &'static str,
    /// The metric's kind.
    pub kind: Kind,
    /// `Unit::Count` where the metric counts things.
    pub unit: Unit,
    /// One line of text, for the scrape and for docs/metrics.md.
    pub description: &'static str,
}

/// Every metric of this crate.
pub const DEFINITIONS: &[MetricDefinition] = &[
    MetricDefinition {
        name: RPC_REQUESTS,
        kind: Kind::Counter,
        unit: Unit::Count,
        description: "gRPC calls that ended, by method and code",
    },
    MetricDefinition {
        name: RPC_DURATION,
        kind: Kind::Histogram,
        unit: Unit::Seconds,
        description: "Time from the arrival of a gRPC call to the end of its response, by method and code",
    },
    MetricDefinition {
        name: RPC_IN_FLIGHT,
        kind: Kind::Gauge,
        unit: Unit::Count,
        description: "gRPC calls that have begun and not ended, by method",
    },
    MetricDefinition {
        name: BUILD_INFO,
        kind: Kind::Gauge,
        unit: Unit::Count,
        description: "Always 1; the label says which version runs",
    },
    MetricDefinition {
        name: RESIDENT_MEMORY,
        kind: Kind::Gauge,
        unit: Unit::Bytes,
        description: "Resident set size of this process",
    },
    MetricDefinition {
        name: CONNECTIONS_REFUSED,
        kind: Kind::Counter,
        unit: Unit::Count,
        description: "Connections closed before any call: over a cap, a failed handshake, another user",
    },
    MetricDefinition {
        name: CALLS_REFUSED,
        kind: Kind::Counter,
        unit: Unit::Count,
        description: "Calls refused for who made them, by reason",
    },
];

/// Describes this crate's metrics to the installed recorder.
pub fn describe_metrics() {
    describe(DEFINITIONS);
    // There from the start: a first refusal is then an increase.
    counter!(CONNECTIONS_REFUSED).increment(0);
    ["unauthenticated", "forbidden"]
        .into_iter()
        .for_each(|reason| counter!(CALLS_REFUSED, "reason" => reason).increment(0));
}

/// Describes another crate's metrics; call after the recorder is installed.
pub fn describe(definitions: &[MetricDefinition]) {
    for definition in definitions {
        let MetricDefinition { name, kind, unit, description } = *definition;
        match kind {
            Kind::Counter => describe_counter!(name, unit, description),
            Kind::Gauge => describe_gauge!(name, unit, description),
            Kind::Histogram => describe_histogram!(name, unit, description),
        }
    }
}

/// Returns how `definition` violates the naming grammar, if it does: for the tests of each crate that defines
/// metrics.
pub fn grammar_violation(definition: &MetricDefinition) -> Option<String> {
    let MetricDefinition { name, kind, unit, description } = *definition;
    let is_plain =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if !name.starts_with("rustle_") || !is_plain {
        return Some(format!("{name} must begin with rustle_ and hold only a-z, 0-9 and _"));
    }
    if (kind == Kind::Counter) != name.ends_with("_total") {
        return Some(format!("{name} is a {kind:?}: counters, and nothing else, end in _total"));
    }
    if unit != Unit::Count && !name.trim_end_matches("_total").ends_with(unit.as_str()) {
        return Some(format!("{name} must end in its unit, {}", unit.as_str()));
    }
    description.is_empty().then(|| format!("{name} has no description"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_metrics_follow_the_grammar() {
        let violations: Vec<_> = DEFINITIONS.iter().filter_map(grammar_violation).collect();
        assert!(violations.is_empty(), "{violations:?}");
    }

    #[test]
    fn the_grammar_catches_each_kind_of_slip() {
        let good = MetricDefinition {
            name: "rustle_x_seconds",
            kind: Kind::Histogram,
            unit: Unit::Seconds,
            description: "x",
        };
        assert_eq!(grammar_violation(&good), None);
        let slips = [
            MetricDefinition { name: "x_seconds", ..good },
            MetricDefinition { name: "rustle_X_seconds", ..good },
            MetricDefinition { name: "rustle_x_seconds_total", ..good },
            MetricDefinition { kind: Kind::Counter, ..good },
            MetricDefinition { unit: Unit::Bytes, ..good },
            MetricDefinition { description: "", ..good },
        ];
        for slip in slips {
            assert!(grammar_violation(&slip).is_some(), "{slip:?} passed");
        }
    }

    #[test]
    fn descriptions_reach_the_scrape() {
        let recorder = crate::telemetry::recorder::builder().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            describe_metrics();
            metrics::counter!(RPC_REQUESTS).increment(1);
        });
        let text = recorder.handle().render();
        assert!(text.contains("# HELP rustle_rpc_requests_total gRPC calls that ended"), "{text}");
    }
}
