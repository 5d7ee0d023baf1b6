//! Arguments that no table of words holds: empty, with spaces, not UTF-8, or with what a terminal would obey.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

use super::bench::Bench;
use super::wrong_in;

/// Words, exit status, and parts of the message.
type OddCase<'a> = (Vec<&'a [u8]>, i32, &'a [&'a str]);

fn run(bench: &Bench, words: &[&[u8]]) -> Output {
    let words = words.iter().map(|word| OsStr::from_bytes(word));
    Command::new(env!("CARGO_BIN_EXE_rustle")).args(words).current_dir(bench.folder.path()).output().unwrap()
}

#[test]
fn odd_words_are_refused_and_shown_harmlessly() {
    let bench = Bench::new();
    let from: [&[u8]; 8] =
        [b"plan", b"from", b"--mechanism", b"identity", b"--noise-multiplier", b"1", b"--iterations", b""];
    let with_iterations = |value: &'static [u8]| [&from[..7], &[value]].concat();
    let long = "x".repeat(300);
    let cases: Vec<OddCase> = vec![
        (with_iterations(b""), 2, &["--iterations", "allowed: a whole number"]),
        (with_iterations(b"10 "), 2, &["'10 '", "allowed: a whole number"]),
        (with_iterations(b"\xff"), 2, &["not UTF-8", "\\xFF"]),
        ([&from[..5], &[b"" as &[u8]]].concat(), 2, &["--noise-multiplier", "allowed: a number"]),
        (vec![b"\xff\xfe"], 2, &["unrecognized"]),
        (vec![b"plan", b"show", b""], 2, &["PLAN"]),
        (vec![b"plan", b"show", b"a\x1b[2Jb"], 1, &["plan file", "u{1b}"]),
        (vec![b"job", b"show", b"--job", b"a\x1b[2Jb"], 2, &["--job", "u{1b}"]),
        (vec![b"d\x1b[2Jance"], 2, &["unrecognized"]),
        (vec![b"job", b"show", b"--job", b""], 2, &["--job", "1 to 64"]),
        (vec![b"job", b"show", b"--job", "ü".as_bytes()], 2, &["--job", "1 to 64"]),
        (vec![b"job", b"show", b"--job", long.as_bytes()], 2, &["--job", "1 to 64"]),
        (vec![b"job", b"show", b"--job", b"a b"], 2, &["--job", "1 to 64"]),
        (vec![b"job", b"list", b"--coordinator", b""], 2, &["--coordinator", "\"\""]),
        (vec![b"certs", b"new", b"--out", b"c", b"--trust-domain", b""], 2, &["--trust-domain", "1 to 255"]),
        (vec![b"key", b"new", b"--out", b""], 2, &["--out"]),
        (vec![b"plan", b"show", b"plan.toml", b"--format="], 2, &["--format", "json"]),
        (vec![b"plan", b"show", b"plan.toml", b"--wide", b"--wide"], 2, &["--wide", "multiple times"]),
        (vec![b"--verbose"], 2, &["--verbose"]),
        (vec![b"pla"], 2, &["pla", "'plan'"]),
        (vec![b"help", b"dance"], 2, &["dance"]),
    ];
    for (words, status, parts) in cases {
        let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(wrong_in(&run(&bench, &words), status, parts), None, "{shown:?}");
    }
}

/// As editors of other systems write files.
#[test]
fn a_plan_with_windows_line_ends_or_a_byte_order_mark_is_the_same_plan() {
    let bench = Bench::new();
    let digest = |name: &str| bench.json(&format!("plan show {name}"))["plan_digest"].clone();
    let plan = std::fs::read_to_string(bench.path("plan.toml")).unwrap();
    std::fs::write(bench.path("crlf.toml"), plan.replace('\n', "\r\n")).unwrap();
    std::fs::write(bench.path("bom.toml"), format!("\u{feff}{plan}")).unwrap();
    assert!(digest("plan.toml").is_string());
    assert_eq!((digest("crlf.toml"), digest("bom.toml")), (digest("plan.toml"), digest("plan.toml")));
}
