//! `rustle plan batch-size` as run by the binary.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use bench::Bench;
use serde_json::Value;

fn number(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[test]
fn a_batch_size_is_recommended_for_data_and_compute() {
    let bench = Bench::new();
    let words = "plan batch-size --dataset-size 50000 --gradients 500000 --epsilon 4 --delta 1e-5";
    let answer = bench.json(words);
    let entries = answer["batch_sizes"].as_array().unwrap();
    let noise = |entry: &Value| number(entry, "noise_of_mean_update");
    let least = entries.iter().map(noise).fold(f64::INFINITY, f64::min);
    let first = entries.iter().find(|entry| noise(entry) <= 1.1 * least).unwrap();
    for field in ["batch_size", "iterations", "noise_multiplier", "noise_batch_ratio"] {
        assert_eq!(first[field], answer[field], "{field}: {answer}");
    }
    // What it recommends satisfies the guarantee.
    let [q, sigma] = ["sampling_probability", "noise_multiplier"].map(|name| number(&answer, name));
    let rounds = &answer["iterations"];
    let account = bench.json(&format!(
        "account poisson --sampling-probability {q} --noise-multiplier {sigma} --iterations {rounds} --delta 1e-5"
    ));
    assert!((3.99..=4.0).contains(&number(&account, "epsilon")), "{account}");
    bench.refused(&words.replace("50000 ", "15 "), 2, &["dataset size is 15", "at least 16"]);
    bench.refused(&words.replace("--epsilon 4", "--epsilon -4"), 2, &["epsilon"]);
}
