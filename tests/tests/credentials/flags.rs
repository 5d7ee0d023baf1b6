//! The flags without which a process does not start: TLS beyond loopback, and the record of released rows.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

/// Returns the error output of a process that does not start.
fn error_output(process: &str, flags: &[&str]) -> String {
    let output =
        Command::new(tests::program()).arg(process).args(flags).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "{process} {flags:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn beyond_loopback_tls_or_a_flag_is_required() {
    let folder = tempfile::TempDir::new().unwrap();
    let data = folder.path().display().to_string();
    coordinator::init_ledger(folder.path()).unwrap();
    let key = folder.path().join("key");
    fs::write(&key, *b"0123456789abcdefghijklmnopqrstuv").unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o400)).unwrap();
    let key = key.display().to_string();
    let loopback = ["--listen", "127.0.0.1:0"];
    let processes = [
        ("coordinator", vec!["--data-dir", &data]),
        ("worker", vec!["--key-file", &key, "--state-dir", "none"]),
    ];
    for (process, flags) in processes {
        let metrics = [&loopback[..], &["--metrics-listen", "0.0.0.0:0"]].concat();
        for listen in [vec!["--listen", "0.0.0.0:0"], metrics] {
            let output = error_output(process, &[&flags[..], &listen].concat());
            let names_both = output.contains("--tls-dir") && output.contains("--insecure-listen");
            assert!(names_both, "{process} {listen:?}: {output}");
        }
        // A process without TLS logs a warning, here for an address that it cannot bind.
        let insecure = ["--listen", "192.0.2.1:0", "--insecure-listen"];
        let output = error_output(process, &[&flags[..], &insecure].concat());
        assert!(output.contains("anyone who reaches these ports can read rows"), "{process}: {output}");
        assert!(output.contains("192.0.2.1"), "{process}: {output}");
    }
    let remote = ["--key-file", &key, "--state-dir", "none", "--coordinator", "http://10.9.8.7:1"];
    let output = error_output("worker", &[&loopback[..], &remote].concat());
    assert!(output.contains("10.9.8.7") && output.contains("--insecure-listen"), "{output}");
}

/// A worker that forgets which rows it released is half of the guard, so it must be requested.
#[test]
fn a_worker_without_a_record_needs_a_flag_and_logs_a_warning() {
    let output = error_output("worker", &["--key-file", "none"]);
    assert!(output.contains("--state-dir is missing") && output.contains("`none`"), "{output}");
    let output = error_output("worker", &["--key-file", "none", "--state-dir", "none"]);
    assert!(output.contains("is not found by this worker once it has started anew"), "{output}");
    assert!(!output.contains("--state-dir is missing"), "{output}");
}
