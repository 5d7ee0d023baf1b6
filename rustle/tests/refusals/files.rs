//! Files that are not what they should be.

use std::fs;

use super::bench::Bench;
use super::{BATCHES, FETCH, case, check};

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
            case(account, "binary", 1, &["plan file binary", "not text"]),
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
    assert!(!bench.path("x.npy").exists());
}

#[test]
fn texts_that_hold_something_else() {
    let bench = Bench::new();
    let plan = fs::read_to_string(bench.path("plan.toml")).unwrap();
    for (name, text) in [
        ("cut", plan[..60].to_owned()),
        ("twice", plan.replace("iterations = 12", "iterations = 12\niterations = 13")),
        ("float", plan.replace("iterations = 12", "iterations = 12.0")),
        ("nan", plan.replace("noise_multiplier = 2.5", "noise_multiplier = nan")),
        ("mechanism", plan.replace("\"blt\"", "\"blx\"")),
        ("long", "a".repeat(100_000)),
        ("json", "{\"a\": 1}".to_owned()),
        ("empty", String::new()),
        ("list", "[]".to_owned()),
        ("dance", "{\"kind\": \"dance\"}".to_owned()),
        ("sizes", "3\n-1\n".to_owned()),
        ("scores", "1\n2\nx\n".to_owned()),
        ("pem", "-----BEGIN NOTHING-----\nAAAA\n-----END NOTHING-----\n".to_owned()),
    ] {
        fs::write(bench.path(name), text).unwrap();
    }
    fs::write(bench.path("picture"), b"\x89PNG\r\n\x1a\n").unwrap();
    let show = "plan show";
    let event = "account event --delta 1e-6 --event";
    let rows = "plan compare plan.toml --no-rates --row-weights";
    let sizes = format!("{BATCHES} --scheme poisson --sampling-probability 0.1 --uls 2 --user-sizes");
    let scores = "audit scores --delta 1e-6 --in";
    check(
        &bench,
        &[
            case(show, "cut", 1, &["plan file cut", "line 4"]),
            case(show, "twice", 1, &["plan file twice", "duplicate key"]),
            case(show, "float", 1, &["plan file float", "allowed: a whole number"]),
            case(show, "nan", 1, &["plan file nan", "noise_multiplier", "finite"]),
            case(show, "mechanism", 1, &["plan file mechanism", "blx", "band-sqrt"]),
            case(show, "long", 1, &["plan file long", "aaa …"]),
            case(show, "json", 1, &["plan file json", "TOML"]),
            case(show, "picture", 1, &["plan file picture", "not text", "another file?"]),
            case(show, "key", 1, &["plan file key"]),
            case(show, "plan.toml/x", 1, &["plan file plan.toml/x"]),
            case(event, "missing", 1, &["event missing", "No such file"]),
            case(event, "picture", 1, &["event picture", "not text"]),
            case(event, "empty", 2, &["event empty", "it is empty", "JSON"]),
            case(event, "plan.toml", 2, &["event plan.toml", "not JSON"]),
            case(event, "list", 2, &["event list", "kind"]),
            case(event, "dance", 2, &["event dance", "dance", "`gaussian`"]),
            case("report --plan plan.toml --released", "plan.toml", 2, &["plan.toml", "not JSON"]),
            case("report --plan plan.toml --released", "empty", 2, &["empty", "JSON"]),
            case(rows, "missing", 1, &["missing"]),
            case(rows, "empty", 2, &["row weights is 0", "12"]),
            case(rows, "plan.toml", 2, &["plan.toml", "line 1", "not a number"]),
            case(&sizes, "missing", 1, &["user sizes missing"]),
            case(&sizes, "empty", 2, &["user sizes empty is empty", "one per line"]),
            case(&sizes, "sizes", 2, &["line 2", "-1", "allowed: a whole number"]),
            case(scores, "picture", 1, &["picture", "not text"]),
            case(scores, "scores", 2, &["scores, line 1"]),
            case("certs show", "pem", 1, &["pem", "no certificate in PEM"]),
            case("certs show", "missing", 1, &["missing", "cannot be read"]),
            case("config show coordinator --config", "picture", 1, &["picture", "not text"]),
            case("config show coordinator --config", "json", 1, &["json is not valid TOML"]),
            case("token list --tokens-file", "picture", 1, &["picture", "not text"]),
            case("ledger backup --out l --file", "plan.toml", 1, &["plan.toml is damaged"]),
            case("ledger backup --out l --file", "missing", 1, &["no ledger at missing"]),
        ],
    );
    assert!(!bench.path("b.jsonl").exists() && !bench.path("l").exists());
}

#[test]
fn arrays_that_are_not_the_rows() {
    let bench = Bench::new();
    let id = "5".repeat(64);
    bench.json(&format!(
        "noise --plan plan.toml --key-file key --dimension 10 --steps 0..2 --noise-id {id} --out x.npy"
    ));
    let rows = fs::read(bench.path("x.npy")).unwrap();
    let with = |from: &str, to: &str| {
        let at = rows.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let mut changed = rows.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        changed
    };
    for (name, bytes) in [
        ("empty", vec![]),
        ("magic", rows[..6].to_vec()),
        ("header", rows[..60].to_vec()),
        ("numbers", rows[..rows.len() - 4].to_vec()),
        ("picture", b"\x89PNG\r\n\x1a\n\0\0\0\0".to_vec()),
        ("double", with("<f4", "<f8")),
        ("big", with("<f4", ">f4")),
        ("fortran", with("False", "True,")),
        ("more", with("(2, 10)", "(4, 10)")),
    ] {
        fs::write(bench.path(name), bytes).unwrap();
    }
    fs::write(bench.path("none"), &with("(2, 10)", "(0, 10)")[..rows.len() - 80]).unwrap();
    let start =
        format!("verify --plan plan.toml --key-file key --dimension 10 --noise-id {id} --range 0..10 --step");
    let first = format!("{start} 0 --row 0");
    check(
        &bench,
        &[
            case(&first, "missing", 1, &["read missing", "No such file"]),
            case(&first, "plan.toml", 1, &["read plan.toml", "not an .npy file"]),
            case(&first, "picture", 1, &["not an .npy file"]),
            case(&first, "empty", 1, &["not an .npy file", "ends too early"]),
            case(&first, "magic", 1, &["not an .npy file"]),
            case(&first, "header", 1, &["cut short"]),
            case(&first, "numbers", 1, &["76 bytes", "(2, 10)"]),
            case(&first, "more", 1, &["80 bytes", "(4, 10)"]),
            case(&first, "double", 1, &["<f8", "allowed: <f4"]),
            case(&first, "big", 1, &[">f4", "allowed: <f4"]),
            case(&first, "fortran", 1, &["C order"]),
            case(&first, "none", 1, &["none has no rows"]),
            case(&start, "0 x.npy", 2, &["--row is missing", "0 to 1"]),
            case(&start, "0 --row 7 x.npy", 2, &["--row is 7", "0 to 1"]),
            case(&start, "12 --row 0 x.npy", 2, &["--step is 12", "0 to 11"]),
        ],
    );
}
