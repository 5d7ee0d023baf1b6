//! `bench strategy` as people and scripts run it, without Python: ours alone, and beside a peer in the shell's
//! language whose answers are known. Timings are never asserted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// One band is independent noise, whose losses anyone can check.
const IDENTITY: &str = "band-toeplitz-1,n=8";

fn bench(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).arg("strategy").args(arguments).output();
    output.expect("bench runs")
}

fn results(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// An environment with jax-privacy, as far as the bench can tell, that gives these answers.
fn beside(answers: &[Value], arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let python = folder.path().join("venv/bin/python");
    fs::create_dir_all(python.parent().expect("it has one")).expect("folders");
    let answers: String = answers.iter().map(|answer| format!("read -r asked; echo '{answer}'\n")).collect();
    fs::write(&python, format!("#!/bin/sh\n{answers}read -r asked\n")).expect("a script");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("that can be run");
    let pinned = include_str!("../peers/requirements.txt");
    fs::write(folder.path().join("jax-privacy.installed"), pinned).expect("a stamp");
    let environment = folder.path().to_str().expect("a plain name");
    bench(&[&["--environment", environment, "--format", "json", "--check"], arguments].concat())
}

/// Longer than two requests.
fn optimised() -> Value {
    json!({ "seconds": 20.0, "compiling": 5.0, "parameters": { "c": [1.0] } })
}

fn evaluated() -> Value {
    json!({ "rms": 4.5f64.sqrt(), "max": 8f64.sqrt(), "sensitivity": 1.0 })
}

#[test]
fn ours_alone_needs_no_python() {
    let output = bench(&["--alone", "--setting", "blt-1,n=100,b=10,k=3,rms", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = results(&output);
    let row = &found["settings"][0];
    assert_eq!(row["setting"], "blt-1,n=100,b=10,k=3,rms");
    let described = json!(["blt-1", 100, 10, 3, "rms", "alone"]);
    let fields = ["mechanism", "n", "b", "k", "loss", "outcome"];
    assert_eq!(Value::from_iter(fields.map(|field| row[field].clone())), described);
    let ours = &row["ours"];
    let number = |name: &str| ours[name].as_f64().unwrap();
    assert!(1.0 < number("sensitivity") && 1.0 < number("rms") && number("rms") < number("max"));
    assert!(ours["seconds"]["median"].as_f64().unwrap() > 0.0 && ours["seconds"]["repeats"] == 3);
    assert_eq!(ours["stopped"], false);
    assert!(row["peer"].is_null() && row["ratios"].is_null() && found["verdict"].is_null());
    assert_eq!(found["named"], json!([]));
    assert_eq!(
        found["machine"]["command"].as_str().unwrap().split_once("-- ").unwrap().1.find("strategy"),
        Some(0)
    );
}

#[test]
fn a_peer_that_agrees_is_compared() {
    let output = beside(&[optimised(), evaluated(), evaluated()], &["--setting", IDENTITY]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = results(&output);
    let row = &found["settings"][0];
    assert_eq!(
        (row["outcome"].as_str(), row["peer"]["first_seconds"].as_f64()),
        (Some("no worse"), Some(20.0))
    );
    assert!((row["ratios"]["loss"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    let first = row["ratios"]["first"].as_f64();
    let running = row["ratios"]["running"].as_f64();
    assert!((first.unwrap() / running.unwrap() - 20.0 / 15.0).abs() < 1e-9);
    assert!(row["ratios"]["second"].is_null());
    assert_eq!((&found["verdict"]["compared"], &found["verdict"]["worse"]), (&json!(1), &json!([])));
}

#[test]
fn evaluations_that_disagree_fail_the_setting_and_the_check() {
    let off = |name: &str| {
        let mut answer = evaluated();
        answer[name] = (answer[name].as_f64().unwrap() * (1.0 + 2e-9)).into();
        answer
    };
    let wrong = ["rms", "max", "sensitivity"].map(off);
    // The peer's strategy is evaluated first, then ours.
    let cases = wrong.iter().flat_map(|wrong| [[wrong.clone(), evaluated()], [evaluated(), wrong.clone()]]);
    for [theirs, ours] in cases {
        let output = beside(&[optimised(), theirs, ours], &["--setting", IDENTITY]);
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("--check: evaluations disagree: band-toeplitz-1,n=8,rms"), "{said}");
        let found = results(&output);
        let row = &found["settings"][0];
        assert_eq!(row["outcome"], "disagreed");
        assert!(row["why"].as_str().unwrap().contains("apart"), "{row}");
        assert!(row["ratios"].is_null());
        assert_eq!((&found["verdict"]["compared"], &found["verdict"]["first"]), (&json!(0), &Value::Null));
    }
}

#[test]
fn a_peer_that_fails_wins_us_nothing() {
    let failed = json!({ "error": "MemoryError: too many rounds" });
    let output = beside(&[failed], &["--setting", IDENTITY]);
    assert!(!output.status.success());
    let found = results(&output);
    let row = &found["settings"][0];
    assert_eq!((row["outcome"].as_str(), row["ratios"].is_null()), (Some("failed"), true));
    assert!(row["why"].as_str().unwrap().contains("too many rounds"));
    assert_eq!(found["verdict"]["compared"], 0);
}

#[test]
fn what_can_not_be_measured_is_refused_with_what_is_allowed() {
    for (setting, allowed) in [("blt-2", "has no n"), ("tree,n=8", "allowed: dense"), ("blt-2,n=0", "\"0\"")]
    {
        let output = bench(&["--alone", "--setting", setting]);
        assert!(!output.status.success() && output.stdout.is_empty());
        let refused = String::from_utf8_lossy(&output.stderr);
        assert!(refused.contains(allowed), "{refused}");
    }
    let output = bench(&["--named", "--quick"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--quick"));
}
