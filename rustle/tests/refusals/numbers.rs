//! Numbers that are not allowed, and forms of numbers that are.

use super::bench::Bench;
use super::{ACCOUNT, FROM, NOISE, OPTIMIZE, SUGGEST, case, check};

#[test]
fn numbers_that_are_not_allowed() {
    let bench = Bench::new();
    let whole: &[&str] = &["allowed: a whole number"];
    check(
        &bench,
        &[
            case(FROM, "--iterations 10 --noise-multiplier -1", 2, &["--noise-multiplier is -1"]),
            case(FROM, "--iterations 10 --noise-multiplier NaN", 2, &["--noise-multiplier is"]),
            case(FROM, "--iterations 10 --noise-multiplier inf", 2, &["--noise-multiplier is"]),
            case(
                FROM,
                "--iterations 10 --noise-multiplier x",
                2,
                &["--noise-multiplier", "allowed: a number"],
            ),
            case(
                FROM,
                "--iterations -1 --noise-multiplier 1",
                2,
                &["--iterations", "allowed: a whole number"],
            ),
            case(FROM, "--iterations 1.5 --noise-multiplier 1", 2, whole),
            case(FROM, "--iterations 1e-3 --noise-multiplier 1", 2, whole),
            case(FROM, "--iterations 2,00 --noise-multiplier 1", 2, whole),
            case(FROM, "--iterations ten --noise-multiplier 1", 2, whole),
            case(FROM, "--iterations 0 --noise-multiplier 1", 2, &["--iterations is 0"]),
            case(FROM, "--iterations 1e30 --noise-multiplier 1", 2, &["--iterations"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --clip-norm 0", 2, &["--clip-norm is 0"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --clip-norm -2", 2, &["--clip-norm is -2"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --min-sep 0", 2, &["--min-sep", "1 or more"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --min-sep -3", 2, &["--min-sep", "-3"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --max-participations 0", 2, &["1 or more"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --dimension 0", 2, &["--dimension is 0"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --dimension -5", 2, &["--dimension", "-5"]),
            case(
                FROM,
                "--iterations 10 --noise-multiplier 1 --chacha-rounds 8",
                2,
                &["--chacha-rounds is 8"],
            ),
            case(OPTIMIZE, "blt --iterations 10 --buffers 0", 2, &["buffers is 0", "1 to 12"]),
            case(OPTIMIZE, "blt --iterations 10 --buffers -1", 2, &["--buffers", "-1"]),
            case(OPTIMIZE, "band-toeplitz --iterations 10 --bands 0", 2, &["--bands", "0"]),
            case(OPTIMIZE, "band-toeplitz --iterations 10 --bands 50", 2, &["--bands is 50"]),
            case(OPTIMIZE, "blt --iterations 10 --bands 3", 2, &["--bands"]),
            case(OPTIMIZE, "nothing --iterations 10", 2, &["nothing", "band-sqrt"]),
            case(SUGGEST, "--epsilon -1 --delta 1e-6", 2, &["-1"]),
            case(SUGGEST, "--epsilon 0 --delta 1e-6", 2, &["0"]),
            case(SUGGEST, "--epsilon 1 --delta 0", 2, &["delta"]),
            case(SUGGEST, "--epsilon 1 --delta 1", 2, &["delta"]),
            case(SUGGEST, "--epsilon 1 --delta -1e-6", 2, &["delta"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --memory-per-worker -4GiB", 2, &["--memory-per-worker"]),
            case(
                SUGGEST,
                "--epsilon 1 --delta 1e-6 --memory-per-worker 4Q",
                2,
                &["--memory-per-worker", "4Q"],
            ),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --sampling-probability 1.5", 2, &["1.5"]),
            case(ACCOUNT, "--noise-multiplier 0 --delta 1e-6", 2, &["noise multiplier is 0"]),
            case(ACCOUNT, "--noise-multiplier -2 --delta 1e-6", 2, &["noise multiplier is -2"]),
            case(ACCOUNT, "--noise-multiplier 2 --delta 2", 2, &["delta is 2"]),
            case(ACCOUNT, "--noise-multiplier 2 --delta -1", 2, &["delta is -1"]),
            case(ACCOUNT, "--noise-multiplier 2", 2, &["--delta", "--epsilon"]),
            case("account tree", "--noise-multiplier 3 --iterations 0 --delta 1e-6", 2, &["iterations is 0"]),
            case(NOISE, "--dimension 10 --steps 4..0", 2, &["--steps", "a..b"]),
            case(NOISE, "--dimension 10 --steps 0-4", 2, &["--steps", "a..b"]),
            case(NOISE, "--dimension 10 --steps 4", 2, &["--steps", "a..b"]),
            case(NOISE, "--dimension 10 --steps -1..3", 2, &["--steps", "a..b"]),
            case(NOISE, "--dimension 10 --steps 0..13", 2, &["--steps is 0..13", "0..12"]),
            case(NOISE, "--dimension 10 --steps 0..1 --range 0..11", 2, &["--range is 0..11"]),
            case(NOISE, "--dimension 10 --steps 0..1 --threads 0", 2, &["--threads", "0"]),
            case(NOISE, "--dimension 10 --steps 0..1 --threads -1", 2, &["--threads", "-1"]),
            case(NOISE, "--dimension 10 --steps 0..1 --backend gpu", 2, &["--backend", "gpu"]),
            case(NOISE, "--steps 0..1", 2, &["--dimension is missing"]),
        ],
    );
}

#[test]
fn numbers_that_no_plan_or_search_takes() {
    let bench = Bench::new();
    let whole: &[&str] = &["allowed: a whole number"];
    check(
        &bench,
        &[
            case(
                FROM,
                "--iterations 10 --noise-multiplier 1e-400",
                2,
                &["--noise-multiplier", "closer to 0"],
            ),
            case(FROM, "--iterations 10 --noise-multiplier 1e400", 2, &["--noise-multiplier", "too large"]),
            case(FROM, "--iterations 10 --noise-multiplier 1e308", 2, &["--noise-multiplier is 1e308"]),
            case(FROM, "--iterations 10 --noise-multiplier 1,5", 2, &["1,5", "allowed: a number"]),
            case(FROM, "--iterations 0x10 --noise-multiplier 1", 2, whole),
            case(FROM, "--iterations 1e15 --noise-multiplier 1", 2, &["--iterations is", "4294967295"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --dimension 1e19", 2, &["--dimension is"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --max-participations 99", 2, &["k up to 10"]),
            // Before a search of seconds.
            case(OPTIMIZE, "blt --iterations 1e12", 2, &["--iterations is 1000000000000", "4294967295"]),
            case(OPTIMIZE, "blt --iterations 10 --also-min-sep a", 2, whole),
            case(OPTIMIZE, "dense --iterations 1e6", 2, &["1 to 1024"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --within -10%", 2, &["--within", "0% to 1000%"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --within x", 2, &["--within", "0% to 1000%"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --memory-per-worker 0", 2, &["--memory-per-worker is 0"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --memory-per-worker 1e400", 2, &["too large"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-6 --workers 0", 2, &["workers is 0", "1 to 1000"]),
            case(SUGGEST, "--epsilon 1 --delta 1e-400", 2, &["--delta", "1e-400", "closer to 0"]),
            case(ACCOUNT, "--noise-multiplier 1 --delta 1e-6%", 2, &["--delta", "1e-6%"]),
            case(ACCOUNT, "--noise-multiplier 1 --delta 1e-6 --epsilon 1", 2, &["--delta", "--epsilon"]),
            case(
                "account poisson",
                "--noise-multiplier 1 --sampling-probability 256 --iterations 9 --delta 0.1",
                2,
                &["256"],
            ),
            case(
                "account poisson",
                "--noise-multiplier 1 --sampling-probability 0.1 --iterations 1e18 --delta 0.1",
                2,
                &["2^40"],
            ),
            case(
                "account band-mf",
                "--noise-multiplier 1 --bands 8 --sampling-probability 0.5 --iterations 9 --delta 0.1",
                2,
                &["is 4", "at most 1"],
            ),
            case(
                "account random-allocation",
                "--noise-multiplier 1 --batches-per-epoch 9 --epochs 0 --delta 0.1",
                2,
                &["--epochs", "1 or more"],
            ),
            case(
                "account balls-in-bins --plan plan.toml",
                "--batches-per-epoch 5 --epochs 2 --delta 0.1",
                2,
                &["product of 12"],
            ),
            case(
                "calibrate poisson",
                "--sampling-probability 0.1 --iterations 9 --epsilon 1e-300 --delta 0.1",
                2,
                &["--epsilon is 1e-300", "swapped?"],
            ),
            case(
                "calibrate poisson",
                "--sampling-probability 0.1 --iterations 9 --epsilon 0 --delta 0.1",
                2,
                &["epsilon is 0"],
            ),
            case("demo", "--epsilon 0", 2, &["--epsilon is 0", "0.01 to 1000"]),
            case("demo", "--delta 2", 2, &["--delta is 2", "between 0 and 1"]),
            case("demo", "--workers 0", 2, &["--workers", "allowed: 1 to 64"]),
            case(
                "up --plan plan.toml --dimension 10",
                "--workers 1000",
                2,
                &["--workers", "allowed: 1 to 256"],
            ),
            case("certs new --out c", "--life 99999999d", 2, &["--life", "allowed: above 0"]),
            case("certs new --out c", "--life 0d", 2, &["--life", "above 0"]),
            case("certs new --out c", "--workers -1", 2, &["--workers", "0 to 65535"]),
            case("job watch", "--every 0s", 2, &["--every", "above 0"]),
            case("config show coordinator --data-dir d", "--lease-ttl -1s", 2, &["lease", "-1s"]),
            case("config show coordinator --data-dir d", "--max-calls -1", 2, &["--max-calls", "-1"]),
            case("config show worker", "--memory-bytes 4Q", 2, &["--memory-bytes", "4Q"]),
        ],
    );
    assert!(!bench.path("c").exists());
}

#[test]
fn whole_numbers_in_every_usual_form() {
    let bench = Bench::new();
    for form in ["2000", "2e3", "2E3", "2_000", "2,000", "2.0e3"] {
        let made = bench.json(&format!("{FROM} --noise-multiplier 1 --iterations {form} --dimension=1e6"));
        assert_eq!(made["iterations"], 2000, "{form}");
        assert!(made["plan"].as_str().unwrap().contains("1000000"), "{made}");
    }
}
