//! With its workers dead, a cluster says so wherever an operator looks: page, `/status`, `/readyz`, metrics, `rustle status`,
//! `job show` and `job list`.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::{TestCluster, flags, get, job, plans, program, start_with};

/// Longest wait for what must happen; generous for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A lease that a worker renews in time on a busy machine too: none but the killed ones may be gone.
const PATIENT: [&str; 6] = ["--heartbeat", "50ms", "--lease-ttl", "5s", "--checkpoint-interval", "0s"];

fn rustle(cluster: &TestCluster, words: &[&str]) -> Value {
    let mut command = Command::new(program());
    let output = command.args(words).args(["--format", "json", "--coordinator", &cluster.cluster.url()]);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the exit status of `rustle status` and its answer.
fn status_at(coordinator: &str) -> (Option<i32>, Value) {
    let words = ["status", "--format", "json", "--coordinator", coordinator];
    let output = Command::new(program()).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code(), answer)
}

/// Waits until `rustle status` lists these problems, each with its severity, and checks its exit status and its other words.
fn wait_for_problems(cluster: &TestCluster, at: &str, expected: &[(&str, &str)]) -> Value {
    let named = |status: &Value| {
        let problems = status["problems"].as_array().unwrap().iter();
        // A full disk of the machine that runs the tests is another matter.
        let of_cluster = problems.filter(|problem| problem["kind"] != "disk_fills");
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let named =
            of_cluster.map(|problem| format!("{} {}", word(&problem["kind"]), word(&problem["severity"])));
        named.collect::<BTreeSet<_>>()
    };
    let expected: BTreeSet<_> =
        expected.iter().map(|(kind, severity)| format!("{kind} {severity}")).collect();
    let list = || format!("{:?}", named(&status_at(&cluster.cluster.url()).1));
    wait_until(&format!("problems {expected:?}"), list, |listed| listed == format!("{expected:?}"));
    let (code, status) = status_at(&cluster.cluster.url());
    let is_healthy = !expected.iter().any(|problem| problem.ends_with("critical"));
    assert_eq!(
        (code, &status["healthy"]),
        (Some(i32::from(!is_healthy)), &Value::Bool(is_healthy)),
        "{status}"
    );
    for problem in status["problems"].as_array().unwrap() {
        let since = problem["since"].as_str().unwrap();
        assert!(since.starts_with("20") && since.ends_with('Z'), "{problem}");
        assert!(!problem["next_step"].as_str().unwrap().is_empty(), "{problem}");
    }
    // The same source answers both.
    let page: Value = serde_json::from_str(&get(at, "/status")).unwrap();
    assert_eq!((&page["healthy"], named(&page)), (&status["healthy"], named(&status)));
    status
}

/// Returns a gauge as Prometheus scrapes it.
fn gauge(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until what is observed is as expected, and fails with what was observed last.
fn wait_until(what: &str, observe: impl Fn() -> String, is_expected: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let observed = observe();
        if is_expected(&observed) {
            return;
        }
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}: {observed}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a page of the coordinator has each of `parts`, and not `absent`.
fn wait_for_page(at: &str, path: &str, parts: &[&str], absent: &str) {
    let is_expected = |page: &str| parts.iter().all(|part| page.contains(part)) && !page.contains(absent);
    wait_until(&format!("{path} has {parts:?} and not {absent:?}"), || get(at, path), is_expected);
}

/// Waits until this many workers are registered and every shard is as expected.
fn wait_for_status(at: &str, what: &str, workers: usize, is_expected: impl Fn(&Value) -> bool) {
    let status = || get(at, "/status");
    wait_until(what, status, |text| {
        let status: Value = serde_json::from_str(text).unwrap();
        let shards = status["jobs"][0]["shard_list"].as_array().unwrap();
        status["workers"].as_array().unwrap().len() == workers && shards.iter().all(&is_expected)
    });
}

/// Waits until `job show` and `job list` count this many shards that are served.
fn wait_for_shards_ready(cluster: &TestCluster, ready: u64) {
    let show = || rustle(cluster, &["job", "show", "--job", "watched"])["shards_ready"].to_string();
    wait_until(&format!("job show counts {ready}"), show, |shown| shown == ready.to_string());
    let list = || rustle(cluster, &["job", "list"])["jobs"][0]["shards_ready"].to_string();
    wait_until(&format!("job list counts {ready}"), list, |shown| shown == ready.to_string());
}

#[test]
fn what_nobody_serves_is_shown_as_such() {
    let mut cluster = start_with(2, |options| options.coordinator_flags = flags(&PATIENT));
    let name = job("watched");
    cluster.create(&name, &plans()[0], 4_096, 2).unwrap();
    let at = cluster.cluster.coordinator().unwrap().metrics().to_owned();
    wait_for_shards_ready(&cluster, 2);
    wait_for_page(&at, "/", &["all shards served"], "shards not served");
    wait_for_page(&at, "/readyz", &[], "not served");
    let status = wait_for_problems(&cluster, &at, &[]);
    let shown = &status["jobs"][0];
    assert_eq!((&shown["shards"], &shown["shards_served"]), (&2.into(), &2.into()), "{shown}");
    assert_eq!(
        (&shown["rows_bound"], &shown["epsilon"]),
        (&0.into(), &0.0.into()),
        "nothing is released yet"
    );
    assert!(shown["epsilon_planned"].as_f64().unwrap() > 0.0, "{shown}");
    cluster.fetch(&name, 0..1, 0..4_096).unwrap();
    let shown = rustle(&cluster, &["job", "show", "--job", "watched"]);
    assert_eq!(shown["rows_bound"], 1);
    assert!(shown["epsilon"].as_f64().unwrap() > 0.0, "ε counts the row that was bound last: {shown}");

    // One worker is left, and takes over.
    cluster.cluster.kill_worker(1).unwrap();
    wait_for_status(&at, "the other worker serves both shards", 1, |shard| {
        shard["owner"] == "worker-0" && shard["ready"] == true
    });
    wait_for_shards_ready(&cluster, 2);
    wait_for_problems(&cluster, &at, &[("worker_gone", "warning")]);

    cluster.cluster.kill_worker(0).unwrap();
    wait_for_shards_ready(&cluster, 0);
    let parts = ["2 shards not served", "worker-0 is gone", "no worker is registered"];
    wait_for_page(&at, "/", &parts, "all shards served");
    wait_for_status(&at, "no shard is served, and each has a reason", 0, |shard| {
        let reason = shard["reason"].as_str().unwrap_or_default();
        shard["ready"] == false && reason.contains("no worker is registered")
    });
    let unserved = [("no_worker", "critical"), ("shards_not_served", "critical"), ("worker_gone", "warning")];
    let status = wait_for_problems(&cluster, &at, &unserved);
    let what = |problem: &Value| problem["what"].as_str().unwrap().to_owned();
    let listed: Vec<_> = status["problems"].as_array().unwrap().iter().map(what).collect();
    assert!(
        listed
            .iter()
            .any(|what| what.contains("job watched: 2 of 2 shards are not served: worker-0 is gone")),
        "{listed:?}"
    );
    wait_for_page(
        &at,
        "/",
        &["not healthy", "no worker is registered, and 1 job is not served", "2 gone or refused"],
        ">healthy<",
    );
    let refused =
        cluster.fetch_bound(&name, 1..2, 0..4_096, vec!["x".into()], Duration::from_secs(3)).unwrap_err();
    assert!(refused.to_string().contains("worker-0 is gone: it sent no heartbeat"), "{refused}");
    // Workers must find a coordinator that has none, so it stays ready, and says what is missing.
    wait_for_page(&at, "/readyz", &["2 of 2 shards are not served: worker-0 is gone"], "all shards served");
    // What the critical alerts compare with 0. Gauges follow within half a heartbeat.
    let metrics = || get(&at, "/metrics");
    wait_until("metrics agree", metrics, |metrics| {
        gauge(metrics, "rustle_coordinator_shards_unready") == Some(2.0)
            && gauge(metrics, "rustle_coordinator_shards") == Some(2.0)
            && gauge(metrics, "rustle_coordinator_workers_alive") == Some(0.0)
    });

    cluster.cluster.start_worker(0).unwrap();
    wait_for_shards_ready(&cluster, 2);
    wait_for_page(&at, "/", &["all shards served"], "shards not served");
    wait_for_problems(&cluster, &at, &[("worker_gone", "warning")]);

    cluster.cluster.kill_coordinator().unwrap();
    let (code, status) = status_at(&cluster.cluster.url());
    assert_eq!(
        (code, &status["healthy"], &status["problems"][0]["kind"]),
        (Some(1), &false.into(), &"no_answer".into())
    );
}
