//! Plans on a grid by the command line: made, shown, accounted for, and refused where rows of floats are requested.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use bench::Bench;

const FROM: &str =
    "plan from --iterations 12 --min-sep 3 --max-participations 2 --noise-multiplier 2 --mechanism identity";

#[test]
fn a_plan_on_a_grid_is_made_shown_and_accounted_for() {
    let bench = Bench::new();
    bench.json(&format!("{FROM} --dimension 1000000 --out float.toml --float"));
    let made = bench.json(&format!("{FROM} --dimension 1000000 --grid --summing-error 1e-3 --out grid.toml"));
    assert_eq!(made["grid"]["step"], -26);
    let shown = bench.json("plan show grid.toml");
    assert_eq!(shown["grid"], made["grid"]);
    assert_eq!((&shown["grid"]["rounding"], &shown["rows"]), (&"nearest".into(), &"int32".into()));
    assert_eq!(shown["dimension"], 1_000_000);
    let clip_norm = shown["grid"]["clip_norm_accounted"].as_f64().unwrap();
    assert!(clip_norm > 1.001 && clip_norm < 1.0011, "{clip_norm}");
    // What it takes to serve them, the rate of integers among it.
    let resources = bench.json("plan resources --plan grid.toml --workers 2");
    for name in ["memory_per_worker", "replay_seconds_at_most"] {
        assert!(resources[name].as_f64().unwrap() > 0.0, "{resources}");
    }
    assert_eq!(resources["state_slots"], 0, "{resources}");
    let float = bench.json("plan show float.toml");
    assert!(float["grid"].is_null() && float["rows"] == "float32");

    let epsilon = |plan: &str| {
        let answer = bench.json(&format!("account plan --plan {plan} --delta 1e-6"));
        answer["epsilon"].as_f64().unwrap()
    };
    let dearer = epsilon("grid.toml") / epsilon("float.toml");
    assert!(dearer > 1.0009 && dearer < 1.002, "{dearer}");
    let reported = bench.json("report --plan grid.toml --delta 1e-6");
    assert_eq!(reported["grid"], made["grid"]);
    assert_eq!(reported["guarantees"][0]["epsilon"].as_f64().unwrap(), epsilon("grid.toml"));
}

#[test]
fn tables_have_what_chooses_a_grid_and_no_json() {
    let bench = Bench::new();
    let optimize = "plan optimize --mechanism lambda-cgd --iterations 12 --min-sep 3 --max-participations 2 --dimension 1000 \
                    --summing-error 1e-3 --out grid.toml";
    let commands = [
        optimize,
        "plan extend --plan grid.toml --iterations 24",
        "plan show grid.toml",
        &format!("{FROM} --dimension 1000 --summing-error 1e-3"),
    ];
    for command in commands {
        let output = bench.run(command);
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let row = table.lines().find(|line| line.contains(" grid ")).unwrap();
        let is_shown = row.contains("step -") && row.contains(", rounding nearest, summing_error 0.001 ");
        assert!(is_shown && !row.contains('{'), "{command}: {row}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
}

#[test]
fn what_a_grid_needs_chooses_it_and_floats_are_named() {
    let bench = Bench::new();
    let made = |flags: &str| {
        let output = bench.run(&format!("{FROM} --dimension 1000 {flags} --out x.toml --format json"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{flags}: {said}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (answer, said)
    };
    let mut kappas = Vec::new();
    for (flags, rounding) in [
        ("--grid --summing-error 1e-4", "nearest"),
        ("--summing-error 1e-4", "nearest"),
        ("--rounding contributions", "contributions"),
        ("--batch-size 32", "nearest"),
        ("--batch-size 32 --norm-dtype float64", "nearest"),
    ] {
        let (answer, said) = made(flags);
        assert_eq!((&answer["rows"], said.as_str()), (&"int32".into(), ""), "{flags}");
        assert_eq!(answer["grid"]["rounding"], rounding, "{flags}");
        kappas.push(answer["grid"]["summing_error"].as_f64().unwrap());
    }
    // `rustle.grid.summing_error(32, 1000)`, and the same with norms in float64.
    for (kappa, expected) in kappas.iter().zip([1e-4, 1e-4, 0.0, 1.528_307_549e-4, 1.225_474_408e-4]) {
        assert!((kappa - expected).abs() < 1e-10, "{kappa} for {expected}");
    }
    let (float, said) = made("--float");
    assert_eq!(float["rows"], "float32");
    for words in ["warning", "--float", "precision attacks"] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}

#[test]
fn rows_of_integers_are_made_and_verified_for_every_mechanism() {
    let bench = Bench::new();
    bench.json("key new --out job.key");
    let run =
        "plan from --iterations 12 --min-sep 3 --max-participations 2 --noise-multiplier 2 --dimension 700";
    for (name, mechanism) in [
        ("identity", "identity"),
        ("tree", "tree"),
        ("blt", "blt --theta 0.9,0.5 --omega 0.3,0.2"),
        ("sqrt", "band-sqrt --bands 3"),
        ("inverse", "band-inverse-sqrt --bands 3"),
        ("lambda", "lambda-cgd --lambda 0.5"),
    ] {
        bench.json(&format!("{run} --mechanism {mechanism} --grid --summing-error 0 --out {name}.toml"));
    }
    let optimized = "plan optimize --iterations 12 --min-sep 3 --max-participations 2 --noise-multiplier 2 --dimension 700";
    for mechanism in ["band-mf", "band-toeplitz", "dense"] {
        let grid = "--grid --summing-error 0";
        bench.json(&format!("{optimized} --mechanism {mechanism} {grid} --out {mechanism}.toml"));
    }
    for name in ["identity", "tree", "blt", "sqrt", "inverse", "lambda", "band-mf", "band-toeplitz", "dense"]
    {
        let job = format!("--plan {name}.toml --key-file job.key");
        let made = bench.json(&format!("noise {job} --steps 2..9 --range 100..700 --out {name}.npy"));
        assert_eq!((&made["element"], &made["rows"]), (&"int32".into(), &7.into()), "{name}");
        let id = made["noise_id"].as_str().unwrap();
        let check = format!("{job} --noise-id {id} --range 100..700 --row 6 {name}.npy");
        assert_eq!(bench.json(&format!("verify --step 8 {check}"))["equal"], true, "{name}");
        // The same rows again, and from another row on.
        let again =
            format!("noise {job} --noise-id {id} --steps 2..9 --range 100..700 --threads 1 --out again.npy");
        assert_eq!(bench.json(&again)["sha256"], made["sha256"], "{name}");
        let wrong = bench.run(&format!("verify --step 7 {check}"));
        assert_eq!(wrong.status.code(), Some(1), "{name}");
    }
}

#[test]
fn what_serves_floats_refuses_a_plan_on_a_grid() {
    let bench = Bench::new();
    bench.json("key new --out job.key");
    bench.json(&format!("{FROM} --dimension 1000 --grid --summing-error 0 --out grid.toml"));
    bench.json(&format!("{FROM} --dimension 1000 --float --out float.toml"));
    let iid = "noise --plan grid.toml --key-file job.key --iid --steps 0..1 --out x.npy";
    bench.refused(iid, 2, &["--iid", "[grid]"]);
    let made = bench.json("noise --plan float.toml --key-file job.key --steps 0..1 --out floats.npy");
    let id = made["noise_id"].as_str().unwrap();
    bench.refused(
        &format!(
            "verify --plan grid.toml --key-file job.key --noise-id {id} --step 0 --range 0..1000 floats.npy"
        ),
        1,
        &["another type", "<i4"],
    );
    let searched =
        "calibrate plan --plan grid.toml --epsilon 1 --delta 1e-6 --find participations --noise-multiplier 1";
    bench.refused(searched, 2, &["--plan has [grid]", "rustle account plan"]);
    assert!(!bench.path("x.npy").exists());
}

#[test]
fn a_grid_needs_what_its_account_does() {
    let bench = Bench::new();
    let ways = ["--summing-error K", "--batch-size B", "--rounding contributions", "--float", "docs/grid.md"];
    for (flags, words) in [
        ("", &["--dimension is missing", "--float", "precision attacks"][..]),
        ("--grid --summing-error 1e-4", &["--dimension is missing", "--float"]),
        ("--dimension 9", &ways),
        ("--grid --dimension 9", &ways),
        ("--rounding nearest --dimension 9", &ways),
        ("--rounding dithered --dimension 9", &ways),
        ("--grid --dimension 9 --summing-error -1", &["--summing-error is -1", "0 to 1"]),
        ("--grid --float --dimension 9", &["--grid", "--float"]),
        ("--float --summing-error 0 --dimension 9", &["--float", "--summing-error"]),
        ("--float --batch-size 3 --dimension 9", &["--float", "--batch-size"]),
        ("--float --rounding contributions --dimension 9", &["--float", "--rounding"]),
        ("--grid --rounding odd --dimension 9", &["odd", "dithered"]),
        ("--batch-size 0 --dimension 9", &["--batch-size is 0", "1 or more"]),
        ("--batch-size 9 --summing-error 0 --dimension 9", &["--batch-size", "--summing-error"]),
        ("--batch-size 9000 --norm-dtype float64 --dimension 9", &["--batch-size is 9000", "micro-batch"]),
        ("--batch-size 9 --dimension 20000000", &["--norm-dtype is float32", "float64"]),
        ("--batch-size 9 --norm-dtype half --dimension 9", &["half", "float64"]),
        ("--norm-dtype float64 --dimension 9", &["--batch-size"]),
        ("--batch-size 9 --rounding contributions --dimension 9", &["--batch-size is 9", "exact"]),
        (
            "--grid --rounding nearest --summing-error 0 --dimension 100000000000",
            &["rounding \"nearest\"", "--dimension", "or --rounding dithered"],
        ),
    ] {
        bench.refused(&format!("{FROM} {flags}"), 2, words);
    }
    let silent = FROM.replace("--noise-multiplier 2", "--noise-multiplier 0");
    bench.refused(
        &format!("{silent} --dimension 9 --summing-error 0"),
        2,
        &["--noise-multiplier is 0", "--float"],
    );
    // Before a search that takes its time, and for every command that makes a plan.
    let search = "--iterations 100 --min-sep 10 --max-participations 10";
    bench.refused(
        &format!("plan optimize --mechanism blt {search}"),
        2,
        &["--dimension is missing", "--float"],
    );
    bench.refused(&format!("plan optimize --mechanism blt {search} --dimension 9"), 2, &ways);
    bench.refused(&format!("plan suggest {search} --dimension 9 --epsilon 1 --delta 1e-6"), 2, &ways);
    let amplified = "--amplify balls-in-bins --epsilon 1 --delta 1e-6 --dimension 9 --batch-size 4";
    bench.refused(
        &format!("plan optimize --mechanism blt {search} {amplified}"),
        2,
        &["any but blt", "--float"],
    );
}

#[test]
fn the_noise_of_a_plan_on_a_grid_is_found_for_its_promise() {
    let bench = Bench::new();
    let run = "--iterations 64 --min-sep 16 --max-participations 4 --dimension 1000";
    let made = |sigma: f64, rest: &str| {
        let words =
            format!("plan from --mechanism band-sqrt --bands 4 {run} --noise-multiplier {sigma} {rest}");
        bench.json(&words)
    };
    made(1.0, "--float --out float.toml");
    made(1.0, "--summing-error 0.01 --out grid.toml");
    let number = |answer: &serde_json::Value, name: &str| answer[name].as_f64().unwrap();
    for relation in ["zero-out", "replace"] {
        let ask = format!("--epsilon 2 --delta 1e-6 --neighbouring {relation}");
        let float = bench.json(&format!("calibrate plan --plan float.toml {ask}"));
        let found = bench.json(&format!("calibrate plan --plan grid.toml {ask}"));
        let dearer = number(&found, "noise_multiplier") / number(&float, "noise_multiplier");
        assert!((1.01..1.0101).contains(&dearer), "{dearer}");
        made(number(&found, "noise_multiplier"), "--summing-error 0.01 --out kept.toml");
        let kept =
            bench.json(&format!("account plan --plan kept.toml --delta 1e-6 --neighbouring {relation}"));
        assert_eq!(number(&kept, "epsilon"), number(&found, "epsilon"));
        assert!((1.9999..=2.0).contains(&number(&kept, "epsilon")), "{kept}");
    }
    for command in ["calibrate plan --epsilon 2", "account plan", "report"] {
        let asked = format!("{command} --plan grid.toml --delta 1e-6 --neighbouring add-remove");
        bench.refused(&asked, 2, &["add-remove", "zero-out, replace", "bits of other gradients"]);
    }
    // By samples too, with the same ones.
    let shape = "--batches-per-epoch 16 --epochs 4 --epsilon 2 --delta 1e-5 --samples 65536 --seed 3";
    let float = bench.json(&format!("calibrate balls-in-bins --plan float.toml {shape}"));
    let found = bench.json(&format!("calibrate balls-in-bins --plan grid.toml {shape}"));
    let dearer = number(&found, "noise_multiplier") / number(&float, "noise_multiplier");
    assert!((1.0099..1.0101).contains(&dearer), "{dearer}");
}
