//! Errors name what is at fault, and tables fit 80 columns.
#![allow(clippy::unwrap_used)] // a test says best where it stands

#[allow(dead_code)] // each test takes a part of it
mod bench;

use std::fs;

use bench::Bench;
use serde_json::Value;

fn error_of(bench: &Bench, words: &str) -> String {
    String::from_utf8(bench.run(words).stderr).unwrap()
}

#[test]
fn an_error_names_the_file_and_the_place_of_what_is_at_fault() {
    let bench = Bench::new();
    fs::write(bench.path("nan.csv"), "score,label\n1.5,in\nnan,out\n").unwrap();
    bench.refused("audit scores --in nan.csv --delta 1e-6", 2, &["nan.csv, line 3: score is NaN"]);

    let event = |sigma: f64| format!("{{\"kind\":\"gaussian\",\"noise_multiplier\":{sigma}}}");
    fs::write(bench.path("good.json"), event(2.0)).unwrap();
    fs::write(bench.path("bad.json"), format!("[{},{}]", event(1.0), event(-1.0))).unwrap();
    bench.refused("account compose good.json bad.json --delta 1e-6", 2, &["bad.json, event 2 of 2: "]);

    bench.json("certs new --out tls");
    bench.refused("certs show tls", 1, &["tls has no cert.pem", "tls/coordinator", "tls/operator"]);
    fs::create_dir(bench.path("empty")).unwrap();
    bench.refused("certs show empty", 1, &["a folder with cert.pem"]);

    let missing = error_of(&bench, "job list --token-file nosuch");
    assert!(missing.contains("token file nosuch") && !missing.contains("key file"), "{missing}");
}

#[test]
fn an_error_names_flags_that_there_are() {
    let bench = Bench::new();
    bench.json(
        "plan from --mechanism tree --float --iterations 12 --min-sep 4 --max-participations 3 --noise-multiplier 2 \
         --out tree.toml",
    );
    let extended = error_of(&bench, "plan extend --plan tree.toml --iterations 20");
    assert!(
        extended.contains("the plan's mechanism.name is tree") && !extended.contains("--name"),
        "{extended}"
    );

    let coarse = error_of(
        &bench,
        "plan from --mechanism identity --iterations 12 --min-sep 4 --max-participations 3 --noise-multiplier 1e8 \
         --dimension 2000 --batch-size 32",
    );
    assert!(coarse.contains("--noise-multiplier") && !coarse.contains("smaller step"), "{coarse}");
    assert!(!coarse.contains("--rounding is"), "{coarse}");
}

#[test]
fn an_error_is_json_where_answers_are() {
    let bench = Bench::new();
    for (words, status, kind) in [
        ("noise --steps", 2, "invalid_argument"),
        ("account compose nosuch.json --delta 1e-6", 1, "failed"),
        ("account compose key --delta 1e-6", 2, "invalid_argument"),
        ("ledger adopt --file nosuch", 1, "store"),
    ] {
        for format in ["--format json", "--format=json"] {
            let output = bench.run(&format!("{words} {format}"));
            let said = String::from_utf8(output.stderr).unwrap();
            let error: Value =
                serde_json::from_str(said.lines().last().unwrap()).unwrap_or_else(|_| panic!("{said}"));
            assert_eq!(
                (output.status.code(), &error["error"]["kind"]),
                (Some(status), &kind.into()),
                "{words}: {said}"
            );
            assert!(
                !error["error"]["message"].as_str().unwrap().is_empty() && output.stdout.is_empty(),
                "{said}"
            );
        }
    }
}

#[test]
fn tables_are_80_columns_wide_unless_wider_ones_are_wanted() {
    let bench = Bench::new();
    let compare = "plan compare --no-rates plan.toml plan.toml plan.toml plan.toml";
    let resources = "plan resources --plan plan.toml --dimension 100000 --coordinates-per-second 1e6";
    let lint = "plan lint plan.toml --dataset-size 60000";
    for words in [compare, resources, lint] {
        let text = String::from_utf8(bench.run(words).stdout).unwrap();
        assert!(!text.is_empty(), "{words}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words}: {} columns: {line}", line.chars().count());
        }
    }
    let wide = |words: &str| String::from_utf8(bench.run(&format!("{words} --wide")).stdout).unwrap();
    for words in [compare, resources, lint] {
        assert!(wide(words).lines().any(|line| line.chars().count() > 80), "{words}");
    }
}
