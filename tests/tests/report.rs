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
