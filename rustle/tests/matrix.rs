//! `rustle account matrix` and `rustle plan extend` as run by the binary.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use bench::Bench;
use serde_json::Value;

fn number(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[test]
fn matrix_accounts_agree_with_samples_and_refuse_what_they_lack() {
    let bench = Bench::new();
    bench.json(
        "plan from --float --mechanism lambda-cgd --lambda 0.5 --iterations 64 --noise-multiplier 3 --out lambda.toml",
    );
    let words =
        "account matrix --plan lambda.toml --sampling balls-in-bins --batches-per-epoch 16 --delta 1e-5";
    let sampled = bench.json(&format!("{words} --method monte-carlo --samples 65536 --seed 3"));
    let estimate = number(&sampled, "epsilon");
    assert_eq!((&sampled["method"], &sampled["sampling"]), (&"monte-carlo".into(), &"balls-in-bins".into()));
    for method in ["conditional", "renyi"] {
        let answer = bench.json(&format!("{words} --method {method}"));
        let epsilon = number(&answer, "epsilon");
        assert!(epsilon > 0.98 * estimate && epsilon < 2.0 * estimate, "{answer} {estimate}");
        assert_eq!((answer["method"].as_str(), answer["epochs"].as_u64()), (Some(method), Some(4)));
    }
    let anew = bench.json(&words.replace("balls-in-bins", "random-allocation"));
    assert!(number(&anew, "epsilon") > 0.0 && anew["neighbouring"] == "zero-out", "{anew}");
    let b_min_sep = words.replace("balls-in-bins --batches-per-epoch 16", "b-min-sep");
    bench.refused(&b_min_sep, 2, &["allowed with --sampling b-min-sep: monte-carlo"]);
    let anew = words.replace("balls-in-bins", "random-allocation");
    bench.refused(&format!("{anew} --method monte-carlo"), 2, &["conditional, renyi"]);
    bench.refused(&format!("{words} --samples 4096"), 2, &["--samples is given"]);
    bench.refused(&format!("{words} --min-sep 2"), 2, &["--min-sep is given"]);
    bench.refused(&words.replace("16", "17"), 2, &["iterations is 64; allowed: whole epochs"]);
}

#[test]
fn a_grid_counts_with_the_chance_to_leave_the_mechanism() {
    let bench = Bench::new();
    let grid = "--iterations 12 --noise-multiplier 4 --dimension 1000000 --grid --rounding dithered --summing-error 0";
    bench.json(&format!("plan from --mechanism band-sqrt --bands 3 {grid} --out grid.toml"));
    bench.json(&format!("plan from --mechanism blt --theta 0.9 --omega 0.2 {grid} --out blt.toml"));
    let shown = bench.json("plan show grid.toml");
    let figure = |name: &str| number(&shown["grid"], name);
    let tau = figure("range_failure") + figure("buffer_failure") + figure("rounding_failure");
    assert!(tau > 0.0, "{shown}");
    let words = "--sampling balls-in-bins --batches-per-epoch 6";
    let answer = bench.json(&format!("account matrix --plan grid.toml {words} --delta 1e-5"));
    assert!(number(&answer, "epsilon") > 0.0);
    // So far out nothing is left of the mechanism's own δ.
    let answer = bench.json(&format!("account matrix --plan grid.toml {words} --epsilon 6"));
    let least = tau * (1.0 + 6f64.exp());
    assert!(number(&answer, "delta") >= least * (1.0 - 1e-12), "{answer}: {least}");
    for method in ["conditional", "renyi"] {
        let blt = format!("account matrix --plan blt.toml {words} --method {method} --delta 1e-5");
        bench.refused(&blt, 2, &["any but blt"]);
    }
}

#[test]
fn columns_that_account_band_mf_is_not_for_are_noted() {
    let bench = Bench::new();
    let words =
        "plan optimize --float --mechanism band-mf --iterations 32 --min-sep 4 --max-participations 8";
    for (flags, is_noted) in [("--out by-epoch.toml", true), ("--column-norms equal --out equal.toml", false)]
    {
        let output = bench.run(&format!("{words} {flags}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said.contains("not `account band-mf`"), is_noted, "{said}");
    }
}

#[test]
fn a_longer_plan_is_charged_for_from_its_start() {
    let bench = Bench::new();
    let from = "plan from --float --mechanism lambda-cgd --lambda 0.5 --iterations 60 --min-sep 20 --noise-multiplier 3";
    bench.json(&format!("{from} --max-participations 3 --out short.toml"));
    let answer = bench.json("plan extend --plan short.toml --iterations 100 --out long.toml");
    assert_eq!((answer["max_participations"].as_u64(), answer["extends"].as_u64()), (Some(5), Some(60)));
    let cost = |plan: &str| number(&bench.json(&format!("account plan --plan {plan} --delta 1e-6")), "rho");
    assert_eq!(
        (number(&answer, "rho_before"), number(&answer, "rho")),
        (cost("short.toml"), cost("long.toml"))
    );
    assert!(cost("long.toml") > 1.5 * cost("short.toml"));
    bench.refused("plan extend --plan short.toml --iterations 60", 2, &["more than 60"]);
    bench.json("plan from --float --mechanism tree --iterations 60 --noise-multiplier 3 --out tree.toml");
    bench.refused("plan extend --plan tree.toml --iterations 90", 2, &["is tree; allowed: identity, blt"]);
}
