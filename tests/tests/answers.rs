//! Every answer that docs/schemas describes is as its schema says, in good times and in bad ones.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tests::{TestCluster, get, job, json_schema, plans, program, start};

fn run(words: &[&str], coordinator: Option<&str>) -> Output {
    let mut command = Command::new(program());
    command.args(words).args(["--format", "json"]);
    if let Some(url) = coordinator {
        command.args(["--coordinator", url]);
    }
    command.output().unwrap()
}

fn parsed(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Checks an answer against its schema, and notes that it was.
fn conforms(checked: &mut BTreeSet<String>, schema: &str, answer: &Value) {
    let violations = json_schema::violations(schema, answer);
    assert!(violations.is_empty(), "{schema}: {violations:?}\n{answer:#}");
    checked.insert(schema.to_owned());
}

fn check_cluster(checked: &mut BTreeSet<String>, cluster: &TestCluster) {
    let url = cluster.cluster.url();
    for (schema, words) in [
        ("status", &["status"][..]),
        ("job-list", &["job", "list"]),
        ("job-show", &["job", "show", "--job", "shown"]),
        ("worker-list", &["worker", "list"]),
    ] {
        conforms(checked, schema, &parsed(&run(words, Some(&url))));
    }
    let data = cluster.dir.path().to_str().unwrap();
    conforms(checked, "doctor", &parsed(&run(&["doctor", "--data-dir", data], Some(&url))));
    let page = get(cluster.cluster.coordinator().unwrap().metrics(), "/status");
    conforms(checked, "status", &serde_json::from_str(&page).unwrap());
}

fn check_files(checked: &mut BTreeSet<String>, dir: &Path) {
    let authority = dir.join("authority");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let [tokens, token, certs] = ["tokens", "token", "authority"].map(path);
    assert!(run(&["certs", "new", "--out", &certs, "--life", "40d"], None).status.success());
    let shown = parsed(&run(&["certs", "show", authority.join("operator").to_str().unwrap()], None));
    conforms(checked, "certs-show", &shown);
    assert_eq!((&shown["role"], &shown["days_left"]), (&"operator".into(), &39.into()), "{shown}");
    assert_eq!((&shown["expired"], &shown["subject"]), (&false.into(), &"operator".into()), "{shown}");
    let new =
        ["token", "new", "--role", "auditor", "--life", "1h", "--out", &token, "--tokens-file", &tokens];
    assert!(run(&new, None).status.success());
    let listed = run(&["token", "list", "--tokens-file", &tokens], None);
    conforms(checked, "token-list", &parsed(&listed));
    let secret = std::fs::read_to_string(&token).unwrap();
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(secret.trim()));
}

#[test]
fn every_answer_conforms_to_its_schema() {
    let mut checked = BTreeSet::new();
    let mut cluster = start(2);
    let name = job("shown");
    cluster.create(&name, &plans()[0], 4_096, 2).unwrap();
    cluster.wait_ready(&name);
    cluster.fetch(&name, 0..1, 0..4_096).unwrap();
    check_cluster(&mut checked, &cluster);
    for worker in 0..2 {
        cluster.cluster.kill_worker(worker).unwrap();
    }
    let shown = || {
        parsed(&run(&["job", "show", "--job", "shown"], Some(&cluster.cluster.url())))["shards_served"]
            .clone()
    };
    cluster.wait_until("no shard is served", || shown() == 0);
    check_cluster(&mut checked, &cluster);
    let url = cluster.cluster.url();
    cluster.cluster.kill_coordinator().unwrap();
    let status = run(&["status"], Some(&url));
    assert_eq!(status.status.code(), Some(1));
    conforms(&mut checked, "status", &parsed(&status));
    let doctor = run(&["doctor"], Some(&url));
    assert_eq!(doctor.status.code(), Some(1));
    conforms(&mut checked, "doctor", &parsed(&doctor));
    check_files(&mut checked, cluster.dir.path());
    assert_eq!(
        checked.into_iter().collect::<Vec<_>>(),
        json_schema::names(),
        "each schema has an answer here"
    );
}
