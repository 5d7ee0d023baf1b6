//! `rustle report` and `rustle account event` as run by the binary: fields, text, pages, bad input.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fs;

use bench::Bench;
use serde_json::{Value, json};

const REWOUND: &str = r#"{"branches": [
    {"branch": 0, "parent": null, "from_row": 0, "released": [[0, 6]]},
    {"branch": 1, "parent": 0, "from_row": 4, "released": [[4, 5], [7, 9]]}]}"#;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.plan("band.toml", "band-toeplitz --coefficients 1,0.5,0.25");
    bench.plan("other.toml", "band-toeplitz --coefficients 1,0.5,0.26");
    fs::write(bench.path("released.json"), REWOUND).unwrap();
    bench
}

fn number(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"))
}

fn text(bench: &Bench, words: &str) -> String {
    let output = bench.run(words);
    assert_eq!(output.status.code(), Some(0), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_json_has_every_field() {
    let statement = bench().json("report --plan plan.toml --delta 1e-6,1e-9");
    let names: Vec<&str> = statement.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec![
        "report",
        "of",
        "setting",
        "unit",
        "adjacency",
        "accounting",
        "guarantees",
        "rho",
        "mu",
        "false_positive_rate",
        "true_positive_rate",
        "exact",
        "sampling",
        "mechanism",
        "iterations",
        "bands",
        "min_sep",
        "max_participations",
        "noise_multiplier",
        "clip_norm",
        "sensitivity",
        "sensitivity_exact",
        "sensitivity_planned",
        "released",
        "job",
        "plan_digest",
        "layout_digest",
        "stream_version",
        "chacha_rounds",
        "rustle_version",
        "date",
        "event",
    ];
    expected.sort_unstable();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let guarantees = statement["guarantees"].as_array().unwrap();
    assert_eq!(guarantees.len(), 2);
    assert!(number(&guarantees[0], "epsilon") < number(&guarantees[1], "epsilon"));
    assert_eq!((&statement["of"], &statement["sampling"]), (&json!("plan"), &json!({"kind": "any-order"})));
}

#[test]
fn the_figures_are_the_accounts() {
    let bench = bench();
    for relation in ["zero-out", "add-remove", "replace"] {
        let ask = format!("--plan plan.toml --delta 1e-7 --neighbouring {relation}");
        let statement = bench.json(&format!("report {ask}"));
        let account = bench.json(&format!("account plan {ask}"));
        assert_eq!(statement["guarantees"][0]["epsilon"], account["epsilon"]);
        assert!((number(&statement, "rho") / number(&account, "rho") - 1.0).abs() < 1e-12);
        assert_eq!(statement["adjacency"], relation);
    }
    let sampled = "report --plan band.toml --sampling cyclic-poisson --sampling-probability 0.1";
    let statement = bench.json(sampled);
    assert!(statement["accounting"] == "privacy-loss-distribution" && statement["rho"].is_null());
    let without = &statement["without_sampling"]["guarantees"][0];
    assert!(number(&statement["guarantees"][0], "epsilon") < number(without, "epsilon"));
    fs::write(bench.path("event.json"), statement["event"].to_string()).unwrap();
    let account = bench.json("account event --event event.json --plan band.toml --delta 1e-6");
    let stated = number(&statement["guarantees"][0], "epsilon");
    let accounted = number(&account, "epsilon");
    assert!((stated / accounted - 1.0).abs() < 1e-6, "{stated} {accounted}");
    bench.refused("account event --event event.json --plan other.toml --delta 1e-6", 2, &["plan_digest"]);
}

/// The plan allows one participation; in the batches every record takes part ten times.
#[test]
fn figures_without_sampling_hold_for_sampled_batches() {
    let bench = bench();
    bench.json(
        "plan from --float --mechanism identity --iterations 100 --min-sep 100 --max-participations 1 \
         --noise-multiplier 4 --out once.toml",
    );
    let released = r#"{"branches": [{"branch": 0, "parent": null, "from_row": 0, "released": [[0, 100]]}]}"#;
    fs::write(bench.path("all.json"), released).unwrap();
    for sampling in [
        "balls-in-bins --batches-per-epoch 10 --samples 65536 --seed 1",
        "cyclic-poisson --sampling-probability 0.1",
        "b-min-sep --min-sep 10 --sampling-probability 0.1 --samples 65536 --seed 1",
        "random-allocation --batches-per-epoch 10",
    ] {
        let statement =
            bench.json(&format!("report --plan once.toml --released all.json --sampling {sampling}"));
        let epsilon = |figures: &Value| number(&figures["guarantees"][0], "epsilon");
        let headline = epsilon(&statement);
        fs::write(bench.path("event.json"), statement["event"].to_string()).unwrap();
        let account = bench.json("account event --event event.json --plan once.toml --delta 1e-6");
        assert!(epsilon(&statement["without_sampling"]) >= headline, "{statement}");
        for other in [epsilon(&statement["released"]), number(&account, "epsilon")] {
            assert!(other >= headline * (1.0 - 1e-6), "{sampling}: {other} below {headline}");
        }
        assert_eq!(statement["plan_participation"], json!({"min_sep": 100, "max_participations": 1}));
    }
    let words =
        "report --plan once.toml --sampling cyclic-poisson --sampling-probability 0.1 --out page.html";
    text(&bench, words);
    let page = fs::read_to_string(bench.path("page.html")).unwrap();
    assert!(page.contains("widened to cover them"), "{page}");
}

#[test]
fn rewinds_are_charged_for() {
    let bench = bench();
    let plan = bench.json("report --plan plan.toml");
    let rewound = bench.json("report --plan plan.toml --released released.json");
    let released = &rewound["released"];
    assert_eq!((&released["rows"], &released["reached"]), (&json!(9), &json!(9)));
    let abandoned = &released["abandoned"][0];
    assert_eq!((&abandoned["branch"], &abandoned["rows"]), (&json!(0), &json!([4, 6])));
    let kept = number(&plan, "sensitivity");
    let extra = number(abandoned, "sensitivity");
    assert!((number(&rewound, "sensitivity") - kept.hypot(extra)).abs() < 1e-12);
    assert_eq!(number(&rewound, "sensitivity_planned"), kept);
    let epsilon = |figures: &Value| number(&figures["guarantees"][0], "epsilon");
    assert!(epsilon(&rewound) > epsilon(&plan) && epsilon(released) < epsilon(&rewound));
    assert_eq!(rewound["sensitivity_exact"], json!(false));
}

#[test]
fn markdown_covers_the_checklist() {
    let bench = bench();
    let page =
        text(&bench, "report --plan plan.toml --released released.json --delta 1e-6,1e-8 --unit device");
    for said in [
        "# Privacy of a run of 12 rounds of blt",
        "differentially private for one device",
        "zero-concentrated DP",
        "Central:",
        "hyper-parameters",
        "every intermediate model",
        "Device: all data on one device",
        "Zero-out:",
        "j − i ≥ 4",
        "at most 3 of them",
        "the code that forms the batches must",
        "None is relied upon",
        "| δ | ε | ε so far |",
        "| 1e-8 |",
        "**Rewinds.**",
        "| 0 | 4..6 |",
        "| plan digest |",
        "rustle 0.1.0",
    ] {
        assert!(page.contains(said), "{said} is not in\n{page}");
    }
    let page = text(&bench, "report --plan plan.toml --neighbouring replace --unit example");
    assert!(page.contains("doubled") && page.contains("one example") && !page.contains("Rewinds"), "{page}");
}

#[test]
fn a_page_refers_to_nothing_outside() {
    let bench = bench();
    let words =
        "report --plan band.toml --sampling cyclic-poisson --sampling-probability 0.1 --out page.html";
    let answer = bench.json(&words.replace("--out page.html", "--out page.json"));
    assert_eq!(answer["out"], "page.json");
    assert!(text(&bench, words).contains("page.html"));
    let page = fs::read_to_string(bench.path("page.html")).unwrap();
    // Each chart twice: for a wide page and for a narrow one.
    assert_eq!(page.matches("<svg").count(), 6, "{page}");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "<script", "@import", "url("] {
        assert!(!elsewhere.contains(outside), "{outside} in the page");
    }
    // --format json writes JSON, whatever the file's extension.
    let written: Value = serde_json::from_str(&fs::read_to_string(bench.path("page.json")).unwrap()).unwrap();
    assert_eq!(written["mechanism"], "band-toeplitz");
}

#[test]
fn monte_carlo_figures_are_labelled() {
    let bench = bench();
    let words =
        "report --plan band.toml --sampling balls-in-bins --batches-per-epoch 4 --samples 4096 --seed 5";
    let statement = bench.json(words);
    assert_eq!(statement["accounting"], "monte-carlo");
    assert!(statement["guarantees"][0]["delta_upper_bound"].is_number());
    assert!(statement["true_positive_rate"].is_null() && statement["exact"] == json!(false));
    let page = text(&bench, words);
    assert!(page.contains("4096 samples, seed 5") && page.contains("by Monte Carlo"), "{page}");

    let words = "report --plan band.toml --sampling b-min-sep --min-sep 4 --sampling-probability 0.1 --warm-start \
                 --samples 4096 --seed 5";
    let resting = bench.json(words);
    assert_eq!(resting["accounting"], "monte-carlo");
    let epsilon = |statement: &Value| statement["guarantees"][0]["epsilon"].as_f64().unwrap();
    let known = bench.json("report --plan band.toml");
    assert!(epsilon(&resting) < epsilon(&known), "{resting} {known}");
    let page = text(&bench, words);
    assert!(page.contains("none of the 3 rounds before") && page.contains("4096 samples, seed 5"), "{page}");
    let account = bench.json(
        "account b-min-sep --plan band.toml --min-sep 4 --sampling-probability 0.1 --warm-start --samples 4096 \
         --seed 5 --delta 1e-6",
    );
    assert_eq!(account["epsilon"], resting["guarantees"][0]["epsilon"]);
}

#[test]
fn what_cannot_be_stated_is_named() {
    let bench = bench();
    bench.json(
        "plan from --float --mechanism identity --iterations 5 --min-sep 1 --max-participations 1 \
         --noise-multiplier 0 --out silent.toml",
    );
    fs::write(bench.path("broken.json"), REWOUND.replace("[4, 5]", "[3, 5]")).unwrap();
    fs::write(bench.path("no.json"), "{}").unwrap();
    for (words, message) in [
        ("report", "--plan"),
        ("report --plan plan.toml --delta 2", "delta is 2"),
        ("report --plan plan.toml --seed 3", "--seed is given; --sampling any-order does not take it"),
        (
            "report --plan band.toml --sampling cyclic-poisson",
            "--sampling-probability is missing; --sampling cyclic-poisson requires it",
        ),
        ("report --plan plan.toml --sampling cyclic-poisson --sampling-probability 0.1", "bands"),
        ("report --plan band.toml --sampling cyclic-poisson --sampling-probability 0.5", "at most 1"),
        ("report --plan band.toml --sampling balls-in-bins --batches-per-epoch 5", "divisor of 12"),
        (
            "report --plan band.toml --sampling balls-in-bins --batches-per-epoch 4 --batch-cap 9 --dataset-size 90",
            "--batch-cap is given; --sampling balls-in-bins does not take it",
        ),
        (
            "report --plan band.toml --sampling cyclic-poisson --sampling-probability 0.1 --batch-cap 9 --dataset-size 90",
            "independent groups",
        ),
        (
            "report --plan band.toml --sampling balls-in-bins --batches-per-epoch 4 --neighbouring replace",
            "neighbouring is replace; allowed: zero-out",
        ),
        ("report --plan band.toml --sampling random-allocation --batches-per-epoch 4", "allowed: identity"),
        ("report --plan band.toml --selected 2", "--selected is given"),
        (
            "report --plan band.toml --sampling b-min-sep --min-sep 4",
            "--sampling-probability is missing; --sampling b-min-sep requires it",
        ),
        (
            "report --plan band.toml --sampling b-min-sep --min-sep 2 --sampling-probability 0.1",
            "bands of C is 3; allowed: at most min_sep",
        ),
        ("report --plan band.toml --min-sep 4", "--min-sep is given; --sampling any-order does not take it"),
        ("report --plan silent.toml", "noise_multiplier is 0"),
        ("report --plan plan.toml --released broken.json", "released rows 3..5; allowed: within 4..12"),
        ("report --plan plan.toml --released no.json", "branches"),
        (
            "report --plan band.toml --released released.json --sampling cyclic-poisson \
             --sampling-probability 0.1",
            "abandoned 1 stretches",
        ),
        (
            "report --plan plan.toml --format table",
            "--format is table; allowed for reports: markdown, json, html",
        ),
        ("key new --out k --format html", "rustle budget report"),
        ("account event --event no.json --delta 1e-6", "kind"),
    ] {
        bench.refused(words, 2, &[message]);
    }
}
