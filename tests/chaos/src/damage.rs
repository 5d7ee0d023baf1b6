//! Bytes as a bad disk leaves them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use dice::Dice;

/// Flips a bit, zeroes a sector, or cuts the end off; says what it did.
pub fn damage(path: &Path, dice: &mut Dice) -> anyhow::Result<String> {
    let mut bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    // Files are full of room not used yet: a place that holds something says more.
    let mut places = (0..64).map(|_| dice.below(bytes.len().max(1) as u64) as usize);
    let at = places.find(|at| bytes.get(*at).is_some_and(|byte| *byte != 0)).unwrap_or(0);
    let what = match dice.below(3) {
        0 => {
            let bit = dice.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            format!("bit {bit} of byte {at} flipped")
        }
        1 => {
            let (from, to) = (at / 512 * 512, (at / 512 * 512 + 512).min(bytes.len()));
            bytes[from..to].fill(0);
            format!("bytes {from}..{to} zeroed")
        }
        _ => {
            bytes.truncate(at);
            format!("cut off after {at} bytes")
        }
    };
    fs::write(path, bytes)?;
    Ok(what)
}

/// All files under a folder with this ending.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        match path.is_dir() {
            true => found.extend(files(&path, ending)),
            false if path.to_string_lossy().ends_with(ending) => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}
