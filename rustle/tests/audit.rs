//! `rustle audit` as run by the binary: figures, exit status, files, bad input.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fmt::Write;
use std::fs;

use bench::Bench;
use serde_json::Value;

fn number(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"))
}

/// A file of 800 canaries, half of them in; those that were in have the higher scores, most of them.
fn leaked(bench: &Bench) {
    let text = (0..800u32).fold("score,label\n".to_owned(), |mut text, i| {
        let is_in = i.wrapping_mul(2_654_435_761) >> 31 == 0;
        let score = f64::from(i % 7) + if is_in { 5.0 } else { 0.0 };
        writeln!(text, "{score},{}", if is_in { "in" } else { "out" }).unwrap();
        text
    });
    fs::write(bench.path("scores.csv"), text).unwrap();
}

#[test]
fn counts_give_the_published_bound() {
    let answer = Bench::new()
        .json("audit guesses --canaries 1000 --guesses 600 --correct 600 --delta 1e-5 --confidence 0.95");
    assert!((number(&answer, "epsilon_lower") - 5.270_399).abs() < 1e-5, "{answer}");
    assert!(answer["method"] == "one-run" && answer["epsilon_claimed"].is_null(), "{answer}");
    assert!(number(&answer, "p_value") < 1e-4, "{answer}");
}

#[test]
fn a_claim_that_scores_refute_is_a_failure() {
    let bench = Bench::new();
    leaked(&bench);
    for method in ["one-run", "clopper-pearson", "gaussian"] {
        let words = format!("audit scores --in scores.csv --delta 1e-6 --method {method}");
        let lower = number(&bench.json(&words), "epsilon_lower");
        assert!(lower > 1.0, "{method}: {lower}");
        let kept = bench.json(&format!("{words} --epsilon {}", lower + 0.01));
        assert!(kept["refuted"] == false && number(&kept, "p_value") > 0.009, "{kept}");
        let output = bench.run(&format!("{words} --epsilon {} --format json", lower - 0.05));
        let refuted: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{refuted}");
        assert!(refuted["refuted"] == true && number(&refuted, "p_value") < 0.01, "{refuted}");
    }
}

#[test]
fn scores_in_npy_are_those_in_text() {
    let bench = Bench::new();
    leaked(&bench);
    let text = fs::read_to_string(bench.path("scores.csv")).unwrap();
    let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    header.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (800, 2), }");
    header.resize(127, b' ');
    header.push(b'\n');
    for line in text.lines().skip(1) {
        let (score, label) = line.split_once(',').unwrap();
        header.extend(score.parse::<f32>().unwrap().to_le_bytes());
        header.extend(f32::from(u8::from(label == "in")).to_le_bytes());
    }
    fs::write(bench.path("scores.npy"), header).unwrap();
    let of = |file: &str| bench.json(&format!("audit scores --in {file} --delta 1e-6"));
    assert_eq!(of("scores.npy"), of("scores.csv"));
}

#[test]
fn a_lower_bound_is_rounded_down_in_a_table() {
    let output = Bench::new()
        .run("audit guesses --canaries 1000 --guesses 600 --correct 600 --delta 1e-5 --confidence 0.95");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("5.27039") && !text.contains("5.2704"), "{text}");
}

#[test]
fn the_number_of_canaries_that_it_takes_refutes() {
    let bench = Bench::new();
    let answer = bench.json("audit canaries --epsilon 4 --delta 1e-6");
    let needed = number(&answer, "canaries");
    let promise = "--delta 1e-6 --epsilon 4";
    let all = |count: f64| {
        format!("audit guesses --canaries {count} --guesses {count} --correct {count} {promise}")
    };
    assert_eq!(bench.run(&all(needed)).status.code(), Some(1));
    bench.refused(&all(needed - 1.0), 2, &["confidence 0.99", &format!("{needed} canaries or more")]);
}

#[test]
fn files_and_numbers_that_say_nothing_are_refused() {
    let bench = Bench::new();
    leaked(&bench);
    fs::write(bench.path("few.csv"), "1.5,in\n0.5,out\n").unwrap();
    fs::write(bench.path("word.csv"), "1.5,in\n0.5,perhaps\n").unwrap();
    fs::write(bench.path("nan.csv"), "1.5,in\nnan,out\n").unwrap();
    fs::write(bench.path("text.csv"), "1.5,in\nhigh,out\n").unwrap();
    fs::write(bench.path("all.csv"), "1.5,in\n".repeat(500)).unwrap();
    let scores = |rest: &str| format!("audit scores --delta 1e-6 {rest}");
    for (words, parts) in [
        (scores("--in few.csv"), ["2 guesses", "7 canaries or more"]),
        (scores("--in word.csv"), ["line 2", "perhaps"]),
        (scores("--in text.csv"), ["line 2", "high"]),
        (scores("--in nan.csv"), ["score is NaN", "allowed"]),
        (scores("--in all.csv"), ["500 of 500", "fair coins"]),
        (scores("--in all.csv --method gaussian"), ["0 guesses", "canaries or more"]),
        (scores("--in scores.csv --confidence 1"), ["confidence is 1", "strictly between 0 and 1"]),
        (scores("--in scores.csv --epsilon -1"), ["epsilon is -1", "at least zero"]),
        (scores("--in scores.csv --guesses 900"), ["guesses is 900", "at most the number of canaries"]),
        (scores("--in scores.csv --method gaussian --guesses 9"), ["gaussian", "no number of guesses"]),
        ("audit canaries --epsilon 1 --delta 0.9".into(), ["delta is 0.9", "no number of canaries"]),
    ] {
        bench.refused(&words, 2, &parts);
    }
    bench.refused(&scores("--in missing.csv"), 1, &["missing.csv"]);
}
