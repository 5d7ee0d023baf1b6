//! A real Prometheus on a real cluster, under load and with a worker killed: every query of every panel and of every
//! alert runs and gives data.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::dashboards::{DASHBOARDS, Query, queries};
use super::exposition::{check_exposition, defined};
use super::load::Load;
use super::prometheus::Prometheus;

/// Longest wait until the last query has data; generous for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(150);

/// Works until all of `waiting` give data.
fn work_until_data(load: &mut Load, prometheus: &Prometheus, mut waiting: Vec<Query>) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        load.work();
        waiting.retain(|query| !prometheus.has_data(&query.expression));
        if waiting.is_empty() {
            return;
        }
        let left: Vec<_> =
            waiting.iter().map(|query| format!("{}: {}", query.panel, query.expression)).collect();
        assert!(Instant::now() < deadline, "no data after {TIMEOUT:?}: {left:#?}");
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn work_until(load: &mut Load, what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !happened() {
        assert!(Instant::now() < deadline, "after {TIMEOUT:?} not yet: {what}");
        load.work();
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Names of our metrics and recording rules in an expression.
fn names(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    words.filter(|word| word.starts_with("rustle_") || word.starts_with("rustle:")).collect()
}

#[test]
fn every_query_of_panels_and_alerts_gives_data() {
    let mut load = Load::start();
    let (coordinator, workers) = load.addresses();
    let prometheus = Prometheus::start(&coordinator, &workers);
    let all = DASHBOARDS.into_iter().flat_map(|name| queries(name, &workers[0], "30s"));
    work_until_data(&mut load, &prometheus, all.collect());

    // What is scraped is what is defined, and all of it.
    let metrics = |base: &str| tests::get(base, "/metrics");
    let mut seen = check_exposition(&metrics(&coordinator));
    seen.extend(check_exposition(&metrics(&workers[0])));
    let missing: Vec<_> = defined().into_keys().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "defined and never seen: {missing:?}");

    // Every rule runs, and what it names is there: an alert on a name that was misspelt would be silent for ever.
    work_until(&mut load, "all rules have run", || {
        prometheus.rules().iter().all(|rule| rule["health"] == "ok")
    });
    for rule in prometheus.rules() {
        let query = rule["query"].as_str().unwrap();
        prometheus.query(query);
        for name in names(query) {
            // What other rules record comes an evaluation later.
            let what = format!("{}: {name} has data", rule["name"]);
            work_until(&mut load, &what, || prometheus.has_data(name));
        }
    }
    // A scrape later than its second makes the alert pending, and the next one ends it: that is what `for` is for.
    work_until(&mut load, "no worker is down", || prometheus.alert_state("RustleWorkerDown") == "inactive");
    // The conflict is repeated in every round; two scrapes must see the count grow before an evaluation.
    work_until(&mut load, "the conflict is shown", || {
        prometheus.alert_state("RustleBindingsConflict") == "firing"
    });

    let spent = prometheus.query("rustle_job_privacy_spent_epsilon");
    let planned = prometheus.query("rustle_job_privacy_planned_epsilon");
    assert_eq!(spent[0].labels["training_job"], "watched");
    assert!(0.0 < spent[0].value && spent[0].value < planned[0].value, "{spent:?} of {planned:?}");
    let bound = prometheus.query("rustle_job_rows_bound")[0].value;
    assert!(bound > 0.0 && bound <= load.rows_bound() as f64, "{bound}");

    load.cluster.cluster.kill_worker(1).unwrap();
    work_until(&mut load, "the lost worker is noticed", || {
        let value = |expression: &str| prometheus.query(expression).first().map(|sample| sample.value);
        value("sum(rustle_coordinator_workers_lost_total)") >= Some(1.0)
            && value("sum(rustle_coordinator_workers_alive)") == Some(1.0)
            && value("sum(rustle_coordinator_shards_unready)") == Some(0.0)
            && prometheus.alert_state("RustleWorkerDown") != "inactive"
    });
    work_until_data(&mut load, &prometheus, queries("overview", &workers[0], "30s"));
    work_until(&mut load, "all shards are served", || {
        prometheus.alert_state("RustleShardsNotServed") == "inactive"
    });

    // Without a worker there is no work. The alerts wait before they fire; that they would is what counts here.
    load.cluster.cluster.kill_worker(0).unwrap();
    let sees = |alert: &&str| prometheus.alert_state(alert) != "inactive";
    let deadline = Instant::now() + TIMEOUT;
    while !["RustleShardsNotServed", "RustleNoWorkers", "RustleCriticalProblem"].iter().all(sees) {
        assert!(Instant::now() < deadline, "after {TIMEOUT:?} the critical alerts see nothing");
        std::thread::sleep(Duration::from_millis(250));
    }
}
