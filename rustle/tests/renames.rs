//! Former names of settings as the binary takes them: variables and keys of the file.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

use serde_json::Value;

/// The former and the new name of each renamed setting.
const RENAMED: [(&str, &str); 4] = [
    ("between_failures", "mtbf"),
    ("longest_replay", "max_replay"),
    ("relieve_after", "straggler_timeout"),
    ("store_lease", "leader_lease_ttl"),
];

/// Runs `rustle config show coordinator` and returns the value and the source of one setting.
fn shown(name: &str, flags: &[&str], variable: Option<&str>) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rustle"));
    command.args(["--format", "json", "config", "show", "coordinator", "--data-dir", "data"]).args(flags);
    command.envs(variable.map(|variable| (variable, "77s")));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = answer["settings"].as_array().unwrap();
    let rows: Vec<_> = settings.iter().filter(|setting| setting["name"] == name).collect();
    assert_eq!(rows.len(), 1, "{name}: {answer}");
    let text = |field: &str| rows[0][field].as_str().unwrap().to_owned();
    (text("value"), text("source"))
}

#[test]
fn former_variables_set_the_new_settings() {
    for (former, new) in RENAMED {
        let variable = format!("RUSTLE_{}", former.to_uppercase());
        let (value, source) = shown(new, &[], Some(&variable));
        assert_eq!(value, "77s", "{variable}");
        assert!(source.contains(&variable), "{source}");
    }
}

#[test]
fn former_keys_set_the_new_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.toml");
    for (former, new) in RENAMED {
        fs::write(&file, format!("{former} = \"77s\"\n")).unwrap();
        let (value, source) = shown(new, &["--config", file.to_str().unwrap()], None);
        assert_eq!(value, "77s", "{former}");
        assert!(source.contains("old.toml"), "{source}");
    }
}
