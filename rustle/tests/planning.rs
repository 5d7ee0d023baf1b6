//! `rustle plan` as run by the binary.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use std::process::{Command, Output};

use serde_json::Value;

fn rustle(args: &str, folder: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rustle"))
        .args(args.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap()
}

fn json(args: &str, folder: &std::path::Path) -> Value {
    let output = rustle(&format!("{args} --format json"), folder);
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const SETTING: &str = "--iterations 200 --min-sep 20 --max-participations 10 --float";
/// The same on a grid, which is the default.
const ON_GRID: &str =
    "--iterations 200 --min-sep 20 --max-participations 10 --batch-size 32 --norm-dtype float64";

#[test]
fn every_mechanism_is_optimized_and_its_answer_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    for mechanism in [
        "identity",
        "tree",
        "blt",
        "blt --buffers 2",
        "band-toeplitz",
        "band-toeplitz --bands 8 --column-normalised",
        "band-toeplitz --bands 8 --power",
        "band-mf --bands 8",
        "band-sqrt",
        "band-inverse --bands 4",
        "band-inverse-sqrt --bands 4",
        "lambda-cgd",
        "dense",
        "dense --fixed-epoch",
    ] {
        let answer =
            json(&format!("plan optimize --mechanism {mechanism} {SETTING} --out p.toml"), folder.path());
        for name in ["sensitivity", "rms_error", "max_error", "rms_loss", "max_loss", "seconds", "loss"] {
            assert!(answer[name].as_f64().unwrap() >= 0.0, "{mechanism} {name}");
        }
        assert_eq!(answer["converged"], true, "{mechanism}");
        let plan = plan::Plan::from_path(folder.path().join("p.toml")).unwrap();
        assert_eq!(plan.mechanism().name(), answer["mechanism"]);
        let rms = plan.strategy().rms_error(200).unwrap();
        assert!((rms / answer["rms_error"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{mechanism}");
    }
}

#[test]
fn workloads_and_losses_reach_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let weights: String = (0..200).map(|t| if t < 100 { "0\n" } else { "1\n" }).collect();
    std::fs::write(folder.path().join("weights.txt"), weights).unwrap();
    let matrix: String = (1..=200).map(|row| "1 ".repeat(row) + "\n").collect();
    std::fs::write(folder.path().join("sums.txt"), matrix).unwrap();
    let answer = |rest: &str| {
        json(&format!("plan optimize --mechanism band-toeplitz {SETTING} {rest}"), folder.path())
    };
    let loss = |rest: &str| answer(rest)["loss"].as_f64().unwrap();
    let prefix = loss("");
    assert!((loss("--workload toeplitz:1") - prefix).abs() > 0.1);
    assert_eq!(answer("--workload momentum:0.9")["workload"], "momentum");
    assert!(loss("--workload momentum:0.9") > 3.0 * prefix);
    assert!(loss("--workload momentum:0.9 --weight-decay 0.1") < loss("--workload momentum:0.9"));
    assert!(loss("--loss max") > prefix && loss("--loss last") == loss("--loss max"));
    assert!(loss("--row-weights weights.txt") > prefix);
    assert_eq!(answer("--row-weights weights.txt")["optimised_for"], "weighted");
    let mf = |rest: &str| {
        json(&format!("plan optimize --mechanism band-mf --bands 4 {SETTING} {rest}"), folder.path())
    };
    let cooled = "--workload momentum:0.9 --learning-rates cool-down:150:0.05";
    assert!(mf(cooled)["loss"].as_f64() < mf("--workload momentum:0.9")["loss"].as_f64());
    let dense =
        json(&format!("plan optimize --mechanism dense {SETTING} --workload matrix:sums.txt"), folder.path());
    let same = json(&format!("plan optimize --mechanism dense {SETTING}"), folder.path());
    let dense = dense["loss"].as_f64().unwrap();
    let same = same["loss"].as_f64().unwrap();
    assert!((dense / same - 1.0).abs() < 1e-4, "{dense} {same}");
    let several = answer("--also-min-sep 10,15");
    assert!(several["rms_loss"].as_f64().unwrap() >= prefix);
}

#[test]
fn suggest_recommends_a_plan_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let args = format!(
        "plan suggest {ON_GRID} --dimension 100000 --workers 3 --epsilon 3 --delta 1e-6 --sampling-probability 0.05 \
         --memory-per-worker 1MiB --out s.toml"
    );
    let answer = json(&args, folder.path());
    let mechanisms = answer["mechanisms"].as_array().unwrap();
    assert!(mechanisms.len() > 15);
    for entry in mechanisms {
        let state = entry["state_bytes_per_worker"].as_u64().unwrap();
        assert_eq!(entry["fits"], state <= 1 << 20);
        assert!(entry["rows_per_second"].as_f64().unwrap() > 0.0, "{entry}");
    }
    let norms = |entry: &serde_json::Value| entry["column_norms"].as_str().unwrap().to_owned();
    // On a grid BLTs have no scales.
    let by_epoch = mechanisms.iter().filter(|entry| norms(entry) == "by-epoch");
    let mut by_epoch: Vec<&str> = by_epoch.map(|entry| entry["mechanism"].as_str().unwrap()).collect();
    by_epoch.sort_unstable();
    by_epoch.dedup();
    assert_eq!(by_epoch, ["band-mf", "band-toeplitz"]);
    let plan = plan::Plan::from_path(folder.path().join("s.toml")).unwrap();
    assert!(4 * plan.state_slots() * 33_334 <= 1 << 20);
    assert!(plan.on_grid().is_some());
    assert!((plan.noise_multiplier() / answer["noise_multiplier"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    // The account that the answer names satisfies (ε, δ). The plan alone, without sampling, costs more.
    let words = answer["account"].as_str().unwrap().strip_prefix("rustle ").unwrap().to_owned();
    let sampled = json(&words, folder.path())["epsilon"].as_f64().unwrap();
    assert!(sampled <= 3.0 * (1.0 + 1e-6) && sampled > 2.95, "{sampled}");
    let alone = json("account plan --plan s.toml --delta 1e-6", folder.path())["epsilon"].as_f64().unwrap();
    assert!(alone > sampled);
    let table = |more: &str| {
        let shown = rustle(&format!("{args} {more}"), folder.path());
        String::from_utf8(shown.stdout).unwrap()
    };
    let short = table("--no-rates");
    assert!(short.contains('→') && short.contains("identity") && !short.contains("ε if broken"), "{short}");
    assert!(
        short.lines().filter(|line| line.contains('┌')).count() == 2 && short.lines().count() < 40,
        "{short}"
    );
    let whole = table("--no-rates --all");
    assert!(whole.contains("tree") && whole.contains("ε if broken"), "{whole}");
}

#[test]
fn suggest_recommends_scaled_columns_where_they_lose_least() {
    let folder = tempfile::tempdir().unwrap();
    // A general band matrix of so many numbers is not searched.
    let args = "plan suggest --float --iterations 2400 --min-sep 300 --max-participations 8 --dimension 1000 --epsilon 3 \
                --delta 1e-6 --within 1% --no-rates --out s.toml";
    let answer = json(args, folder.path());
    assert_eq!(answer["recommended"], "band-toeplitz 300 scaled");
    let mechanisms = answer["mechanisms"].as_array().unwrap();
    assert_eq!((&mechanisms[0]["column_norms"], &mechanisms[0]["size"]), (&"by-epoch".into(), &300.into()));
    let equal = mechanisms.iter().find(|entry| entry["size"] == 300 && entry["column_norms"] == "equal");
    let loss = |entry: &serde_json::Value| entry["loss"].as_f64().unwrap();
    assert!(loss(&mechanisms[0]) < 0.99 * loss(equal.unwrap()));
    let plan = plan::Plan::from_path(folder.path().join("s.toml")).unwrap();
    assert!(
        matches!(plan.mechanism(), plan::Mechanism::Scaled { column_scales, .. } if column_scales.len() == 8)
    );
    let found = json("account plan --plan s.toml --delta 1e-6", folder.path())["epsilon"].as_f64().unwrap();
    assert!(found <= 3.0 * (1.0 + 1e-6) && found > 2.99, "{found}");
    let table = String::from_utf8(rustle(args, folder.path()).stdout).unwrap();
    assert!(
        table.contains("band-toeplitz 300 scaled") && table.lines().all(|line| line.chars().count() <= 80)
    );
    for sampling in ["random-allocation", "balls-in-bins"] {
        for method in ["conditional", "renyi"] {
            let args = format!(
                "account matrix --plan s.toml --sampling {sampling} --method {method} --batches-per-epoch 300 --delta 1e-6"
            );
            let epsilon = json(&args, folder.path())["epsilon"].as_f64().unwrap();
            assert!(epsilon > 0.1 && epsilon.is_finite(), "{sampling} {method}: {epsilon}");
        }
    }
}

#[test]
fn plans_are_compared_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    for (mechanism, file) in [("blt", "a.toml"), ("tree", "b.toml"), ("band-mf --bands 5", "c.toml")] {
        json(&format!("plan optimize --mechanism {mechanism} {SETTING} --out {file}"), folder.path());
    }
    let answer = json("plan compare a.toml b.toml c.toml --epsilon 2 --delta 1e-6 --no-rates", folder.path());
    let plans = answer["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 3);
    for plan in plans {
        assert!((plan["epsilon"].as_f64().unwrap() - 2.0).abs() < 1e-6);
        let product = plan["noise_multiplier"].as_f64().unwrap() * plan["rms_error"].as_f64().unwrap();
        assert!((plan["error"].as_f64().unwrap() / product - 1.0).abs() < 1e-9);
    }
    let all = "coefficients,errors,min-sep,memory,bands";
    let drawn = json(&format!("plan plot a.toml b.toml c.toml --what {all} --out x.svg"), folder.path());
    assert_eq!(drawn["charts"], 6);
    let svg = std::fs::read_to_string(folder.path().join("x.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("Loss of every row") && svg.contains("band-inverse"));
}

#[test]
fn bad_use_names_the_value_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("words.txt"), "1\n2 x\n").unwrap();
    for (args, part) in [
        (
            "plan optimize --float --mechanism blt --iterations 100 --min-sep 50 --max-participations 3",
            "(k−1)·b < n",
        ),
        ("plan optimize --float --mechanism blt --iterations 100 --buffers 13", "1 to 12"),
        ("plan optimize --float --mechanism blt --iterations 100 --buffers 0", "1 to 12"),
        ("plan optimize --float --mechanism band-mf --iterations 100 --bands 101", "1 to 100"),
        ("plan optimize --float --mechanism band-toeplitz --iterations 100 --bands 0", "1 to 100"),
        (
            "plan optimize --float --mechanism band-mf --iterations 100 --min-sep 5 --max-participations 2 --bands 6",
            "min_sep",
        ),
        (
            "plan optimize --float --mechanism blt --iterations 9 --workload momentum:1",
            "momentum is 1; allowed: 0 ≤ momentum < 1",
        ),
        ("plan optimize --float --mechanism blt --iterations 9 --workload momentum:x", "not a number"),
        ("plan optimize --float --mechanism blt --iterations 9 --workload sums", "momentum:BETA"),
        ("plan optimize --float --mechanism blt --iterations 9 --weight-decay 0.1", "momentum"),
        ("plan optimize --float --mechanism blt --iterations 9 --row-weights words.txt", "\"x\" in line 2"),
        (
            "plan optimize --float --mechanism blt --iterations 9 --workload matrix:words.txt",
            "\"x\" in line 2",
        ),
        (
            "plan optimize --float --mechanism tree --iterations 9 --power",
            "--power is given; --mechanism tree does not take it",
        ),
        (
            "plan optimize --float --mechanism blt --iterations 9 --fixed-epoch",
            "--fixed-epoch is given; --mechanism blt does not take it",
        ),
        (
            "plan optimize --float --mechanism dense --iterations 9 --fixed-epoch --also-min-sep 2",
            "--also-min-sep is given; --fixed-epoch does not take it",
        ),
        (
            "plan optimize --float --mechanism dense --iterations 9 --buffers 2",
            "--buffers is given; --mechanism dense does not take it",
        ),
        (
            "plan suggest --float --iterations 9 --epsilon 1 --delta 1e-6",
            "--dimension is missing; allowed: 1 or more",
        ),
        ("plan suggest --float --iterations 9 --dimension 10 --epsilon 0 --delta 1e-6", "epsilon is 0"),
        ("plan suggest --float --iterations 9 --dimension 10 --epsilon 1 --delta 2", "delta is 2"),
        (
            "plan suggest --float --iterations 9 --dimension 10 --epsilon 1 --delta 0.1 --sampling-probability 2",
            "is 2",
        ),
        (
            "plan suggest --float --iterations 9 --dimension 10 --epsilon 1 --delta 0.1 --memory-per-worker 5Q",
            "byte size",
        ),
    ] {
        let output = rustle(args, folder.path());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {words}");
        assert!(words.contains(part) && output.stdout.is_empty(), "{args}: {words}");
    }
}

#[test]
fn random_batches_have_a_plan_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let setting = "--iterations 64 --min-sep 16 --max-participations 4 --amplify balls-in-bins --epsilon 2 --delta 1e-5 \
                   --samples 131072 --search-samples 8192 --seed 5";
    for (mechanism, sizes) in [("blt", "--buffers 1"), ("band-toeplitz", "--bands 16")] {
        let found = json(
            &format!("plan optimize --mechanism {mechanism} {sizes} {setting} --float --out a.toml"),
            folder.path(),
        );
        let number = |name: &str| found[name].as_f64().unwrap();
        assert!(number("amplified_loss") <= number("amplified_loss_before"), "{found}");
        assert_eq!((number("samples"), number("search_samples")), (131_072.0, 8192.0));
        assert_eq!(found["release"], true);
        let account = json(
            "account balls-in-bins --plan a.toml --batches-per-epoch 16 --epochs 4 --delta 1e-5 --samples 131072",
            folder.path(),
        );
        let epsilon = account["epsilon"].as_f64().unwrap();
        // The noise is calibrated to an upper bound of δ, which few samples keep far above the estimate.
        assert!((1.5..2.0).contains(&epsilon), "{account}");
        assert_eq!(account["noise_multiplier"], found["noise_multiplier"]);
    }
    let refuses = |args: &str, part: &str| {
        let output = rustle(args, folder.path());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(part), "{args}: {text}");
    };
    let with = |more: &str| format!("plan optimize --iterations 64 --min-sep 16 --float {more}");
    let drawn = "--amplify balls-in-bins --delta 1e-5";
    refuses(&with(&format!("--mechanism blt --max-participations 3 {drawn} --epsilon 1")), "allowed: 64");
    refuses(&with(&format!("--mechanism blt --max-participations 4 {drawn}")), "--epsilon");
    refuses(
        &with(&format!("--mechanism band-sqrt --max-participations 4 {drawn} --epsilon 1")),
        "first column",
    );
    refuses(&with(&format!("--mechanism blt --max-participations 4 {drawn} --epsilon -1")), "epsilon is -1");
}
