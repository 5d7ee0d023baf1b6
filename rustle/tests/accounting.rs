//! `rustle account` and `rustle calibrate` as run by the binary: figures, relations, bad input.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use bench::Bench;
use serde_json::Value;

const POISSON: &str =
    "account poisson --noise-multiplier 1 --sampling-probability 0.01 --iterations 2000 --delta 1e-6";
const USER: &str =
    "account user-level --noise-multiplier 1 --sampling-probability 0.01 --iterations 2000 --delta 1e-6";
const BAND_MF: &str = "account band-mf --noise-multiplier 1 --sampling-probability 0.005 --bands 8 --iterations 2000 --delta 1e-6";

fn number(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[test]
fn sampled_accounts_match_dp_accounting() {
    // dp-accounting 0.6.0, grid 1e-4.
    let bench = Bench::new();
    for (words, epsilon) in [
        (POISSON.to_owned(), 2.955257999),
        (format!("{USER} --group-size 1"), 2.955257998),
        (format!("{USER} --group-size 4"), 14.53498083),
        (format!("{USER} --group-size 16"), 90.90120793),
        (BAND_MF.to_owned(), 4.826144242),
    ] {
        let answer = bench.json(&words);
        let got = number(&answer, "epsilon");
        assert!((-1e-5..5e-5).contains(&(got / epsilon - 1.0)), "{words}: {got}, peer {epsilon}");
        assert_eq!((number(&answer, "delta"), number(&answer, "noise_multiplier")), (1e-6, 1.0));
        assert!(answer["neighbouring"] == "zero-out" && answer["rho"].is_null());
    }
}

#[test]
fn calibration_satisfies_epsilon_and_delta() {
    let bench = Bench::new();
    for shape in [
        "poisson --sampling-probability 0.02 --iterations 300",
        "user-level --sampling-probability 0.02 --iterations 100 --group-size 3",
        "band-mf --sampling-probability 0.01 --bands 10 --iterations 1000",
        "tree --iterations 100 --min-sep 20 --max-participations 3",
        "gaussian --sensitivity 2",
        "plan --plan plan.toml",
    ] {
        for relation in ["zero-out", "add-remove", "replace"] {
            if shape.starts_with("user-level") && relation == "replace" {
                continue;
            }
            let goal = format!("--delta 1e-7 --neighbouring {relation}");
            let found = bench.json(&format!("calibrate {shape} --epsilon 2 {goal}"));
            let sigma = number(&found, "noise_multiplier");
            let reached = number(&found, "epsilon");
            assert!(reached <= 2.0 * (1.0 + 1e-9) && reached > 1.999, "{shape} {relation}: {reached}");
            if !shape.starts_with("plan") {
                let account = bench.json(&format!("account {shape} --noise-multiplier {sigma} {goal}"));
                let again = number(&account, "epsilon");
                assert!((again / reached - 1.0).abs() < 1e-9, "{shape} {relation}: {again}, {reached}");
            }
        }
    }
}

#[test]
fn random_allocation_is_bracketed() {
    let bench = Bench::new();
    let words =
        "account random-allocation --noise-multiplier 1 --batches-per-epoch 100 --epochs 1 --delta 1e-6";
    let answer = bench.json(words);
    let upper = number(&answer, "epsilon");
    let lower = number(&answer, "epsilon_lower");
    assert!((0.8576..upper).contains(&lower) && upper < 0.8584, "{lower} {upper}");
    assert_eq!((answer["selected"].as_u64(), number(&answer, "delta")), (Some(1), 1e-6));
    let twice = bench.json(&format!("{words} --selected 2"));
    let lower_of_two = number(&twice, "epsilon_lower");
    assert!((1.4..1.6).contains(&lower_of_two) && lower_of_two < number(&twice, "epsilon"), "{twice}");
    let goal = "calibrate random-allocation --batches-per-epoch 20 --epochs 2 --delta 1e-6 --epsilon 1";
    let found = bench.json(goal);
    assert!((0.999..=1.0).contains(&number(&found, "epsilon")), "{found}");
    bench.refused(&format!("{goal} --find iterations"), 2, &["allowed for random-allocation"]);
    bench.refused(&format!("{words} --selected 101"), 2, &["participations in an epoch is 101"]);
    bench.refused(&format!("{words} --neighbouring replace"), 2, &["zero-out or add-remove"]);
}

#[test]
fn events_compose_and_delta_is_known_at_epsilon() {
    let bench = Bench::new();
    let write = |name: &str, text: &str| std::fs::write(bench.path(name), text).unwrap();
    write("one.json", r#"{"kind": "gaussian", "noise_multiplier": 4}"#);
    write(
        "two.json",
        r#"[{"kind": "gaussian", "noise_multiplier": 3}, {"kind": "laplace", "noise_multiplier": 20}]"#,
    );
    let answer = bench.json("account compose one.json two.json --delta 1e-6");
    let epsilon = number(&answer, "epsilon");
    let gaussians = bench.json("account gaussian --sensitivity 1 --noise-multiplier 2.4 --delta 1e-6");
    let alone = number(&gaussians, "epsilon");
    assert!(alone < epsilon && epsilon < alone + 0.05, "{alone} {epsilon}");
    assert_eq!((answer["events"].as_u64(), answer["rho"].is_null()), (Some(3), true));
    // δ at the ε of δ is δ, for every account.
    for words in [
        "compose one.json two.json",
        "event --event one.json",
        "poisson --noise-multiplier 1 --sampling-probability 0.01 --iterations 100",
        "tree --noise-multiplier 3 --iterations 20",
        "plan --plan plan.toml",
    ] {
        let epsilon = number(&bench.json(&format!("account {words} --delta 1e-6")), "epsilon");
        let delta = number(&bench.json(&format!("account {words} --epsilon {epsilon}")), "delta");
        assert!((delta / 1e-6 - 1.0).abs() < 1e-2, "{words}: {delta}");
    }
    bench.refused("account compose one.json", 2, &["--delta", "--epsilon"]);
    bench.refused("account compose one.json --delta 1e-6 --epsilon 1", 2, &["--epsilon"]);
    bench.refused("account compose - - --delta 1e-6", 2, &["more than once"]);
    write("three.json", r#"{"kind": "magic"}"#);
    bench.refused("account compose one.json three.json --delta 1e-6", 2, &["three.json", "magic"]);
}

#[test]
fn replacement_doubles_what_is_not_sampled() {
    let bench = Bench::new();
    let words = "account gaussian --sensitivity 1 --noise-multiplier 2 --delta 1e-6";
    let replace = bench.json(&format!("{words} --neighbouring replace"));
    let double = bench.json(&words.replace("--sensitivity 1", "--sensitivity 2"));
    assert_eq!(number(&replace, "epsilon"), number(&double, "epsilon"));
    assert_eq!(number(&replace, "rho"), 0.5);
    let full = POISSON.replace("0.01", "1");
    let rho = number(&bench.json(&full), "rho");
    assert!((rho - 1000.0).abs() < 1e-9, "all taking part is a Gaussian mechanism: {rho}");
}

#[test]
fn a_cap_on_batches_costs() {
    let bench = Bench::new();
    let words =
        "account poisson --noise-multiplier 1 --sampling-probability 0.01 --iterations 100 --delta 1e-6";
    let without = number(&bench.json(words), "epsilon");
    let capped = number(&bench.json(&format!("{words} --dataset-size 1000 --batch-cap 15")), "epsilon");
    assert!(capped > without && capped < 5.25, "{capped} {without}");
    bench.refused(&format!("{words} --batch-cap 15"), 2, &["--dataset-size"]);
    // One group is plain Poisson sampling; groups of one size have a public size, independent ones have not.
    let one = words.replace("poisson", "band-mf --bands 1");
    let same = number(&bench.json(&format!("{one} --dataset-size 1000 --batch-cap 15")), "epsilon");
    assert_eq!(same, capped);
    let groups = BAND_MF.replace("2000", "200");
    let cap = "--dataset-size 10000 --batch-cap 60";
    let free = number(&bench.json(&groups), "epsilon");
    let split = number(&bench.json(&format!("{groups} --partition equal-split {cap}")), "epsilon");
    assert!(split > 1.01 * free, "{split} {free}");
    bench.refused(&format!("{groups} {cap}"), 2, &["independent groups", "groups of one size"]);
    for kind in
        ["balls-in-bins --batches-per-epoch 4 --epochs 3", "b-min-sep --min-sep 4 --sampling-probability 0.1"]
    {
        bench.refused(&format!("account {kind} --plan plan.toml --delta 1e-6 {cap}"), 2, &["--dataset-size"]);
    }
}

#[test]
fn one_more_record_than_the_public_number_counts_under_adding() {
    let bench = Bench::new();
    let words = "account poisson --noise-multiplier 1 --sampling-probability 1 --iterations 1 --delta 1e-6 \
                 --dataset-size 10 --batch-cap 10 --neighbouring";
    let zeroed = number(&bench.json(&format!("{words} zero-out")), "epsilon");
    let added = number(&bench.json(&format!("{words} add-remove")), "epsilon");
    assert!(added > 1.5 * zeroed, "{added} {zeroed}");
}

#[test]
fn bad_input_names_the_value_and_the_range() {
    let bench = Bench::new();
    let refused = |words: String, parts: &[&str]| bench.refused(&words, 2, parts);
    for sigma in ["0", "-1", "nan"] {
        let words = POISSON.replace("--noise-multiplier 1", &format!("--noise-multiplier {sigma}"));
        refused(words, &["noise multiplier is", "above zero"]);
    }
    for (q, shown) in [("0", "0"), ("1.5", "1.5"), ("-0.1", "-0.1")] {
        let words = POISSON.replace("0.01", q);
        refused(words, &[&format!("sampling probability is {shown}"), "at most 1"]);
    }
    for delta in ["0", "1", "-0.5"] {
        refused(POISSON.replace("1e-6", delta), &["delta is", "strictly between 0 and 1"]);
    }
    refused(POISSON.replace("2000", "0"), &["0", "1 or more"]);
    refused(BAND_MF.replace("0.005", "0.5"), &["bands times sampling probability is 4", "at most 1"]);
    refused(format!("{BAND_MF} --neighbouring add-remove --partition equal-split"), &["groups of one size"]);
    refused(format!("{USER} --group-size 0"), &["group size is 0", "1 to 1048576"]);
    refused(format!("{USER} --group-size 1048577"), &["group size is 1048577", "1 to 1048576"]);
    refused(format!("{USER} --group-size 4 --neighbouring replace"), &["no worst pair"]);
    refused(format!("{POISSON} --neighbouring sideways"), &["zero-out", "replace"]);
    let goal = "calibrate poisson --sampling-probability 0.01 --iterations 100 --delta 1e-6 --epsilon";
    refused(format!("{goal} 0"), &["epsilon is 0"]);
    refused(format!("{goal} -3"), &["epsilon is -3"]);
}

#[test]
fn a_comma_separates_rounds_and_never_thousands() {
    let bench = Bench::new();
    let tree = |restarts: &str| {
        bench.json(&format!("account tree --noise-multiplier 3 --iterations 200000 --delta 1e-6 {restarts}"))
    };
    let two = tree("--restarts 100 --restarts 200");
    for list in ["--restarts 100,200", "--restarts=100,200", "--restarts 1e2,200"] {
        assert_eq!(tree(list), two, "{list}");
    }
    // Read as one number, the list costs less.
    assert!(number(&tree("--restarts 100200"), "epsilon") < number(&two, "epsilon"));
}

#[test]
fn every_number_can_be_found() {
    let bench = Bench::new();
    // Each number found, used in an account, satisfies the (ε, δ) closely.
    for (find, shape) in [
        ("iterations", "poisson --noise-multiplier 1 --sampling-probability 0.02"),
        ("sampling-probability", "poisson --noise-multiplier 1 --iterations 300"),
        ("iterations", "user-level --noise-multiplier 3 --sampling-probability 0.02 --group-size 2"),
        ("sampling-probability", "user-level --noise-multiplier 3 --iterations 100 --group-size 2"),
        ("iterations", "band-mf --noise-multiplier 1 --sampling-probability 0.005 --bands 8"),
        ("sampling-probability", "band-mf --noise-multiplier 1 --iterations 1000 --bands 8"),
        ("noise-multiplier", "poisson --sampling-probability 0.02 --iterations 300"),
    ] {
        let found = bench.json(&format!("calibrate {shape} --find {find} --epsilon 2 --delta 1e-6"));
        let kept = found["noise_multiplier"].as_f64().unwrap();
        let flag = match find {
            "iterations" => format!("--iterations {}", found["iterations"]),
            "noise-multiplier" => format!("--noise-multiplier {kept}"),
            _ => format!("--sampling-probability {}", found["sampling_probability"]),
        };
        let again = bench.json(&format!("account {shape} {flag} --delta 1e-6"));
        let reached = number(&again, "epsilon");
        assert!(reached <= 2.0 * (1.0 + 1e-9) && reached > 1.9, "{shape}: {reached} with {flag}");
        assert!((reached / number(&found, "epsilon") - 1.0).abs() < 1e-9, "{shape}");
    }
    for words in ["plan --plan plan.toml", "tree --iterations 100 --min-sep 20 --noise-multiplier 8"] {
        let words = format!("calibrate {words} --find participations --epsilon 3 --delta 1e-6");
        let found = bench.json(&words);
        let k = found["max_participations"].as_u64().unwrap();
        assert!(k >= 1 && number(&found, "epsilon") <= 3.0, "{found}");
    }
}

#[test]
fn what_cannot_be_found_is_named() {
    let bench = Bench::new();
    for (words, message) in [
        (
            "gaussian --sensitivity 1 --find iterations",
            "--find is iterations; allowed for gaussian: noise-multiplier",
        ),
        (
            "poisson --iterations 3 --sampling-probability 0.1 --find participations",
            "--find is participations; allowed for poisson: noise-multiplier, iterations, sampling-probability",
        ),
        (
            "poisson --iterations 3 --find iterations --sampling-probability 0.1",
            "--iterations is given, and --find iterations computes it; omit one of them",
        ),
        (
            "poisson --find iterations --sampling-probability 0.1",
            "--noise-multiplier is missing; --find iterations requires it",
        ),
        (
            "poisson --sampling-probability 0.1",
            "--iterations is missing; --find noise-multiplier requires it",
        ),
        (
            "band-mf --bands 2 --iterations 9",
            "--sampling-probability is missing; --find noise-multiplier requires it",
        ),
        (
            "gaussian --sensitivity 1 --noise-multiplier 3",
            "--noise-multiplier is given, and --find noise-multiplier computes it; omit one of them",
        ),
        (
            "tree --iterations 9 --find participations",
            "--noise-multiplier is missing; --find participations requires it",
        ),
        (
            "tree --iterations 9 --find sampling-probability",
            "--find is sampling-probability; allowed for tree: noise-multiplier, participations",
        ),
    ] {
        bench.refused(&format!("calibrate {words} --epsilon 1 --delta 1e-6"), 2, &[message]);
    }
}
