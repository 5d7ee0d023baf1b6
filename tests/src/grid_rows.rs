//! Rows on a grid as `rustle noise` makes them, and what the program answers.

use std::{fs, ops::Range, os::unix::fs::PermissionsExt, path::Path, process::Command};

use plan::Plan;
use proto::NoiseId;
use serde_json::Value;

use crate::{oracle::KEY, program};

/// Runs the program in a folder and returns its answer.
#[track_caller]
pub fn answer_of(folder: &Path, words: &str) -> Value {
    let words = words.split_whitespace().chain(["--format", "json"]);
    let output =
        Command::new(program()).args(words.clone()).current_dir(folder).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", words.collect::<Vec<_>>());
    serde_json::from_slice(&output.stdout).expect("an answer in JSON")
}

/// Returns the rows of an .npy file of int32.
#[track_caller]
pub fn integers(path: &Path, width: usize) -> Vec<Vec<i32>> {
    let bytes = fs::read(path).expect("the file is read");
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(String::from_utf8_lossy(&bytes[..header]).contains("'<i4'"), "{} is not int32", path.display());
    let values = bytes[header..].as_chunks::<4>().0.iter().map(|value| i32::from_le_bytes(*value));
    values.collect::<Vec<_>>().chunks(width).map(<[i32]>::to_vec).collect()
}

/// Returns the rows that `rustle noise` makes of a job's noise under the tests' key, by files that it writes to the folder.
#[track_caller]
pub fn made_by_noise(
    folder: &Path,
    noise_id: &NoiseId,
    plan: &Plan,
    rows: Range<u64>,
    range: Range<u64>,
) -> Vec<Vec<i32>> {
    let key = folder.join("made.key");
    if !key.exists() {
        fs::write(&key, KEY).expect("the key is written");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("the key is its owner's");
    }
    fs::write(folder.join("made.toml"), plan.to_toml_string().expect("a plan in TOML"))
        .expect("it is written");
    let Range { start, end } = rows;
    let Range { start: from, end: to } = range;
    let words = format!(
        "noise --plan made.toml --key-file made.key --noise-id {noise_id} --steps {start}..{end} --range {from}..{to} \
         --out made.npy"
    );
    assert_eq!(answer_of(folder, &words)["element"], "int32");
    integers(&folder.join("made.npy"), (to - from) as usize)
}
