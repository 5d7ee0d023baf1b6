//! Tests that the report of a live job lists exactly the bound rows as released.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::process::{Command, Output};

use accounting::Report;
use noise_kernel::JobKey;
use serde_json::{Value, json};
use tests::{KEY, TestCluster, job, plans, program, start};

const DIMENSION: u64 = 700;

fn report(cluster: &TestCluster, words: &str) -> Output {
    Command::new(program())
        .args(["report", "--coordinator", &cluster.cluster.url()])
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

#[test]
fn a_jobs_statement_is_of_what_was_bound() {
    let cluster = start(1);
    let name = job("stated");
    let plan = &plans()[3];
    cluster.create(&name, plan, DIMENSION, 1).unwrap();
    cluster.fetch(&name, 0..5, 0..8).unwrap();
    cluster.fetch(&name, 7..9, 0..8).unwrap();
    let output = report(&cluster, "--job stated --delta 1e-6,1e-8 --format json");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let statement: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(statement["of"], "job");
    assert_eq!(statement["job"]["job"], "stated");
    assert_eq!(statement["job"]["dimension"], json!(DIMENSION));
    let commitment = hex::encode(JobKey::from_bytes(&KEY).unwrap().commitment());
    assert_eq!(statement["job"]["key_commitment"], json!(commitment));
    assert_eq!(statement["plan_digest"], json!(hex::encode(plan.digest())));
    let released = &statement["released"];
    assert_eq!((&released["rows"], &released["reached"]), (&json!(7), &json!(9)));
    assert_eq!(released["branches"][0]["released"], json!([[0, 5], [7, 9]]));
    let cost = |sensitivity| Report::at_delta(sensitivity, plan.noise_multiplier(), 1e-6).unwrap().epsilon;
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() / expected - 1.0).abs() < 1e-12;
    let whole = cost(plan.accounted_sensitivity().unwrap());
    assert!(near(&statement["guarantees"][0]["epsilon"], whole), "{statement}");
    let so_far = cost(plan.accounted_sensitivity_of(0..9).unwrap());
    assert!(near(&released["guarantees"][0]["epsilon"], so_far) && so_far < whole, "{statement}");

    let page = String::from_utf8(report(&cluster, "--job stated").stdout).unwrap();
    assert!(page.contains("# Privacy of job stated") && page.contains("0..5, 7..9"), "{page}");
    let missing = report(&cluster, "--job missing");
    let words = String::from_utf8_lossy(&missing.stderr);
    assert!(missing.status.code() == Some(1) && words.contains("missing"), "{words}");
}

/// The rows of a finished job are still stated, and it can be stated before anything left.
#[test]
fn a_job_is_stated_all_its_life() {
    let cluster = start(1);
    let name = job("life");
    cluster.create(&name, &plans()[0], DIMENSION, 1).unwrap();
    let stated = |words: &str| -> Value {
        let output = report(&cluster, &format!("--job life --format json {words}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let before = stated("");
    assert_eq!(before["released"]["guarantees"][0]["epsilon"], json!(0.0));
    cluster.fetch(&name, 0..3, 0..8).unwrap();
    cluster.runtime.block_on(cluster.client.jobs().finish(&name)).unwrap();
    let after = stated("--sampling cyclic-poisson --sampling-probability 0.1");
    assert_eq!(after["job"]["state"], "finished");
    assert_eq!(after["released"]["rows"], json!(3));
    assert!(after["without_sampling"]["rho"].is_number());
}

/// One ε, computed here from the branches, in every place that states one.
#[test]
fn every_place_states_the_same_epsilon_also_after_rewinds() {
    let cluster = start(1);
    let name = job("one");
    let plan = &plans()[3];
    cluster.create(&name, plan, DIMENSION, 1).unwrap();
    cluster.fetch(&name, 0..7, 0..8).unwrap();
    let runtime = &cluster.runtime;
    let client = &cluster.client;
    for (branch, from_row, rows) in [(1, 2, 2..5), (2, 4, 4..6)] {
        runtime.block_on(client.jobs().rewind(&name, from_row, branch - 1)).unwrap();
        let texts = rows.clone().map(|row| format!("branch {branch}, step {row}")).collect();
        let patience = std::time::Duration::from_secs(30);
        cluster.fetch_on(client, branch, &name, rows, 0..8, texts, patience).unwrap();
    }
    // The squares of what each branch left behind add up, and to those of what is kept.
    let squared = |rows| plan.accounted_sensitivity_of(rows).unwrap().value.powi(2);
    let left = squared(2..7) + squared(4..5);
    let epsilon = |kept: f64| {
        let sensitivity = accounting::Sensitivity { value: (kept + left).sqrt(), exact: false };
        Report::at_delta(sensitivity, plan.noise_multiplier(), 1e-6).unwrap().epsilon
    };
    let planned = epsilon(squared(0..plan.iterations()));
    let spent = epsilon(squared(0..6));
    assert!(spent < planned);

    let status: Value = serde_json::from_str(&runtime.block_on(client.jobs().status()).unwrap()).unwrap();
    let answer: Value =
        serde_json::from_str(&runtime.block_on(client.jobs().report(&name, 1e-6)).unwrap()).unwrap();
    let output = report(&cluster, "--job one --delta 1e-6 --format json");
    let statement: Value = serde_json::from_slice(&output.stdout).unwrap();
    let page = tests::get(cluster.cluster.coordinator().unwrap().metrics(), "/metrics");
    let metric = |figure: &str| -> f64 {
        let series = format!("rustle_job_privacy_{figure}_epsilon{{training_job=\"one\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    };
    let job = &status["jobs"][0];
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    for (place, stated, expected) in [
        ("GetReport", number(&answer["epsilon"]), planned),
        ("rustle report", number(&statement["guarantees"][0]["epsilon"]), planned),
        ("status", number(&job["epsilon_planned"]), planned),
        ("status, privacy", number(&job["privacy"]["epsilon_planned"]), planned),
        ("metrics", metric("planned"), planned),
        ("rustle report, so far", number(&statement["released"]["guarantees"][0]["epsilon"]), spent),
        ("status, so far", number(&job["epsilon"]), spent),
        ("status, privacy so far", number(&job["privacy"]["epsilon_spent"]), spent),
        ("metrics, so far", metric("spent"), spent),
    ] {
        assert!((stated / expected - 1.0).abs() < 1e-9, "{place} states {stated}, and it is {expected}");
    }
    // Each place says who went back.
    for openings in [&answer["openings"], &statement["job"]["openings"]] {
        let kinds: Vec<_> = openings.as_array().unwrap().iter().map(|opening| &opening["event"]).collect();
        assert_eq!(kinds, ["created", "branch_opened", "branch_opened"], "{openings}");
        assert_eq!(openings[2]["branch"], json!(2));
        assert!(openings[2]["by"].as_str().unwrap().starts_with("anyone"), "{openings}");
    }
}
