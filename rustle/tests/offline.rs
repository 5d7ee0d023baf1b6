//! The binary without a server: success, bad input, exit statuses.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bench::Bench;

#[test]
fn ranges_and_dimensions_that_do_not_fit() {
    let bench = Bench::new();
    let noise = "noise --plan plan.toml --key-file key --out x.npy";
    bench.refused(
        &format!("{noise} --dimension 10 --steps 0..8 --range 0..11"),
        2,
        &["--range is 0..11", "0..10"],
    );
    bench.refused(&format!("{noise} --dimension 10 --steps 0..13"), 2, &["--steps is 0..13", "0..12"]);
    bench.refused(&format!("{noise} --dimension 10 --steps 5..5"), 2, &["5..5", "empty"]);
    bench.refused(&format!("{noise} --dimension 10 --steps 0..8 --range 7..3"), 2, &["7..3"]);
    bench.refused(&format!("{noise} --dimension 10 --steps x"), 2, &["a..b"]);
    bench.refused(
        &format!("{noise} --dimension 0 --steps 0..1"),
        2,
        &["--dimension is 0; allowed: 1 to 9223372036854775807"],
    );
    bench.refused(&format!("{noise} --steps 0..1"), 2, &["--dimension is missing"]);
    bench.refused(&format!("{noise} --dimension 10 --steps 0..1 --backend gpu"), 2, &["gpu", "portable"]);
    bench.refused(
        "noise --plan plan.toml --key-file key --dimension 9 --steps 0..1 --out no/x.npy",
        1,
        &["no/x.npy"],
    );
    let verify =
        format!("verify --plan plan.toml --key-file key --dimension 9 --noise-id {}", "0".repeat(64));
    bench.refused(&format!("{verify} --step 12 --range 0..1 x.npy"), 2, &["--step is 12"]);
    bench.refused(&format!("{verify} --step 1 --range 0..10 x.npy"), 2, &["--range is 0..10", "0..9"]);
    let huge = format!("{noise} --steps 0..1 --dimension");
    bench.refused(&format!("{huge} 1000000000000000000"), 1, &["memory for the state"]);
    bench.refused(
        &format!("{huge} 1000000000000000000 --iid"),
        1,
        &["write x.npy: reserve 4000000000000000128 bytes"],
    );
    assert!(!bench.path("x.npy").exists());
    assert_eq!(fs::read_dir(bench.folder.path()).unwrap().count(), 2, "nothing half written");
}

#[test]
fn keys() {
    let bench = Bench::new();
    let made = bench.json("key new --out fresh");
    assert_eq!(made["commitment"].as_str().map(str::len), Some(64));
    let metadata = fs::metadata(bench.path("fresh")).unwrap();
    assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (32, 0o400));
    bench.refused("key new --out fresh", 1, &["fresh", "exists"]);
    let noise = "noise --plan plan.toml --dimension 10 --steps 0..1 --out x.npy --key-file";
    bench.json(&format!("{noise} fresh"));
    for mode in [0o440, 0o404, 0o644, 0o620] {
        bench.mode("fresh", mode);
        bench.refused(&format!("{noise} fresh"), 1, &[&format!("{mode:04o}"), "0400 or 0600"]);
    }
    bench.mode("fresh", 0o600);
    for length in [0, 31, 33, 64] {
        fs::write(bench.path("fresh"), vec![1; length]).unwrap();
        bench.refused(&format!("{noise} fresh"), 1, &["exactly 32"]);
    }
    bench.refused(&format!("{noise} none"), 1, &["none"]);
    bench.refused(&format!("{noise} ."), 1, &["key file"]);
}

#[test]
fn a_ledger_is_begun_once() {
    let bench = Bench::new();
    for (place, file) in [("--data-dir data", "data/ledger.redb"), ("--file run/l.redb", "run/l.redb")] {
        let begun = bench.json(&format!("ledger init {place}"));
        assert_eq!(
            (begun["ledger"].as_str(), begun["ledger_id"].as_str().map(str::len)),
            (Some(file), Some(64))
        );
        let bytes = fs::read(bench.path(file)).unwrap();
        assert_eq!(fs::metadata(bench.path(file)).unwrap().permissions().mode() & 0o077, 0);
        bench.refused(&format!("ledger init {place}"), 1, &[file, "exists already"]);
        assert!(fs::read(bench.path(file)).unwrap() == bytes, "{file} was begun twice");
    }
    let twice = bench.json("ledger init --file another.redb");
    assert_ne!(twice["ledger_id"], bench.json("ledger init --file third.redb")["ledger_id"]);
    bench.refused("ledger init", 2, &["--data-dir", "--file"]);
    bench.refused("ledger init --data-dir a --file b", 2, &["--file"]);
}

#[test]
fn a_ledger_is_adopted_under_a_new_id() {
    let bench = Bench::new();
    let begun = bench.json("ledger init --data-dir data");
    let sound = ["Nothing proves that ledger data/ledger.redb is a copy", "costs no ε", "--yes is missing"];
    bench.refused("ledger adopt --data-dir data", 2, &sound);
    let adopted = bench.json("ledger adopt --yes --data-dir data");
    assert_eq!(
        (adopted["ledger"].as_str(), adopted["adopted"].as_str()),
        (Some("data/ledger.redb"), Some(""))
    );
    assert_ne!(adopted["ledger_id"], begun["ledger_id"]);
    // Of a run in a Python process: the anchor is beside the key.
    bench.json("ledger init --file run/ledger.redb");
    bench.json("key new --out run/job.key");
    let adopted = bench.json("ledger adopt --yes --file run/ledger.redb");
    let id = adopted["ledger_id"].as_str().unwrap();
    assert!(bench.path(&format!("run/job.key.anchor-{}", &id[..16])).exists());
    bench.refused("ledger adopt --data-dir none", 1, &["there is no ledger at none/ledger.redb"]);
    bench.refused("ledger adopt --key-file run/job.key", 2, &["--file"]);
    bench.refused(
        "ledger adopt --data-dir data --delta 1",
        2,
        &["--delta is 1; allowed: strictly between 0 and 1"],
    );
}

#[test]
fn plans_are_created_and_printed() {
    let bench = Bench::new();
    let made = bench.json(
        "plan from --float --mechanism band-toeplitz --coefficients 1,0.5,0.25 --iterations 9 --min-sep 3 \
         --max-participations 2 --noise-multiplier 1 --dimension 5 --out b.toml",
    );
    assert_eq!(made["coefficients"], serde_json::json!([1.0, 0.5, 0.25]));
    // Columns that are min-sep apart do not overlap, so sens² = 2·(1 + 1/4 + 1/16).
    assert!((made["sensitivity"].as_f64().unwrap() - 2.625_f64.sqrt()).abs() < 1e-12);
    let column = bench.json("plan coefficients --plan b.toml --matrix c --count 5");
    assert_eq!(column["coefficients"], serde_json::json!([1.0, 0.5, 0.25, 0.0, 0.0]));
    let row = bench.json("plan coefficients --plan b.toml --matrix c-inverse --row 2");
    assert_eq!(row["coefficients"], serde_json::json!([0.0, -0.5, 1.0]));
    bench.refused("plan coefficients --plan b.toml --matrix c --row 9", 2, &["--row is 9", "0 to 8"]);
    bench.refused("plan coefficients --plan b.toml --matrix c --count 10", 2, &["--count is 10"]);
    bench.refused("plan coefficients --plan b.toml --matrix c", 2, &["--count"]);
    bench.refused(
        "noise --plan b.toml --key-file key --dimension 6 --steps 0..1 --out x.npy",
        2,
        &["is 6", "5"],
    );
    let from = "plan from --float --iterations 9 --noise-multiplier 1 --mechanism";
    bench.refused(&format!("{from} blt --theta 1.5 --omega 0.1"), 2, &["--theta is 1.5"]);
    bench.refused(
        &format!("{from} blt --theta 0.5"),
        2,
        &["--omega is missing; --mechanism blt requires it"],
    );
    bench.refused(
        &format!("{from} identity --bands 2"),
        2,
        &["--bands is given; --mechanism identity does not take it"],
    );
    bench.refused(&format!("{from} nope"), 2, &["nope", "band-inverse-sqrt"]);
    bench.refused(
        "plan from --float --iterations 9 --mechanism identity --noise-multiplier NaN",
        2,
        &["--noise-multiplier"],
    );
    // Noise that doubles in every row leaves f32; a plan that someone wrote by hand is refused as well.
    let grows = "plan from --float --mechanism band-toeplitz --coefficients 1,2 --noise-multiplier 1 --out u.toml --iterations";
    for iterations in ["400", "100000"] {
        bench.refused(&format!("{grows} {iterations}"), 2, &["unstable", "fewer iterations"]);
    }
    bench.json(&format!("{grows} 12"));
    let written =
        fs::read_to_string(bench.path("u.toml")).unwrap().replace("iterations = 12", "iterations = 400");
    fs::write(bench.path("u.toml"), written).unwrap();
    bench.refused(
        "noise --plan u.toml --key-file key --dimension 2 --steps 0..400 --out u.npy",
        1,
        &["unstable"],
    );
    fs::write(bench.path("bad.toml"), "format = 1\nstream_version = 3\nsede = 3\n").unwrap();
    bench.refused("account plan --plan bad.toml --delta 1e-6", 1, &["sede"]);
}

#[test]
fn optimized_plans_state_their_figures() {
    let bench = Bench::new();
    let answer = bench.json(
        "plan optimize --float --mechanism blt --iterations 200 --min-sep 40 --max-participations 5 --buffers 2 --out o.toml",
    );
    for name in ["sensitivity", "rms_error", "max_error", "rms_loss", "max_loss", "seconds"] {
        assert!(answer[name].as_f64().is_some_and(f64::is_finite), "{name}");
    }
    assert_eq!((answer["mechanism"].as_str(), answer["iterations"].as_u64()), (Some("blt"), Some(200)));
    assert_eq!(answer["theta"].as_array().map(Vec::len), Some(2));
    let identity = bench.json(
        "plan optimize --float --mechanism identity --iterations 200 --min-sep 40 --max-participations 5",
    );
    assert!(answer["rms_loss"].as_f64() < identity["rms_loss"].as_f64());
    let account = bench.json("account plan --plan o.toml --delta 1e-6");
    assert_eq!(account["sensitivity"], answer["sensitivity"]);
    bench.refused("plan optimize --float --mechanism blt --iterations 0", 2, &["iterations", "0"]);
    bench.refused("plan optimize --float --mechanism blt --iterations 9 --bands 3", 2, &["--bands"]);
    bench.refused(
        "plan optimize --float --mechanism band-toeplitz --iterations 9 --bands 10",
        2,
        &["--bands is 10"],
    );
    bench.refused("plan optimize --float --mechanism blt --iterations 9 --min-sep 0", 2, &["min-sep"]);
}

#[test]
fn accounts() {
    let bench = Bench::new();
    let there = bench.json("account gaussian --sensitivity 1 --noise-multiplier 2 --delta 1e-6");
    assert_eq!(there["rho"], 0.125);
    let epsilon = there["epsilon"].as_f64().unwrap();
    let back =
        bench.json(&format!("account gaussian --sensitivity 1 --noise-multiplier 2 --epsilon {epsilon}"));
    assert!((back["delta"].as_f64().unwrap() / 1e-6 - 1.0).abs() < 1e-9);
    let sigma = bench.json(&format!("calibrate gaussian --sensitivity 1 --epsilon {epsilon} --delta 1e-6"));
    assert!((sigma["noise_multiplier"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    // One participation of a user in a tree of 4 leaves lies below 3 nodes.
    let tree = bench.json("account tree --noise-multiplier 3 --iterations 4 --delta 1e-6");
    assert!((tree["sensitivity"].as_f64().unwrap() - 3_f64.sqrt()).abs() < 1e-12);
    let gaussian = "account gaussian --sensitivity 1 --noise-multiplier";
    bench.refused(&format!("{gaussian} 2"), 2, &["--delta", "--epsilon"]);
    bench.refused(&format!("{gaussian} 2 --delta 1e-6 --epsilon 1"), 2, &["--delta", "--epsilon"]);
    bench.refused(&format!("{gaussian} 0 --delta 1e-6"), 2, &["noise multiplier is 0"]);
    bench.refused(&format!("{gaussian} NaN --delta 1e-6"), 2, &["noise multiplier is NaN"]);
    bench.refused(&format!("{gaussian} 2 --delta 1"), 2, &["delta is 1"]);
    bench.refused("account tree --noise-multiplier 3 --iterations 0 --delta 1e-6", 2, &["iterations is 0"]);
}

#[test]
fn tables_and_completion_scripts_are_printed() {
    let bench = Bench::new();
    let table = bench.run("account gaussian --sensitivity 1 --noise-multiplier 2 --delta 1e-6");
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.contains("epsilon") && text.contains("0.125") && !text.contains('\u{1b}'), "{text}");
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.run(&format!("completions {shell}"));
        assert!(script.status.success() && String::from_utf8_lossy(&script.stdout).contains("rustle"));
    }
    let page = String::from_utf8(bench.run("man").stdout).unwrap();
    assert!(page.contains(".TH rustle") && page.contains("Correlated noise"), "{page}");
    assert!(bench.run("man --out pages").status.success());
    let page = std::fs::read_to_string(bench.path("pages/rustle-job-show.1")).unwrap();
    assert!(page.contains("Show one job") && page.contains("coordinator"), "{page}");
    bench.refused("completions cmd", 2, &["cmd"]);
    bench.refused("dance", 2, &["dance"]);
    assert_eq!(bench.run("").status.code(), Some(2));
    assert_eq!(bench.run("--help").status.code(), Some(0));
}

/// Manual pages come from the source of `--help`: each command has one, with its flags, examples and the pages below it.
#[test]
fn each_command_has_a_manual_page_with_its_flags_and_examples() {
    let bench = Bench::new();
    assert!(bench.run("man --out pages").status.success());
    let page = |name: &str| {
        let file = bench.path(&format!("pages/{name}.1"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.replace("\\-", "-")
    };
    let printed = String::from_utf8(bench.run("man").stdout).unwrap();
    assert!(printed.contains(".TH rustle 1"), "{printed}");
    let mut unread = vec!["rustle".to_owned()];
    let mut read = 0;
    while let Some(name) = unread.pop() {
        let text = page(&name);
        assert!(text.contains(&format!(".TH {name} 1")) && text.contains(".SH SYNOPSIS"), "{text}");
        let words = name.replacen("rustle", "", 1).replace('-', " ");
        let help = String::from_utf8(bench.run(&format!("{words} --help")).stdout).unwrap();
        for flag in help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 3) {
            let flag = flag.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
            if help.contains(&format!("      {flag}")) {
                assert!(text.contains(flag), "{name}: {flag}\n{text}");
            }
        }
        let below = text.lines().filter_map(|line| line.strip_suffix("(1)"));
        unread.extend(
            below
                .filter(|below| below.starts_with("rustle-") && !below.ends_with("-help"))
                .map(str::to_owned),
        );
        read += 1;
    }
    assert!(read > 60, "{read} pages");
    assert!(page("rustle-job-watch").contains("rustle job watch --job default"), "its examples");
}
