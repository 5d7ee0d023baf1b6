//! Blocks of a data set by the command line: budgets of days, jobs that name what they read, and refusals that say what would fit.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tests::{KEY, TestCluster, job, plans, program, start};

const DIMENSION: u64 = 600;

/// A cluster, and the files that a job is created from.
struct Fixture {
    cluster: TestCluster,
    plan: PathBuf,
    key: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let cluster = start(1);
        let plan = cluster.dir.path().join("a.toml");
        let key = cluster.dir.path().join("a.key");
        std::fs::write(&plan, plans()[0].to_toml_string().unwrap()).unwrap();
        durable_io::create_private_file(&key).unwrap().write_all(&KEY).unwrap();
        Self { cluster, plan, key }
    }

    fn run(&self, format: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(["--format", format]).args(words).args(["--coordinator", &self.cluster.cluster.url()]);
        command.output().unwrap()
    }

    #[track_caller]
    fn answer(&self, words: &[&str]) -> Value {
        let output = self.run("json", words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command that must be refused with this status. Returns what it says.
    #[track_caller]
    fn refused(&self, words: &[&str], status: i32) -> String {
        let output = self.run("json", words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
        error
    }

    /// The words that create a job which names these blocks, or none.
    fn job<'w>(&'w self, name: &'w str, data_set: &'w str, blocks: &'w str) -> Vec<&'w str> {
        let plan = self.plan.to_str().unwrap();
        let key = self.key.to_str().unwrap();
        let mut words =
            vec!["job", "create", "--job", name, "--plan", plan, "--dimension", "600", "--key-file"];
        words.extend([key, "--data-set", data_set]);
        if !blocks.is_empty() {
            words.extend(["--blocks", blocks]);
        }
        words
    }
}

fn add<'w>(block: &'w str, from: &'w str, until: &'w str) -> Vec<&'w str> {
    vec!["budget", "block", "add", "mails", block, "--from", from, "--until", until]
}

#[track_caller]
fn epsilon(value: &Value) -> f64 {
    value["epsilon"].as_f64().unwrap_or_else(|| panic!("no ε in {value}"))
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_check_of_a_rewind_says_that_the_budget_is_too_small() {
    let fixture = Fixture::new();
    fixture.answer(&["budget", "create", "mails", "--unit", "user", "--epsilon", "500", "--delta", "1e-6"]);
    fixture.answer(&fixture.job("a", "mails", ""));
    let name = job("a");
    fixture.cluster.wait_ready(&name);
    let rows = plans()[0].iterations();
    fixture.cluster.fetch(&name, 0..rows, 0..8).unwrap();
    let check = ["job", "rewind", "--job", "a", "--to-row", "0", "--check"];
    let fits = fixture.answer(&check);
    let [before, after] = ["epsilon_before", "epsilon_after"].map(|at| fits[at].as_f64().unwrap());
    let budget = format!("{}", (before + after) / 2.0);
    fixture.answer(&["budget", "grant", "mails", "--epsilon", &budget, "--delta", "1e-6"]);
    for words in [&check[..], &["job", "rewind", "--job", "a", "--to-row", "0", "--yes"]] {
        let said = fixture.refused(words, 1);
        let error: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(error["error"]["kind"], "budget_exceeded", "{words:?}: {said}");
    }
    says(&fixture.refused(&check, 1), &["would be refused", "data set mails", "--to-row"]);
    let charge = &fixture.answer(&["budget", "show", "mails"])["jobs"][0];
    assert_eq!((&charge["rows_released"], &charge["branch"]), (&rows.into(), &0.into()), "{charge}");
}

#[test]
fn jobs_name_blocks_that_are_charged_shown_and_used_up() {
    let fixture = Fixture::new();
    // What a job costs alone, of a data set that is large enough for any.
    let create = ["budget", "create", "mails", "--unit", "user", "--epsilon", "500", "--delta", "1e-6"];
    fixture.answer(&create);
    // A job that is given back: what was tried costs nothing.
    fixture.answer(&fixture.job("old", "mails", ""));
    let alone = epsilon(&fixture.answer(&["budget", "show", "mails"])["reserved"]);
    fixture.answer(&["job", "finish", "--job", "old", "--yes"]);

    let budget = format!("{}", alone * 1.1);
    let nov = [&add("nov", "2026-11-01", "2026-12-01")[..], &["--epsilon", &budget]].concat();
    let shown = fixture.answer(&nov);
    assert_eq!(shown["blocks"][0]["block"], "nov");
    assert_eq!(shown["blocks"][0]["budget"]["delta"], 1e-6);
    let entries = fixture.answer(&nov)["entries"].clone();
    assert_eq!(entries, shown["entries"], "the same block again");
    fixture.answer(&add("dec", "2026-12-01", "2027-01-01"));

    // Days that are none, or of another block, and blocks that are not there.
    says(&fixture.refused(&add("jan", "2027-01-01", "2027-02-30"), 2), &["2027-02-30", "2026-11-01"]);
    says(&fixture.refused(&add("jan", "2027-01-01", "2027-01-01"), 2), &["until is 2027-01-01"]);
    says(&fixture.refused(&add("jan", "2026-12-31", "2027-02-01"), 2), &["block dec of data set mails"]);
    says(&fixture.refused(&add("nov", "2026-11-01", "2026-11-30"), 1), &["exists", "until 2026-12-01"]);
    says(&fixture.refused(&fixture.job("a", "mails", ""), 2), &["account.blocks is missing", "dec, nov"]);
    says(&fixture.refused(&fixture.job("a", "mails", "nov,feb"), 1), &["feb", "mails"]);
    says(&fixture.refused(&fixture.job("a", "mails", "nov,nov"), 2), &["nov twice"]);
    says(&fixture.refused(&fixture.job("a", "letters", "nov"), 1), &["letters"]);
    assert_eq!(fixture.answer(&["budget", "show", "mails"])["jobs"].as_array().unwrap().len(), 1);

    // One job of one block, which is then full; the other is not.
    fixture.answer(&fixture.job("a", "mails", "nov"));
    let name = job("a");
    fixture.cluster.wait_ready(&name);
    fixture.cluster.fetch(&name, 0..1, 0..DIMENSION).unwrap();
    let error = fixture.refused(&fixture.job("b", "mails", "dec,nov"), 1);
    says(&error, &["block nov of data set mails", "noise_multiplier at least", "or other blocks"]);
    fixture.answer(&fixture.job("b", "mails", "dec"));

    let shown = fixture.answer(&["budget", "show", "mails"]);
    let block = |name: &str| {
        let blocks = shown["blocks"].as_array().unwrap();
        blocks.iter().find(|block| block["block"] == name).unwrap()
    };
    assert!((epsilon(&block("nov")["spent"]) / alone - 1.0).abs() < 1e-9, "{shown}");
    assert!((epsilon(&block("nov")["left"]) / (0.1 * alone) - 1.0).abs() < 1e-6, "{shown}");
    assert!((epsilon(&block("dec")["reserved"]) / alone - 1.0).abs() < 1e-9, "{shown}");
    assert_eq!((&shown["per_block"], &shown["all_blocks"]), (&Value::Bool(false), &Value::Null));
    let of_a = shown["jobs"].as_array().unwrap().iter().find(|job| job["job"] == "a").unwrap();
    assert_eq!(of_a["blocks"], serde_json::json!(["nov"]));
    assert!((epsilon(of_a) / alone - 1.0).abs() < 1e-9, "{of_a}");

    let table =
        String::from_utf8(fixture.run("table", &["budget", "show", "mails", "--wide"]).stdout).unwrap();
    says(&table, &["until before", "2026-12-01", "that lies in it", "nov"]);
    says(&fixture.answer(&["budget", "history", "mails"]).to_string(), &["block_added", "2027-01-01"]);
    let report = Command::new(program())
        .args(["budget", "report", "mails", "--coordinator", &fixture.cluster.cluster.url()])
        .output()
        .unwrap();
    says(
        &String::from_utf8(report.stdout).unwrap(),
        &["| nov", "2027-01-01", "clips what one user contributes"],
    );
}

#[test]
fn a_budget_of_each_block_says_that_it_bounds_nothing_over_all() {
    let fixture = Fixture::new();
    let create = ["budget", "create", "mails", "--unit", "example", "--epsilon", "500", "--delta", "1e-6"];
    let shown = fixture.answer(&[&create[..], &["--per-block"]].concat());
    assert_eq!(shown["per_block"], true);
    says(&fixture.refused(&create, 1), &["exists", "mails"]);
    says(&fixture.refused(&fixture.job("a", "mails", ""), 2), &["account.unit is user"]);
    let of = |name: &'static str, blocks: &'static str| {
        [&fixture.job(name, "mails", blocks)[..], &["--unit", "example"]].concat()
    };
    says(&fixture.refused(&of("a", ""), 2), &["budget block add"]);
    fixture.answer(&add("nov", "2026-11-01", "2026-12-01"));
    fixture.answer(&add("dec", "2026-12-01", "2027-01-01"));
    fixture.answer(&of("a", "nov"));
    fixture.answer(&of("b", "dec,nov"));
    let shown = fixture.answer(&["budget", "show", "mails"]);
    let reserved = |at: usize| epsilon(&shown["blocks"][at]["reserved"]);
    // An example lies in one block: both jobs in November, one in December, and the fullest is the data set's.
    assert!(reserved(1) > reserved(0) * 1.2, "{shown}");
    assert_eq!(epsilon(&shown["reserved"]), reserved(1));
    assert_eq!(epsilon(&shown["all_blocks"]), reserved(1));
    let table =
        String::from_utf8(fixture.run("table", &["budget", "show", "mails", "--wide"]).stdout).unwrap();
    says(&table, &["are of the fullest block", "no budget bounds that"]);
    let less = fixture.refused(&["budget", "grant", "mails", "--epsilon", "499"], 2);
    says(&less, &["at least 500", "block dec"]);
}
