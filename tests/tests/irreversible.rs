//! `job finish`, `job destroy` and `job rewind` name their job, say what they cost, and do nothing without a yes.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tests::{TestCluster, job, plans, program, start};

const DIMENSION: u64 = 600;

fn rustle(cluster: &TestCluster, words: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(["--format", "json"]).args(words).args(["--coordinator", &cluster.cluster.url()]);
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs a command that must be refused with this status. Returns what it says.
#[track_caller]
fn refused(cluster: &TestCluster, words: &[&str], status: i32) -> String {
    let output = rustle(cluster, words);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
    assert!(output.stdout.is_empty(), "{words:?}");
    error
}

#[track_caller]
fn answer(cluster: &TestCluster, words: &[&str]) -> Value {
    let output = rustle(cluster, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn epsilon(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[test]
fn nothing_is_ended_without_a_yes() {
    let cluster = start(1);
    let name = job("default");
    cluster.create(&name, &plans()[3], DIMENSION, 1).unwrap();
    cluster.wait_ready(&name);
    cluster.fetch(&name, 0..5, 0..8).unwrap();
    let head = || cluster.runtime.block_on(cluster.client.jobs().head(&name)).unwrap().hash;
    let before = head();

    for words in [&["job", "finish"][..], &["job", "destroy"], &["job", "rewind", "--to-row", "2"]] {
        // Even the job that other commands take by default.
        for yes in [&[][..], &["--yes"]] {
            let error = refused(&cluster, &[words, yes].concat(), 2);
            assert!(error.contains("--job"), "{error}");
        }
        let named = [words, &["--job", "default"]].concat();
        let error = refused(&cluster, &named, 2);
        for part in ["default", "--yes", "Nothing was changed"] {
            assert!(error.contains(part), "{words:?} does not say {part:?}: {error}");
        }
        let unknown = refused(&cluster, &[words, &["--job", "another", "--yes"]].concat(), 1);
        assert!(unknown.contains("another"), "{unknown}");
    }
    let beyond = refused(&cluster, &["job", "rewind", "--job", "default", "--to-row", "6", "--yes"], 2);
    assert!(beyond.contains("--to-row is 6; allowed: 0 to 5"), "{beyond}");
    assert_eq!(head(), before, "a refused command changed the ledger");

    // The cost that is stated beforehand is the cost that the coordinator reports afterwards.
    let rewind = ["job", "rewind", "--job", "default", "--to-row", "2"];
    let report = || answer(&cluster, &["job", "report", "--job", "default"]);
    let planned = epsilon(&report(), "epsilon");
    let check = answer(&cluster, &[&rewind[..], &["--check"]].concat());
    assert_eq!(head(), before, "a check changed the ledger");
    assert_eq!(epsilon(&check, "epsilon_before"), planned);
    assert!(epsilon(&check, "epsilon_after") > planned, "{check}");
    let rewound = answer(&cluster, &[&rewind[..], &["--yes"]].concat());
    assert_eq!(rewound["branch"], 1);
    assert_eq!(rewound["epsilon_after"], check["epsilon_after"]);
    assert_eq!(epsilon(&report(), "epsilon"), epsilon(&check, "epsilon_after"));

    // The branch itself has bound no row, and all five stay released.
    assert_eq!(answer(&cluster, &["job", "show", "--job", "default"])["rows_bound"], 0);
    for end in ["finish", "destroy"] {
        let error = refused(&cluster, &["job", end, "--job", "default"], 2);
        let says = ["5 rows are released on its 2 branches", "at row 2 of "];
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
    }
    let finished = answer(&cluster, &["job", "finish", "--job", "default", "--yes"]);
    assert_eq!(finished["state"], "finished");
    let destroyed = answer(&cluster, &["job", "destroy", "--job", "default", "--yes"]);
    assert_eq!(destroyed["rows_released"], 5);
}

#[test]
fn no_row_is_bound_that_can_not_be_written() {
    let cluster = start(1);
    let name = job("kept");
    cluster.create(&name, &plans()[0], DIMENSION, 1).unwrap();
    cluster.wait_ready(&name);
    let folder = cluster.dir.path().display().to_string();
    let fetch = ["fetch", "--job", "kept", "--steps", "0..2", "--range", "0..8", "--out"];
    for (out, says) in
        [(folder.clone(), "a folder is there"), (format!("{folder}/missing/x.npy"), "there is no folder")]
    {
        let error = refused(&cluster, &[&fetch[..], &[&out]].concat(), 1);
        assert!(error.contains(says) && error.contains(&out), "{error}");
    }
    let bound = || answer(&cluster, &["job", "show", "--job", "kept"])["rows_bound"].clone();
    // What the job does not have is bad use, and is found before a row is bound or a file made.
    let file = format!("{folder}/beyond.npy");
    for (rows, range, kind) in
        [("0..5000", "0..8", "row_beyond_iterations"), ("0..2", "0..100000", "range_beyond_dimension")]
    {
        let words = [
            "fetch",
            "--job",
            "kept",
            "--steps",
            rows,
            "--range",
            range,
            "--commitment",
            "x",
            "--out",
            &file,
        ];
        let error: Value = serde_json::from_str(&refused(&cluster, &words, 2)).unwrap();
        assert_eq!(error["error"]["kind"], kind, "{error}");
        assert!(!std::path::Path::new(&file).exists());
    }
    assert_eq!(bound(), 0);

    let output = rustle(&cluster, &[&fetch[..], &["-", "--commitment", "batches 0 and 1"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.starts_with(b"\x93NUMPY"));
    assert_eq!(output.stdout.len(), 128 + 2 * 8 * 4, "the rows and nothing else");
    assert_eq!(bound(), 2);
}
