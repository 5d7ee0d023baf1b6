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

const OWNED: &str = "batches --scheme contribution-bound --owners owners.csv --batch-size 4 --min-sep 4 \
                     --max-participations 3 --iterations 12";

/// Forty records, each owned by two of ten.
fn with_owners() -> Bench {
    let bench = bench();
    let lines = (0..40).map(|record| format!("{record},o{},o{}\n", record % 10, (record * 3 + 1) % 10));
    fs::write(bench.path("owners.csv"), lines.collect::<String>()).unwrap();
    bench
}

#[test]
fn owners_take_part_as_rarely_as_the_plan_allows() {
    let bench = with_owners();
    bench.plan("plan.toml", "blt --theta 0.9,0.5 --omega 0.2,0.3");
    let summary = bench.json(&format!("{OWNED} --plan plan.toml --seed-file seed --out b.jsonl"));
    let event = &summary["event"];
    assert_eq!((event["unit"].as_str(), event["kind"].as_str()), (Some("owner"), Some("any-order")));
    assert_eq!((event["min_sep"].as_u64(), event["max_participations"].as_u64()), (Some(4), Some(3)));
    let owners = &summary["owners"];
    assert_eq!((owners["records"].as_u64(), owners["owners"].as_u64()), (Some(40), Some(10)));
    assert!(owners["drawn"]["max_participations"].as_u64() <= Some(3));
    let mut taken = vec![Vec::new(); 10];
    for batch in lines(&fs::read_to_string(bench.path("b.jsonl")).unwrap()) {
        for id in batch["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()) {
            taken[id as usize % 10].push(batch["round"].as_u64().unwrap());
            taken[(id as usize * 3 + 1) % 10].push(batch["round"].as_u64().unwrap());
        }
    }
    assert!(taken.iter().all(|rounds| rounds.windows(2).all(|pair| pair[1] - pair[0] >= 4)), "{taken:?}");
    let output = bench.run(&format!("{OWNED} --seed-file seed --rounds 7..9 --out -"));
    let text = fs::read_to_string(bench.path("b.jsonl")).unwrap();
    let part = String::from_utf8(output.stdout).unwrap();
    assert_eq!(part.lines().collect::<Vec<_>>(), text.lines().collect::<Vec<_>>()[7..9]);
    let report = bench.json("report --plan plan.toml --delta 1e-6 --unit owner");
    assert_eq!(report["unit"], "owner");
    let added = "report --plan plan.toml --delta 1e-6 --unit owner --neighbouring add-remove";
    bench.refused(added, 2, &["owners", "allowed: zero-out, replace"]);
    // Two records of norm 1 in a batch are one of norm 2.
    let one = bench.json("account plan --plan plan.toml --delta 1e-6");
    let two = bench.json("account plan --plan plan.toml --delta 1e-6 --records-per-batch 2");
    assert_eq!(two["sensitivity"].as_f64().unwrap(), 2.0 * one["sensitivity"].as_f64().unwrap());
    let sensitivity = two["sensitivity"].as_f64().unwrap();
    let sigma = two["noise_multiplier"].as_f64().unwrap();
    let gaussian = bench.json(&format!(
        "account gaussian --sensitivity {sensitivity} --noise-multiplier {sigma} --delta 1e-6"
    ));
    assert_eq!(two["epsilon"], gaussian["epsilon"]);
}

#[test]
fn owners_without_a_bound_or_beyond_a_plan_are_refused() {
    let bench = with_owners();
    bench.plan("plan.toml", "blt --theta 0.9,0.5 --omega 0.2,0.3");
    let refused = |words: &str, parts: &[&str]| {
        bench.refused(&format!("{words} --seed-file seed --out b.jsonl"), 2, parts);
    };
    refused(
        &OWNED.replace("--max-participations 3", ""),
        &["--max-participations is missing", "bounds an owner"],
    );
    let poisson = "batches --scheme poisson --sampling-probability 0.1 --owners owners.csv --iterations 12";
    refused(poisson, &["poisson: has no bound", "contribution-bound", "els"]);
    refused(&OWNED.replace("--owners owners.csv", "--population 40"), &["owners of each record"]);
    refused(&format!("{POISSON} --batch-size 3"), &["--batch-size is given"]);
    let planned = format!("{OWNED} --plan plan.toml");
    refused(&planned.replace("--min-sep 4", "--min-sep 3"), &["return after 3 rounds", "4 (min_sep)"]);
    refused(
        &planned.replace("12", "16").replace("--max-participations 3", "--max-participations 4"),
        &["an owner may take part 4 times", "3 (max_participations)"],
    );
    refused(&format!("{planned} --records-per-batch 2"), &["2 records in a batch", "--records-per-batch"]);
    refused(&planned.replace("12", "11"), &["--iterations is 11", "12 or more"]);
    refused(&format!("{poisson} --els 2 --plan plan.toml"), &["an owner may return after 1 rounds"]);
    refused(&format!("{POISSON} --plan plan.toml"), &["a record may return after 1 rounds"]);
    fs::write(bench.path("owners.csv"), "1,a\n2\n").unwrap();
    refused(OWNED, &["owners owners.csv", "record 2: it has no owner"]);
    assert!(!bench.path("b.jsonl").exists());
    fs::write(bench.path("owners.csv"), "1,a\n2,a,b\n3,a\n").unwrap();
    let sampled = bench.json(&format!("{poisson} --els 2 --seed-file seed --out b.jsonl"));
    assert_eq!(
        (sampled["owners"]["kept"].as_u64(), sampled["event"]["unit"].as_str()),
        (Some(2), Some("owner"))
    );
    assert_eq!(sampled["event"]["neighbouring"], serde_json::json!(["zero-out"]));
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
