//! docs/metrics.md is what the definitions say.

use node::telemetry::metrics_page::section;

use super::{path, read};

const HEAD: &str = "# Metrics

Coordinator and workers serve `/metrics` in Prometheus' text format at `--metrics-listen`. This page is made from the
definitions in the code: `RUSTLE_WRITE_DOCS=1 cargo nextest run --release -p tests metrics_page` writes it, and the same
test fails where it is behind.

Labels are bounded: `method` is one of the service's own or `other`, `code` a gRPC code, `kind` the name of an error,
`training_job` one of at most 100 jobs, and its series end with the job; `data_set` is one that an operator recorded;
`severity` is `warning` or `critical`. Histograms have buckets at 1 and 3 of every decade from 0.1 ms to 300 s, so that they
add up over workers. While the ledger is a copy, or a worker's proof shows that it is an old one, ε and ρ of the jobs it concerns, and all
series of data sets, are absent.
";

#[test]
fn the_page_is_what_the_definitions_say() {
    let sections = [
        section("Both", node::telemetry::metric_definitions::DEFINITIONS),
        section("Coordinator", coordinator::DEFINITIONS),
        section("Jobs, by the coordinator", coordinator::JOB_DEFINITIONS),
        section("Data sets, by the coordinator", coordinator::DATA_SET_DEFINITIONS),
        section("Worker", noise_worker::DEFINITIONS),
    ];
    let page = format!("{HEAD}\n{}", sections.join("\n"));
    if std::env::var_os("RUSTLE_WRITE_DOCS").is_some() {
        std::fs::write(path("docs/metrics.md"), &page).unwrap();
    }
    assert_eq!(read("docs/metrics.md"), page, "RUSTLE_WRITE_DOCS=1 writes it anew");
}
