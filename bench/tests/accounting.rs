//! `bench accounting` as people and scripts run it, without Python: ours alone, and beside a peer in the shell's
//! language whose answers are known. Timings are never asserted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn bench(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).arg("accounting").args(arguments).output();
    output.expect("bench runs")
}

fn results(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// An environment with the peers, as far as the bench can tell, that always answers `figure` after a while.
fn beside(figure: f64, pause: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let python = folder.path().join("venv/bin/python");
    fs::create_dir_all(python.parent().expect("it has one")).expect("folders");
    let answer = json!({ "figure": figure, "seconds": 30.0 });
    let script = format!("#!/bin/sh\nwhile read -r asked; do sleep {pause}; echo '{answer}'; done\n");
    fs::write(&python, script).expect("a script");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("that can be run");
    for package in ["dp-accounting", "tensorflow-privacy"] {
        let pinned = include_str!("../peers/requirements.txt");
        fs::write(folder.path().join(format!("{package}.installed")), pinned).expect("a stamp");
    }
    let environment = folder.path().to_str().expect("a plain name");
    bench(&[&["--environment", environment, "--format", "json"], arguments].concat())
}

#[test]
fn ours_alone_needs_no_python() {
    let output =
        bench(&["--alone", "--setting", "poisson-64", "--setting", "tree-nwp-es-ES", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = results(&output);
    let [poisson, tree] = [0, 1].map(|i| &found["settings"][i]);
    // Golden values; the finer grid is nearer to the exact ε, from above.
    let epsilon = poisson["ours"]["epsilon"].as_f64().unwrap();
    let fine = poisson["fine"]["epsilon"].as_f64().unwrap();
    assert!(
        (fine / 4.497868 - 1.0).abs() < 1e-6 && (1.0..1.0 + 5e-5).contains(&(epsilon / fine)),
        "{epsilon} {fine}"
    );
    assert!((tree["ours"]["rho"].as_f64().unwrap() - 34.0 / 98.0).abs() < 1e-12);
    assert!(poisson["peer"].is_null() && poisson["ratio"].is_null());
    assert!(poisson["ours"]["seconds"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(found["balls_in_bins"], json!([]));
}

#[test]
fn a_peer_that_agrees_is_compared() {
    let output = beside(4.497868, "0", &["--setting", "poisson-64"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &results(&output)["settings"][0];
    assert!(row["ratio"].as_f64().unwrap() > 0.0 && row["apart"].as_f64().unwrap().abs() < 1e-4);
    assert_eq!(
        (row["peer"]["seconds"]["median"].as_f64(), row["peer"]["seconds"]["repeats"].as_u64()),
        (Some(30.0), Some(1))
    );
}

#[test]
fn figures_that_disagree_fail_the_check() {
    for (setting, figure) in [("poisson-64", 4.4985), ("poisson-64", 4.48), ("tree-small", 0.2)] {
        let output = beside(figure, "0", &["--setting", setting, "--check"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("the peer's"), "{said}");
        assert_eq!(results(&output)["settings"][0]["faults"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_tree_that_takes_the_peer_too_long_is_cut_off_and_says_so() {
    let output = beside(0.35, "20", &["--setting", "tree-nwp-es-ES", "--limit", "0.2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &results(&output)["settings"][0];
    assert!(row["peer"].is_null() && row["why"].as_str().unwrap().contains("no answer in 0.2 s"), "{row}");
}

#[test]
fn a_setting_that_is_not_there_is_refused_with_those_that_are() {
    let output = bench(&["--alone", "--setting", "poisson-1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("poisson-2000") && said.contains("balls-in-bins-64"),
        "{said}"
    );
}
