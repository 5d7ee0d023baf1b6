//! Tests the command's report and exit status.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use fuzz::figures::{Fault, TargetReport, Total};

fn fuzz(corpus: &Path, targets: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    command.args(["--minutes", "0.002", "--seed", "1", "--corpus"]).arg(corpus).args(targets);
    command.output().expect("a run")
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

fn kept(corpus: &Path, target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(corpus.join(target)).into_iter().flatten().flatten();
    files.map(|file| fs::read(file.path()).expect("a kept input")).collect()
}

#[test]
fn a_run_without_a_fault_ends_well_and_says_its_bound() {
    let corpus = tempfile::tempdir().expect("a folder");
    let run = fuzz(corpus.path(), &["cursor", "job-mark"]);
    let line = last_line(&run);
    assert!(run.status.success(), "{line}");
    assert!(
        line.starts_with("2 targets, ") && line.contains(" 0 faults, ") && line.contains("(3/N)"),
        "{line}"
    );
    assert!(kept(corpus.path(), "cursor").is_empty());
}

#[test]
fn a_fault_is_counted_and_kept_and_decides_the_exit_status() {
    let corpus = tempfile::tempdir().expect("a folder");
    // One target panics and one aborts its process. The targets after them still run.
    let run = fuzz(corpus.path(), &["planted-panic", "planted-end", "cursor"]);
    let line = last_line(&run);
    assert_eq!(run.status.code(), Some(1), "{line}");
    assert!(
        line.starts_with("3 targets, ") && line.contains(" 2 faults, ") && !line.contains("3/N"),
        "{line}"
    );
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(
        said.contains("FAULT in planted-panic: planted") && said.contains("FAULT in planted-end"),
        "{said}"
    );
    for target in ["planted-panic", "planted-end"] {
        let kept = kept(corpus.path(), target);
        assert!(kept.len() == 1 && kept[0] != b"length 4", "{target}: {kept:?}");
    }
}

#[test]
fn planted_faults_are_run_by_name_alone() {
    let list = Command::new(env!("CARGO_BIN_EXE_fuzz")).arg("--list").output().expect("a list");
    let names = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(names.contains("cursor") && !names.contains("planted"), "{names}");
}

#[test]
fn all_figures_go_into_one_line() {
    let ran = |runs, fault| TargetReport { target: "one".into(), runs, answers: 3, seconds: 90.0, fault };
    let good = [ran(1_000, None), ran(2_000, None)];
    assert_eq!(
        Total::of(&good).to_string(),
        "2 targets, 3000 runs, 0 faults, 3.0 processor-minutes; below 1.0e-3 faults a run at 95 % (3/N)"
    );
    assert!(Total::of(&good).is_good());
    let fault = Fault { text: "what broke".into(), input: None };
    let bad = Total::of(&[ran(1_000, None), ran(7, Some(fault))]);
    assert_eq!(bad.to_string(), "2 targets, 1007 runs, 1 faults, 3.0 processor-minutes");
    assert!(!bad.is_good());
}
