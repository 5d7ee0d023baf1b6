//! Bytes as a bad disk leaves them.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::Context;

use dice::Dice;

const PAGE: usize = 4096;

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
            let from = at / 512 * 512;
            let to = (at / 512 * 512 + 512).min(bytes.len());
            bytes[from..to].fill(0);
            format!("bytes {from}..{to} zeroed")
        }
        _ => {
            bytes.truncate(at);
            format!("cut off after {at} bytes")
        }
    };
    write(path, &bytes)?;
    Ok(what)
}

/// Writes a file with holes in place of zeros: a ledger's length exceeds its contents, and may exceed its disk.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("write {}", path.display()))?;
    file.set_len(bytes.len() as u64)?;
    for (page, start) in bytes.chunks(PAGE).zip((0..).step_by(PAGE)) {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, start)?;
        }
    }
    Ok(())
}

/// All files under a folder with this ending.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn zeros_take_no_room_and_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut bytes = vec![0; 100 * PAGE + 7];
        (bytes[5 * PAGE + 1], bytes[100 * PAGE + 6]) = (1, 2);
        fs::write(&path, vec![3; 200 * PAGE]).unwrap();
        write(&path, &bytes).unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 <= 10 * PAGE as u64);
    }
}
