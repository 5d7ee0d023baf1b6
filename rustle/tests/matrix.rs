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
        "plan from --mechanism lambda-cgd --lambda 0.5 --iterations 64 --noise-multiplier 3 --out lambda.toml",
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
fn a_longer_plan_is_charged_for_from_its_start() {
    let bench = Bench::new();
    let from =
        "plan from --mechanism lambda-cgd --lambda 0.5 --iterations 60 --min-sep 20 --noise-multiplier 3";
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
    bench.json("plan from --mechanism tree --iterations 60 --noise-multiplier 3 --out tree.toml");
    bench.refused("plan extend --plan tree.toml --iterations 90", 2, &["is tree; allowed: identity, blt"]);
}
