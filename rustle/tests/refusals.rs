//! What people mistype, as a table: each input is refused once, with the status that the documentation promises and a message
//! that names the flag, file or address, and what is allowed or to do.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use bench::Bench;

const FROM: &str = "plan from --mechanism identity";
const OPTIMIZE: &str = "plan optimize --mechanism";
const NOISE: &str = "noise --plan plan.toml --key-file key --out x.npy";
const SUGGEST: &str = "plan suggest --iterations 100 --dimension 1000";
const ACCOUNT: &str = "account gaussian --sensitivity 1";
const BATCHES: &str = "batches --seed-file key --out b.jsonl --iterations 10";
const FETCH: &str = "fetch --steps 0..1 --range 0..1";
const NEW_TOKEN: &str = "token new --out t --tokens-file ts";

/// Words, exit status, and parts of the message.
type Case = (String, i32, &'static [&'static str]);

fn case(start: &str, rest: &str, status: i32, parts: &'static [&'static str]) -> Case {
    (format!("{start} {rest}"), status, parts)
}

/// Runs every case, and reports all that fail together.
fn check(bench: &Bench, cases: &[Case]) {
    let mut failures = Vec::new();
    for (words, status, parts) in cases {
        let output = bench.run(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let missing: Vec<_> = parts.iter().filter(|part| !error.contains(**part)).collect();
        let mut wrong = Vec::new();
        if output.status.code() != Some(*status) {
            wrong.push(format!("status {:?} instead of {status}", output.status.code()));
        }
        if !missing.is_empty() {
            wrong.push(format!("no {missing:?}"));
        }
        if error.matches("error:").count() != 1 || error.contains("panicked") {
            wrong.push("not one error".to_owned());
        }
        if !output.stdout.is_empty() {
            wrong.push("something on standard output".to_owned());
        }
        if !wrong.is_empty() {
            failures.push(format!("{words}\n  {}\n  {error}", wrong.join("; ")));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn numbers_that_are_not_allowed() {
    let bench = Bench::new();
    let whole: &[&str] = &["allowed: a whole number"];
    check(
        &bench,
        &[
            case(FROM, "--iterations 10 --noise-multiplier -1", 2, &["noise_multiplier", "-1"]),
            case(FROM, "--iterations 10 --noise-multiplier NaN", 2, &["noise_multiplier"]),
            case(FROM, "--iterations 10 --noise-multiplier inf", 2, &["noise_multiplier"]),
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
            case(FROM, "--iterations 0 --noise-multiplier 1", 2, &["iterations", "0"]),
            case(FROM, "--iterations 1e30 --noise-multiplier 1", 2, &["--iterations"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --clip-norm 0", 2, &["clip_norm", "0"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --clip-norm -2", 2, &["clip_norm", "-2"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --min-sep 0", 2, &["--min-sep", "1 or more"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --min-sep -3", 2, &["--min-sep", "-3"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --max-participations 0", 2, &["1 or more"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --dimension 0", 2, &["dimension", "0"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --dimension -5", 2, &["--dimension", "-5"]),
            case(FROM, "--iterations 10 --noise-multiplier 1 --chacha-rounds 8", 2, &["chacha_rounds", "8"]),
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
fn files_that_are_not_what_they_should_be() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    fs::write(bench.path("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    fs::write(bench.path("empty"), "").unwrap();
    fs::write(bench.path("short"), [7; 31]).unwrap();
    bench.mode("short", 0o400);
    fs::write(bench.path("open"), [7; 32]).unwrap();
    bench.mode("open", 0o644);
    let plan = fs::read_to_string(bench.path("plan.toml")).unwrap();
    for (name, from, to) in [
        ("typo", "iterations", "iteratons"),
        ("text", "iterations = 12", "iterations = \"12\""),
        ("negative", "iterations = 12", "iterations = -12"),
        ("later", "format = 1", "format = 9"),
    ] {
        assert!(plan.contains(from), "{plan}");
        fs::write(bench.path(name), plan.replace(from, to)).unwrap();
    }
    let account = "account plan --delta 1e-6 --plan";
    let with_key = "noise --plan plan.toml --dimension 10 --steps 0..1 --out x.npy --key-file";
    check(
        &bench,
        &[
            case(account, "missing", 1, &["plan file missing", "No such file"]),
            case(account, "folder", 1, &["plan file folder", "directory"]),
            case(account, "binary", 1, &["plan file binary", "UTF-8"]),
            case(account, "empty", 1, &["plan file empty", "missing"]),
            case(account, "typo", 1, &["plan file typo", "iteratons"]),
            case(account, "text", 1, &["plan file text", "iterations"]),
            case(account, "negative", 1, &["plan file negative", "iterations"]),
            case(account, "later", 1, &["plan file later", "format", "9"]),
            case(with_key, "missing", 1, &["key file missing", "No such file"]),
            case(with_key, "folder", 1, &["key file folder"]),
            case(with_key, "short", 1, &["key file short", "31 bytes", "exactly 32"]),
            case(with_key, "open", 1, &["key file open", "0644", "0400 or 0600"]),
            case(with_key, "plan.toml", 1, &["key file plan.toml"]),
            case("plan compare", "missing --no-rates", 1, &["plan file missing"]),
            case("report --plan", "typo", 1, &["plan file typo"]),
            case("up --plan", "missing", 1, &["plan file missing"]),
            case(
                BATCHES,
                "--scheme poisson --sampling-probability 0.1 --population 0",
                2,
                &["--population is 0"],
            ),
            case(
                BATCHES,
                "--scheme poisson --sampling-probability 0.1 --population -1",
                2,
                &["--population", "-1"],
            ),
            case(BATCHES, "--scheme poisson --sampling-probability 1.5 --population 9", 2, &["1.5"]),
            case(BATCHES, "--scheme dice --population 9", 2, &["dice", "poisson"]),
            case(NEW_TOKEN, "--role operator --worker w", 2, &["--worker is given", "--role worker"]),
            case(NEW_TOKEN, "--role worker --job j", 2, &["--job is given"]),
            case(NEW_TOKEN, "--role operator --range 0..8", 2, &["--range is given", "--role trainer"]),
            case(NEW_TOKEN, "--role operator --life 0s", 2, &["--life"]),
            case(NEW_TOKEN, "--role operator --life -1h", 2, &["--life", "-1h"]),
            case(NEW_TOKEN, "--role operator --life 1x", 2, &["--life", "1x", "30d"]),
            case("key new", "--out -", 2, &["--out is -", "a key is never printed"]),
            case(
                "token new --tokens-file ts --role operator",
                "--out -",
                2,
                &["--out is -", "never printed"],
            ),
            case(
                "certs new --out c",
                "--trust-domain Bad_Domain!",
                2,
                &["--trust-domain", "lower-case letters"],
            ),
            case("certs issue --authority no --out c", "--role king", 2, &["king", "worker/NAME"]),
            case("config show", "worker --ahead-rows x", 2, &["x"]),
            case("fetch --steps 0..1 --range 0..1 --out x", "--commitment=", 2, &["--commitment is empty"]),
            case(FETCH, "--out -", 2, &["--out is - and --commitment is missing"]),
            case(FETCH, "--out /dev/stdout", 2, &["/dev/stdout and --commitment is missing"]),
            case(FETCH, "--out /dev/null", 2, &["/dev/null and --commitment is missing"]),
            case("job destroy", "--yes", 2, &["--job"]),
            case("job rewind --job j", "--to-row -1", 2, &["--to-row", "-1"]),
            case("job show", "--job ../x", 2, &["../x"]),
            case("dance", "", 2, &["dance"]),
        ],
    );
    assert!(!bench.path("t").exists() && !bench.path("x.npy").exists() && !bench.path("c").exists());
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

/// Answers every connection with these bytes, after the client's first ones. Returns the port.
fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(bytes);
        }
    });
    port
}

#[test]
fn coordinators_that_are_not_reached() {
    let bench = Bench::new();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let web = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let tls = answering(&[0x15, 0x03, 0x03, 0, 2, 2, 70]);
    let mute = answering(b"");
    fs::write(bench.path("mine.token"), "rustle_x").unwrap();
    bench.mode("mine.token", 0o400);
    bench.json("certs new --out certs");
    let at = |url: String, parts| case("job list --coordinator", &url, 1, parts);
    let over_tls = |port: u16, parts| {
        let url = format!("https://127.0.0.1:{port} --tls-dir certs/operator");
        case("job list --coordinator", &url, 1, parts)
    };
    let refused: &[&str] =
        &["http://127.0.0.1:", "connection refused", "is it running?", "RUSTLE_COORDINATOR"];
    check(
        &bench,
        &[
            at(format!("http://127.0.0.1:{closed}"), refused),
            at(format!("http://127.0.0.1:{web}"), &["web server", "status page", "gRPC address"]),
            at(format!("http://127.0.0.1:{tls}"), &["speaks TLS", "https://", "--tls-dir"]),
            at(format!("http://127.0.0.1:{mute}"), &["answers nothing"]),
            at("unix:///no/such.sock".into(), &["/no/such.sock", "there is no socket"]),
            at("http://127.0.0.1".into(), &["http://127.0.0.1", "port"]),
            at("http://127.0.0.1:99999".into(), &["99999"]),
            at("http://10.0.0.1:7300".into(), &["10.0.0.1"]),
            at("nonsense".into(), &["nonsense"]),
            over_tls(closed, &["https://127.0.0.1:", "connection refused"]),
            over_tls(web, &["does not speak TLS", "http://"]),
            at(format!("https://127.0.0.1:{closed}"), &["https://127.0.0.1:"]),
            case(
                "fetch --steps 0..1 --range 0..1 --out x.npy --coordinator",
                &format!("http://127.0.0.1:{closed}"),
                1,
                refused,
            ),
            case("report --job j --coordinator", &format!("http://127.0.0.1:{closed}"), 1, refused),
            case("worker drain --worker w --coordinator", &format!("http://127.0.0.1:{closed}"), 1, refused),
        ],
    );
    assert!(!bench.path("x.npy").exists());
}
