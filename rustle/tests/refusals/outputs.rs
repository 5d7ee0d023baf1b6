//! Targets of `--out`: what is there stays whole, above all a key.

use std::fs;
use std::process::{Command, Stdio};

use super::bench::Bench;
use super::{FROM, case, check, wrong_in};

#[test]
fn targets_that_are_not_written() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    fs::write(bench.path("other"), *b"zyxwvutsrqponmlkjihgfedcba543210").unwrap();
    bench.mode("other", 0o400);
    let key = fs::read(bench.path("key")).unwrap();
    let plan = fs::read(bench.path("plan.toml")).unwrap();
    let noise = "noise --plan plan.toml --key-file key --dimension 10 --steps 0..1";
    let batches =
        "batches --iterations 9 --scheme poisson --sampling-probability 0.1 --population 9 --seed-file key";
    let from = format!("{FROM} --iterations 10 --noise-multiplier 1");
    let name = "a".repeat(300);
    check(
        &bench,
        &[
            case(noise, "--out key", 2, &["--out is key", "--key-file", "another file"]),
            case(noise, "--out ./plan.toml", 2, &["--out is", "--plan"]),
            case(noise, "--out other", 1, &["other", "read-only"]),
            case(noise, "--out rows.png", 2, &["--out is rows.png", "NumPy", ".npy"]),
            case(batches, "--out key", 2, &["--out is key", "--seed-file"]),
            case(batches, "--out b.npy", 2, &["--out is b.npy", ".jsonl"]),
            case("report --plan plan.toml", "--out plan.toml", 2, &["--out is plan.toml", "--plan"]),
            case("report --plan plan.toml", "--out r.pdf", 2, &["--out is r.pdf", ".html"]),
            case("plan plot plan.toml", "--out plan.toml", 2, &["--out is plan.toml", "read by the command"]),
            case("plan plot plan.toml", "--out p.png", 2, &["--out is p.png", ".svg"]),
            case(&from, "--out o.json", 2, &["--out is o.json", "TOML", ".toml"]),
            case(&from, "--out folder", 1, &["write folder", "a folder is there"]),
            case(&from, "--out missing/o.toml", 1, &["missing", "create it first"]),
            case(&from, "--out plan.toml/o.toml", 1, &["write plan.toml/o.toml", "a file is there"]),
            case(&from, "--out /proc/o.toml", 1, &["write /proc/o.toml"]),
            case(&from, &format!("--out {name}"), 1, &["File name too long"]),
            case(&from, "--out /dev/full", 1, &["write /dev/full", "No space left"]),
            case("up --dimension 10 --plan plan.toml", "--data-dir key", 1, &["key", "exists already"]),
            case("man", "--out key", 1, &["key", "exists already"]),
        ],
    );
    assert_eq!(
        (fs::read(bench.path("key")).unwrap(), fs::read(bench.path("plan.toml")).unwrap()),
        (key, plan)
    );
    let left: Vec<_> =
        fs::read_dir(bench.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "nothing half written: {left:?}");
}

#[test]
fn standard_output_on_a_full_disk() {
    let bench = Bench::new();
    for words in [
        "plan show plan.toml",
        "plan show plan.toml --format json",
        "completions bash",
        "report --plan plan.toml",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_rustle"))
            .args(words.split_whitespace())
            .current_dir(bench.folder.path())
            .stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(wrong_in(&output, 1, &["No space left"]), None, "{words}");
    }
}
