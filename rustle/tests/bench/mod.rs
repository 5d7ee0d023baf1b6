//! The binary in a folder of its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a key and a plan of a BLT, 12 rows.
pub struct Bench {
    pub folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(bench.path("key"), *b"0123456789abcdefghijklmnopqrstuv").unwrap();
        bench.mode("key", 0o400);
        bench.plan("plan.toml", "blt --theta 0.9,0.5 --omega 0.2,0.3");
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns all files and folders under the folder.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path.clone());
                }
                found.insert(path);
            }
        }
        found
    }

    pub fn plan(&self, name: &str, mechanism: &str) {
        let words = format!(
            "plan from --mechanism {mechanism} --float --iterations 12 --min-sep 4 --max-participations 3 \
             --noise-multiplier 2.5 --out {name}"
        );
        self.json(&words);
    }

    /// Runs `rustle` in the folder; words are split at spaces.
    pub fn run(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rustle"))
            .args(words.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed, and returns the one JSON object that it prints.
    pub fn json(&self, words: &str) -> Value {
        let output = self.run(&format!("{words} --format json"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}: {error}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Runs a command that must exit with `status` and print each of `parts` on standard error, and nothing on standard
    /// output.
    pub fn refused(&self, words: &str, status: i32, parts: &[&str]) {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words}: {error}");
        assert!(output.stdout.is_empty(), "{words}");
        for part in parts {
            assert!(error.contains(part), "{words}: no {part:?} in {error}");
        }
    }

    pub fn noise(&self, more: &str) -> Value {
        self.json(&format!("noise --key-file key --dimension 3000 {more}"))
    }
}
