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
    // What it takes to serve them, but for the rate: only rows of floats are measured.
    let resources = bench.json("plan resources --plan grid.toml --workers 2");
    assert!(resources["memory_per_worker"].as_f64().unwrap() > 0.0, "{resources}");
    assert!(resources["replay_seconds_at_most"].is_null() && resources["state_slots"] == 0, "{resources}");
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
fn what_a_grid_needs_chooses_it_and_floats_are_named() {
    let bench = Bench::new();
    let made = |flags: &str| {
        let output = bench.run(&format!("{FROM} --dimension 1000 {flags} --out x.toml --format json"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{flags}: {said}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (answer, said)
    };
    let (named, said) = made("--grid --summing-error 1e-4");
    assert_eq!((&named["rows"], said.as_str()), (&"int32".into(), ""));
    for (flags, rounding) in
        [("--summing-error 1e-4", "nearest"), ("--rounding contributions", "contributions")]
    {
        let (answer, said) = made(flags);
        assert_eq!((&answer["rows"], said.as_str()), (&"int32".into(), ""), "{flags}");
        assert_eq!(answer["grid"]["rounding"], rounding, "{flags}");
    }
    let (float, said) = made("--float");
    assert_eq!((&float["rows"], said.as_str()), (&"float32".into(), ""));
    let (unnamed, said) = made("");
    assert_eq!(unnamed["plan_digest"], float["plan_digest"]);
    for words in ["precision attacks", "--dimension", "--summing-error", "--float"] {
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
    bench.json(&format!("{FROM} --dimension 1000 --out float.toml"));
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
    let searched = "calibrate plan --plan grid.toml --epsilon 1 --delta 1e-6";
    bench.refused(searched, 2, &["--plan has [grid]", "rustle plan suggest --grid"]);
    assert!(!bench.path("x.npy").exists());
}

#[test]
fn a_grid_needs_what_its_account_does() {
    let bench = Bench::new();
    for (flags, words) in [
        ("--grid --summing-error 1e-4", ["--dimension is missing", "[grid]"]),
        ("--grid --dimension 9", ["--summing-error is missing", "missing"]),
        ("--grid --dimension 9 --summing-error -1", ["--summing-error is -1", "0 to 1"]),
        ("--grid --float --dimension 9", ["--grid", "--float"]),
        ("--rounding nearest --dimension 9", ["--summing-error is missing", "missing"]),
        ("--float --summing-error 0 --dimension 9", ["--float", "--summing-error"]),
        ("--float --rounding contributions --dimension 9", ["--float", "--rounding"]),
        ("--grid --rounding odd --dimension 9", ["odd", "dithered"]),
        (
            "--grid --rounding nearest --summing-error 0 --dimension 100000000000",
            ["--rounding is", "dithered"],
        ),
    ] {
        bench.refused(&format!("{FROM} {flags}"), 2, &words);
    }
}
