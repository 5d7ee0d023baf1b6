//! `rustle batches` as run by the binary: lines, restarts, secrecy, bad use, and events that accounting accepts.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bench::Bench;
use serde_json::Value;

const POISSON: &str = "batches --scheme poisson --sampling-probability 0.1 --population 500 --iterations 40";
const CYCLIC: &str =
    "batches --scheme cyclic-poisson --bands 8 --sampling-probability 0.01 --population 2000 --iterations 40";

/// Every scheme's flags.
const SCHEMES: [&str; 7] = [
    POISSON,
    CYCLIC,
    "batches --scheme cyclic-poisson --bands 4 --partition equal-split --sampling-probability 0.1 \
     --population 300 --iterations 40",
    "batches --scheme balls-in-bins --batches-per-epoch 8 --population 300 --iterations 40 --cap 40",
    "batches --scheme b-min-sep --min-sep 5 --sampling-probability 0.2 --warm-start --population 300 \
     --iterations 40",
    "batches --scheme random-allocation --batches-per-epoch 8 --participations 2 --population 300 \
     --iterations 40",
    "batches --scheme fixed-order --min-sep 8 --population 300 --iterations 40",
];

fn bench() -> Bench {
    let bench = Bench { folder: tempfile::tempdir().unwrap() };
    fs::write(bench.path("seed"), *b"0123456789abcdefghijklmnopqrstuv").unwrap();
    bench.mode("seed", 0o400);
    bench
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_later_start_gives_the_same_lines() {
    let bench = bench();
    for words in SCHEMES {
        let summary = bench.json(&format!("{words} --seed-file seed --out whole.jsonl"));
        let text = fs::read_to_string(bench.path("whole.jsonl")).unwrap();
        let whole = lines(&text);
        assert_eq!(whole.len(), 40);
        let sizes: Vec<u64> =
            whole.iter().map(|batch| batch["ids"].as_array().unwrap().len() as u64).collect();
        assert_eq!(summary["size_min"].as_u64(), sizes.iter().copied().min());
        assert_eq!(summary["size_max"].as_u64(), sizes.iter().copied().max());
        let mean = sizes.iter().sum::<u64>() as f64 / 40.0;
        assert!((summary["size_mean"].as_f64().unwrap() - mean).abs() < 1e-9 && mean > 0.0);
        let output = bench.run(&format!("{words} --seed-file seed --rounds 13..29 --out -"));
        let part = String::from_utf8(output.stdout).unwrap();
        assert_eq!(part.lines().collect::<Vec<_>>(), text.lines().collect::<Vec<_>>()[13..29], "{words}");
        assert_eq!(lines(&part)[0]["round"], 13);
    }
}

#[test]
fn users_are_sampled_with_their_records() {
    let bench = bench();
    fs::write(bench.path("sizes"), "3\n0\n5\n1\n").unwrap();
    let words = "batches --scheme poisson --sampling-probability 0.5 --user-sizes sizes --iterations 50 \
                 --seed-file seed";
    for flag in ["--uls 2", "--els 2"] {
        let summary = bench.json(&format!("{words} {flag} --out users.jsonl"));
        assert_eq!(summary["event"]["unit"], "user");
        for batch in lines(&fs::read_to_string(bench.path("users.jsonl")).unwrap()) {
            let ids = batch["ids"].as_array().unwrap();
            let users = batch["users"].as_array().unwrap();
            for (id, user) in ids.iter().zip(users) {
                let expected = match id.as_u64().unwrap() {
                    0..3 => 0,
                    3..8 => 2,
                    _ => 3,
                };
                assert_eq!(user.as_u64(), Some(expected));
            }
            assert!(users.iter().filter(|user| user.as_u64() == Some(2)).count() <= 2);
        }
    }
    fs::write(bench.path("sizes"), "3\nx\n").unwrap();
    bench.refused(&format!("{words} --uls 2 --out o"), 2, &["line 2", "\"x\""]);
    assert!(!bench.path("o").exists());
}

#[test]
fn only_the_owner_can_read_seed_and_batches() {
    let bench = bench();
    bench.json(&format!("{POISSON} --seed-file seed --out b.jsonl"));
    let mode = fs::metadata(bench.path("b.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    bench.mode("seed", 0o440);
    bench.refused(&format!("{POISSON} --seed-file seed --out c.jsonl"), 1, &["mode is 0440"]);
    bench.mode("seed", 0o600);
    fs::write(bench.path("seed"), [9; 31]).unwrap();
    bench.refused(&format!("{POISSON} --seed-file seed --out c.jsonl"), 1, &["31 bytes"]);
}

#[test]
fn bad_use_is_named() {
    let bench = bench();
    let refused = |words: &str, parts: &[&str]| {
        bench.refused(&format!("{words} --seed-file seed --out b.jsonl"), 2, parts);
    };
    refused(&CYCLIC.replace("0.01", "0.2"), &["bands times sampling probability is 1.6", "at most 1"]);
    refused(&CYCLIC.replace("--bands 8", ""), &["--bands is missing; --scheme cyclic-poisson requires it"]);
    refused(&POISSON.replace("0.1", "0"), &["sampling probability is 0"]);
    refused(&format!("{POISSON} --min-sep 4"), &["--min-sep is given; --scheme poisson does not take it"]);
    refused(&format!("{POISSON} --rounds 30..41"), &["30..41", "40"]);
    refused(&format!("{POISSON} --uls 2"), &["owns"]);
    refused(
        &format!("{POISSON} --els 2 --cap 3"),
        &["--els is given; allowed: with --scheme poisson and without --cap"],
    );
    refused(
        &format!("{CYCLIC} --els 2"),
        &["--els is given; allowed: with --scheme poisson and without --cap"],
    );
    refused(&format!("{POISSON} --user-sizes sizes"), &["--user-sizes"]);
    assert!(!bench.path("b.jsonl").exists());
}

#[test]
fn accounting_accepts_the_event_with_a_noise_multiplier() {
    let bench = bench();
    let event = |words: &str| bench.json(&format!("{words} --seed-file seed --out b.jsonl"))["event"].clone();
    for words in [POISSON.to_owned(), format!("{POISSON} --cap 60")] {
        let mut event = event(&words);
        let fields = event.as_object_mut().unwrap();
        for name in ["count", "unit", "account", "neighbouring", "public_population"] {
            assert!(fields.remove(name).is_some());
        }
        fields.insert("noise_multiplier".into(), 1.0.into());
        let event: accounting::Event = serde_json::from_value(event).unwrap();
        assert!(event.supports(accounting::Neighbouring::AddRemove).is_ok());
    }
    let mut drawn = event(SCHEMES[5]);
    let fields = drawn.as_object_mut().unwrap();
    for name in ["epochs", "iterations", "unit", "account", "neighbouring", "public_population"] {
        assert!(fields.remove(name).is_some());
    }
    fields.insert("noise_multiplier".into(), 1.0.into());
    let drawn: accounting::Event = serde_json::from_value(drawn).unwrap();
    for (relation, said) in [
        (accounting::Neighbouring::ZeroOut, true),
        (accounting::Neighbouring::AddRemove, true),
        (accounting::Neighbouring::Replace, false),
    ] {
        assert_eq!(drawn.supports(relation).is_ok(), said, "{relation:?}");
    }
    for (words, partition) in [(SCHEMES[1], "independent"), (SCHEMES[2], "equal-split")] {
        let event = event(words);
        let fields = ["kind", "sampling_probability", "partition"];
        let sampling: serde_json::Map<_, _> =
            fields.iter().map(|&name| (name.to_owned(), event[name].clone())).collect();
        let sampling: accounting::Sampling = serde_json::from_value(sampling.into()).unwrap();
        assert_eq!(event["partition"], partition);
        let mut run = accounting::MatrixMechanism::cyclic_poisson(
            1.0,
            event["sampling_probability"].as_f64().unwrap(),
            event["bands"].as_u64().unwrap(),
            event["iterations"].as_u64().unwrap(),
            accounting::Partition::Independent,
        );
        run.sampling = sampling;
        // The event lists the relations that accounts support.
        for (relation, name) in [
            (accounting::Neighbouring::ZeroOut, "zero-out"),
            (accounting::Neighbouring::AddRemove, "add-remove"),
            (accounting::Neighbouring::Replace, "replace"),
        ] {
            let supported = accounting::Event::MatrixMechanism(run.clone()).supports(relation).is_ok();
            let said = event["neighbouring"].as_array().unwrap().contains(&name.into());
            assert_eq!(said, supported, "{partition} {name}");
        }
    }
}
