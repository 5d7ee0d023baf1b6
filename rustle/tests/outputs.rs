//! Where `--out` leads, and readers that leave: nothing but a regular file is ever replaced, and no pipe causes a panic.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod bench;

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::{Command, Stdio};

use bench::Bench;

const PLAN: &str = "plan from --float --mechanism identity --iterations 12 --noise-multiplier 1";

/// Every command that writes a file: its words up to `--out`, and how its output begins.
fn writers(bench: &Bench) -> Vec<(String, &'static [u8])> {
    fs::write(bench.path("seed"), *b"0123456789abcdefghijklmnopqrstuv").unwrap();
    bench.mode("seed", 0o400);
    let optimize = "plan optimize --float --mechanism identity --iterations 12";
    let batches =
        "batches --scheme poisson --sampling-probability 0.1 --population 50 --iterations 9 --seed-file seed";
    // Without an id, each call makes new noise.
    let id = "5".repeat(64);
    let noise = format!("noise --plan plan.toml --key-file key --dimension 10 --steps 0..2 --noise-id {id}");
    vec![
        (PLAN.into(), b"format"),
        (optimize.into(), b"format"),
        (batches.into(), b"{\"round\""),
        (noise, b"\x93NUMPY"),
        ("report --plan plan.toml".into(), b"#"),
        ("plan plot plan.toml --what coefficients".into(), b"<svg"),
    ]
}

/// Runs a command that must succeed, in its usual format.
fn write(bench: &Bench, words: &str) -> Vec<u8> {
    let output = bench.run(words);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_file_is_replaced_whole_and_a_link_stays() {
    let bench = Bench::new();
    for (words, start) in writers(&bench) {
        fs::write(bench.path("target"), "before").unwrap();
        let _ = fs::remove_file(bench.path("link"));
        symlink("target", bench.path("link")).unwrap();
        write(&bench, &format!("{words} --out link"));
        assert!(fs::symlink_metadata(bench.path("link")).unwrap().is_symlink(), "{words}");
        assert!(fs::read(bench.path("target")).unwrap().starts_with(start), "{words}");
        symlink("nothing", bench.path("dangling")).unwrap();
        bench.refused(&format!("{words} --out dangling"), 1, &["dangling", "a link to nothing"]);
        fs::remove_file(bench.path("dangling")).unwrap();
    }
}

/// The lines without the time of a report, which two commands need not share.
fn undated(written: &[u8]) -> Vec<&[u8]> {
    written.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"| made at |")).collect()
}

#[test]
fn a_dash_is_standard_output_and_nothing_else_is_written_there() {
    let bench = Bench::new();
    for (words, start) in writers(&bench) {
        write(&bench, &format!("{words} --out file"));
        let written = write(&bench, &format!("{words} --out -"));
        assert!(written.starts_with(start), "{words}");
        assert_eq!(undated(&written), undated(&fs::read(bench.path("file")).unwrap()), "{words}");
        assert!(!bench.path("-").exists(), "{words}");
    }
}

#[test]
fn a_log_that_standard_output_is_appended_to_is_kept() {
    let bench = Bench::new();
    let log = bench.path("log");
    for (words, _) in writers(&bench) {
        write(&bench, &format!("{words} --out file"));
        let expected = [b"before\n".to_vec(), fs::read(bench.path("file")).unwrap()].concat();
        for out in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "log"] {
            fs::write(&log, "before\n").unwrap();
            let status = Command::new(env!("CARGO_BIN_EXE_rustle"))
                .args(words.split_whitespace())
                .args(["--out", out])
                .current_dir(bench.folder.path())
                .stdout(OpenOptions::new().append(true).open(&log).unwrap())
                .status()
                .unwrap();
            assert!(status.success(), "{words} --out {out}");
            assert!(fs::read(&log).unwrap() == expected, "{words} --out {out}");
        }
    }
}

#[test]
fn a_log_that_standard_error_is_appended_to_is_kept() {
    let bench = Bench::new();
    let log = bench.path("log");
    for (words, _) in writers(&bench) {
        write(&bench, &format!("{words} --out file"));
        let expected = fs::read(bench.path("file")).unwrap();
        for out in ["/dev/stderr", "log"] {
            fs::write(&log, "before\n").unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_rustle"))
                .args(words.split_whitespace())
                .args(["--out", out])
                .current_dir(bench.folder.path())
                .stderr(OpenOptions::new().append(true).open(&log).unwrap())
                .output()
                .unwrap();
            assert!(output.status.success(), "{words} --out {out}");
            let kept = fs::read(&log).unwrap();
            let is_there = kept.windows(expected.len()).any(|part| part == expected);
            assert!(kept.starts_with(b"before\n") && is_there, "{words} --out {out}");
        }
    }
}

#[test]
fn devices_pipes_and_folders_stay_what_they_are() {
    let bench = Bench::new();
    let fifo = bench.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::create_dir(bench.path("folder")).unwrap();
    for (words, start) in writers(&bench) {
        write(&bench, &format!("{words} --out /dev/null"));
        bench.refused(&format!("{words} --out /dev/full"), 1, &["write /dev/full", "No space left"]);
        for device in ["/dev/null", "/dev/full"] {
            assert!(fs::metadata(device).unwrap().file_type().is_char_device(), "{words}");
        }
        bench.refused(&format!("{words} --out folder"), 1, &["write folder", "a folder is there"]);
        bench.refused(&format!("{words} --out no/file"), 1, &["write no/file", "there is no folder no"]);

        let reader = fifo.clone();
        let read = std::thread::spawn(move || fs::read(reader).unwrap());
        write(&bench, &format!("{words} --out fifo"));
        assert!(read.join().unwrap().starts_with(start), "{words}");
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo(), "{words}");
    }
    let left: Vec<_> =
        fs::read_dir(bench.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".partial")), "{left:?}");
}

/// Runs a command whose output has no reader. Returns its exit status and what it wrote on standard error.
fn unread(bench: &Bench, words: &str) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rustle"))
        .args(words.split_whitespace())
        .current_dir(bench.folder.path())
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(reader);
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    (child.wait().unwrap().code(), error)
}

#[test]
fn a_reader_that_leaves_ends_a_command_quietly() {
    let bench = Bench::new();
    let mut commands: Vec<String> =
        writers(&bench).into_iter().map(|(words, _)| format!("{words} --out -")).collect();
    commands.extend(
        [
            "plan compare plan.toml --no-rates",
            "plan compare plan.toml --no-rates --format json",
            "plan resources --plan plan.toml --dimension 1000 --coordinates-per-second 1e6",
            "plan coefficients --plan plan.toml --matrix c --count 5",
            "account plan --plan plan.toml --delta 1e-6",
            "report --plan plan.toml",
            "config show worker --key-file key --state-dir none",
            "completions bash",
            "--help",
            "job --help",
        ]
        .map(str::to_owned),
    );
    for words in commands {
        let (status, error) = unread(&bench, &words);
        assert_eq!((status, error.as_str()), (Some(0), ""), "{words}");
    }
}

#[test]
fn bits_that_differ_are_a_failure_whether_or_not_it_is_read() {
    let bench = Bench::new();
    let made = bench.noise("--plan plan.toml --steps 5..6 --out x.npy");
    let verify = |id: &str| {
        let words = "verify --plan plan.toml --key-file key --dimension 3000 --step 5 --range 0..3000 x.npy";
        unread(&bench, &format!("{words} --noise-id {id}"))
    };
    let equal = verify(made["noise_id"].as_str().unwrap());
    assert_eq!((equal.0, equal.1.as_str()), (Some(0), ""));
    let other = verify(&"0".repeat(64));
    assert_eq!(other.0, Some(1), "{}", other.1);
    assert!(other.1.contains("first differs at coordinate 0"), "{}", other.1);
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_rustle"))
        .args(["plan", "compare", "missing.toml"])
        .current_dir(bench.folder.path())
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}
