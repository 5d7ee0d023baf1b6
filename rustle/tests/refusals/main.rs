//! What people mistype, as a table: each input is refused once, with the status that the documentation promises and a message
//! that names the flag, file or address, and what is allowed or to do.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod begun;
#[path = "../bench/mod.rs"]
mod bench;
mod coordinators;
mod files;
mod numbers;
mod odd_words;
mod outputs;
mod plans;
mod secrets;

use std::process::Output;

use bench::Bench;

const FROM: &str = "plan from --float --mechanism identity";
const OPTIMIZE: &str = "plan optimize --float --mechanism";
const NOISE: &str = "noise --plan plan.toml --key-file key --out x.npy";
const SUGGEST: &str = "plan suggest --float --iterations 100 --dimension 1000";
const ACCOUNT: &str = "account gaussian --sensitivity 1";
const BATCHES: &str = "batches --seed-file key --out b.jsonl --iterations 10";
const FETCH: &str = "fetch --steps 0..1 --range 0..1";
const NEW_TOKEN: &str = "token new --out t --tokens-file ts";

/// Words, exit status, and parts of the message.
type Case = (String, i32, &'static [&'static str]);

fn case(start: &str, rest: &str, status: i32, parts: &'static [&'static str]) -> Case {
    (format!("{start} {rest}"), status, parts)
}

/// Runs every case, which begins nothing on disk, and reports all that fail together.
fn check(bench: &Bench, cases: &[Case]) {
    let mut failures = Vec::new();
    for (words, status, parts) in cases {
        let before = bench.files();
        let output = bench.run(words);
        if let Some(wrong) = wrong_in(&output, *status, parts) {
            failures.push(format!("{words}\n  {wrong}"));
        }
        let left: Vec<_> = bench.files().difference(&before).cloned().collect();
        if !left.is_empty() {
            failures.push(format!("{words}\n  it left {left:?} behind"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Says what is wrong with the answer to an input that is refused.
fn wrong_in(output: &Output, status: i32, parts: &[&str]) -> Option<String> {
    let error = String::from_utf8_lossy(&output.stderr);
    let mut wrong = Vec::new();
    if output.status.code() != Some(status) {
        wrong.push(format!("status {:?} instead of {status}", output.status.code()));
    }
    let missing: Vec<_> = parts.iter().filter(|part| !error.contains(**part)).collect();
    if !missing.is_empty() {
        wrong.push(format!("no {missing:?}"));
    }
    // An object in place of a line with --format json.
    let begins = |line: &&str| line.starts_with("error:") || line.starts_with(r#"{"error":"#);
    let errors = error.lines().filter(begins).count();
    if errors != 1 || error.contains("error: error") || error.contains("panicked") {
        wrong.push("not one error".to_owned());
    }
    // Words of libraries, which name neither what is allowed nor what to do.
    let unclear =
        ["invalid digit", "float literal", "empty string", "valid UTF-8", "whole buffer", " is not in "];
    if let Some(word) = unclear.iter().find(|word| error.contains(**word)) {
        wrong.push(format!("it says {word:?}"));
    }
    if error.lines().any(|line| line.chars().count() > 500)
        || error.chars().any(|c| c.is_control() && c != '\n')
    {
        wrong.push("a line without an end, or a control character".to_owned());
    }
    if !output.stdout.is_empty() {
        wrong.push("something on standard output".to_owned());
    }
    (!wrong.is_empty()).then(|| format!("{}\n  {error}", wrong.join("; ")))
}
