//! Every answer that docs/schemas describes is as its schema says, in good times and in bad ones.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

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

/// A plan with nothing but warnings, one without noise, and a file that holds no plan.
fn check_plans(checked: &mut BTreeSet<String>, dir: &Path) {
    let sound = plans()[0].to_toml_string().unwrap();
    for (text, status, check) in [
        (sound.clone(), 0, "float_arithmetic"),
        (sound.replace("noise_multiplier = ", "noise_multiplier = 0.0 # "), 1, "no_noise"),
        ("iterations = 7".to_owned(), 1, "no_plan"),
    ] {
        let file = dir.join("linted.toml");
        std::fs::write(&file, text).unwrap();
        let output = run(&["plan", "lint", file.to_str().unwrap(), "--dataset-size", "100"], None);
        let answer = parsed(&output);
        conforms(checked, "plan-lint", &answer);
        assert_eq!(output.status.code(), Some(status), "{answer}");
        let found = answer["findings"].as_array().unwrap();
        assert!(found.iter().any(|finding| finding["check"] == check), "{check}: {answer}");
        assert_eq!(answer["ok"], status == 0);
    }
}

fn check_files(checked: &mut BTreeSet<String>, dir: &Path) {
    check_plans(checked, dir);
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

/// The view of a terminal is tested in `rustle/src/commands/job/watch.rs`; this is the one of a script.
#[test]
fn a_watched_job_is_shown_until_its_last_row_is_bound() {
    let cluster = start(1);
    let name = job("shown");
    let plan = &plans()[0];
    cluster.create(&name, plan, 1_024, 1).unwrap();
    cluster.wait_ready(&name);
    cluster.fetch(&name, 0..1, 0..1_024).unwrap();
    let url = cluster.cluster.url();
    let mut command = Command::new(program());
    command.args([
        "job",
        "watch",
        "--job",
        "shown",
        "--every",
        "20ms",
        "--format",
        "json",
        "--coordinator",
        &url,
    ]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next_row = || -> Option<u64> {
        let job: Value = serde_json::from_str(&lines.next()?.unwrap()).unwrap();
        assert_eq!((&job["job"], &job["shards_served"]), (&"shown".into(), &1.into()), "{job}");
        job["next_row"].as_u64()
    };
    assert_eq!(next_row(), Some(1), "it shows the job at once");
    let rows = plan.iterations();
    cluster.fetch(&name, 1..rows, 0..1_024).unwrap();
    let seen: Vec<u64> = std::iter::from_fn(&mut next_row).collect();
    assert!(seen.is_sorted() && seen.last() == Some(&rows), "{seen:?} of {rows}");
    assert!(watch.wait().unwrap().success());

    let shown = Command::new(program())
        .args(["job", "show", "--job", "shown", "--coordinator", &url])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("0..1024") && shown.contains("worker-0"), "the shards are named: {shown}");

    let missing = run(&["job", "watch", "--job", "other"], Some(&url));
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(missing.status.code() == Some(1) && said.contains("no job named other"), "{said}");
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
    let unreached = run(&["job", "list"], Some(&url));
    assert_eq!((unreached.status.code(), unreached.stdout.is_empty()), (Some(1), true));
    let error: Value = serde_json::from_slice(&unreached.stderr).unwrap();
    conforms(&mut checked, "error", &error);
    assert_eq!(
        (&error["error"]["kind"], &error["error"]["retry_safe"]),
        (&"unavailable".into(), &true.into())
    );
    let refused: Value =
        serde_json::from_slice(&run(&["job", "watch", "--every", "x"], Some(&url)).stderr).unwrap();
    conforms(&mut checked, "error", &refused);
    assert_eq!(refused["error"]["kind"], "invalid_argument");
    let status = run(&["status"], Some(&url));
    assert_eq!(status.status.code(), Some(1));
    conforms(&mut checked, "status", &parsed(&status));
    let doctor = run(&["doctor"], Some(&url));
    assert_eq!(doctor.status.code(), Some(1));
    conforms(&mut checked, "doctor", &parsed(&doctor));
    // Nothing has the ledger open any more.
    let data = cluster.dir.path().join("coordinator").to_str().unwrap().to_owned();
    let log = run(&["ledger", "log", "--data-dir", &data], None);
    let lines = String::from_utf8(log.stdout).unwrap();
    assert!(lines.lines().count() >= 3, "{lines}");
    lines.lines().for_each(|line| {
        conforms(&mut checked, "ledger-entry", &serde_json::from_str(line).unwrap());
    });
    check_files(&mut checked, cluster.dir.path());
    assert_eq!(
        checked.into_iter().collect::<Vec<_>>(),
        json_schema::names(),
        "each schema has an answer here"
    );
}
