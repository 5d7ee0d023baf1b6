//! With its workers dead, a cluster says so wherever an operator looks: page, `/status`, `/readyz`, metrics, `job show` and
//! `job list`.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::process::Command;

use serde_json::Value;
use tests::{TestCluster, get, job, plans, program, start};

fn rustle(cluster: &TestCluster, words: &[&str]) -> Value {
    let mut command = Command::new(program());
    let output = command.args(words).args(["--format", "json", "--coordinator", &cluster.cluster.url()]);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a gauge as Prometheus scrapes it.
fn gauge(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_nobody_serves_is_shown_as_such() {
    let mut cluster = start(2);
    let name = job("watched");
    cluster.create(&name, &plans()[0], 4_096, 2).unwrap();
    cluster.wait_ready(&name);
    let at = cluster.cluster.coordinator().unwrap().metrics().to_owned();
    assert!(get(&at, "/").contains("all shards served"));
    assert!(!get(&at, "/readyz").contains("not served"));

    // One worker is left, and takes over.
    cluster.cluster.kill_worker(1).unwrap();
    let show = ["job", "show", "--job", "watched"];
    cluster.wait_until("the other worker serves both shards", || {
        let status: Value = serde_json::from_str(&get(&at, "/status")).unwrap();
        let shards = status["jobs"][0]["shards"].as_array().unwrap();
        status["workers"].as_array().unwrap().len() == 1
            && shards.iter().all(|shard| shard["owner"] == "worker-0" && shard["ready"] == true)
    });
    assert_eq!(rustle(&cluster, &show)["shards_ready"], 2);

    cluster.cluster.kill_worker(0).unwrap();
    cluster
        .wait_until("the job has no shard that is served", || rustle(&cluster, &show)["shards_ready"] == 0);
    assert_eq!(rustle(&cluster, &["job", "list"])["jobs"][0]["shards_ready"], 0);
    let page = get(&at, "/");
    assert!(page.contains("2 shards not served") && !page.contains("all shards served"), "{page}");
    assert!(page.contains("worker-0 is gone") && page.contains("no worker is registered"), "{page}");
    let status: Value = serde_json::from_str(&get(&at, "/status")).unwrap();
    for shard in status["jobs"][0]["shards"].as_array().unwrap() {
        assert_eq!(shard["ready"], false, "{shard}");
        assert!(shard["reason"].as_str().unwrap().contains("no worker is registered"), "{shard}");
    }
    // Workers must find a coordinator that has none, so it stays ready, and says what is missing.
    let ready = get(&at, "/readyz");
    assert!(ready.contains("2 of 2 shards are not served: worker-0 is gone"), "{ready}");
    // What the critical alerts compare with 0. Gauges follow within half a heartbeat.
    cluster.wait_until("metrics agree", || {
        let metrics = get(&at, "/metrics");
        gauge(&metrics, "rustle_coordinator_shards_unready") == 2.0
            && gauge(&metrics, "rustle_coordinator_shards") == 2.0
            && gauge(&metrics, "rustle_coordinator_workers_alive") == 0.0
    });

    cluster.cluster.start_worker(0).unwrap();
    cluster.wait_ready(&name);
    assert!(get(&at, "/").contains("all shards served"));
}
