//! Looks for secrets in what a cluster writes: every 8 bytes of them, raw and as people and programs print bytes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

const WINDOW: usize = 8;

/// What to look for, found by its first bytes.
#[derive(Debug, Default)]
pub struct Scan {
    patterns: HashMap<[u8; WINDOW], Vec<(Vec<u8>, String)>>,
    pub bytes: u64,
    /// Where something was found, and as what.
    pub hits: Vec<String>,
}

impl Scan {
    pub fn add(&mut self, name: &str, secret: &[u8]) {
        for (at, window) in secret.windows(WINDOW).enumerate() {
            for (form, pattern) in forms(window) {
                let start = pattern[..WINDOW].try_into().expect("patterns are long enough");
                let what = format!("{name}, bytes {at}..{}, {form}", at + WINDOW);
                self.patterns.entry(start).or_default().push((pattern, what));
            }
        }
    }

    pub fn look(&mut self, origin: &str, haystack: &[u8]) {
        self.bytes += haystack.len() as u64;
        for (at, start) in haystack.windows(WINDOW).enumerate() {
            let Some(patterns) = <&[u8; WINDOW]>::try_from(start).ok().and_then(|s| self.patterns.get(s))
            else {
                continue;
            };
            let found = patterns.iter().filter(|(pattern, _)| haystack[at..].starts_with(pattern));
            self.hits.extend(found.map(|(_, what)| format!("{origin} at {at}: {what}")));
        }
    }

    /// All files below a folder, but for those that hold secrets by their purpose.
    pub fn look_below(&mut self, dir: &Path, but: &[PathBuf]) {
        for entry in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if but.contains(&entry) {
            } else if entry.is_dir() {
                self.look_below(&entry, but);
            } else if entry.is_file() {
                self.look(&entry.display().to_string(), &fs::read(&entry).expect("a file"));
            }
        }
    }
}

fn forms(window: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let numbers: Vec<String> = window.iter().map(u8::to_string).collect();
    let mut forms = vec![
        ("raw", window.to_vec()),
        ("hexadecimal", hex::encode(window).into_bytes()),
        ("upper hexadecimal", hex::encode_upper(window).into_bytes()),
        ("numbers", numbers.join(", ").into_bytes()),
    ];
    // Within a longer text, base64 of these bytes depends on how many come before, modulo 3.
    for before in 0..3 {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(window.iter().copied()).collect();
        let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
        for (name, engine) in [("base64", &STANDARD), ("base64 for URLs", &URL_SAFE)] {
            forms.push((name, engine.encode(&padded).as_bytes()[from..to].to_vec()));
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_wherever_it_lies() {
        let secret: Vec<u8> = (0..32).map(|i| (i * 37 + 11) as u8).collect();
        let mut scan = Scan::default();
        scan.add("key", &secret);
        scan.look("nothing", b"a line of a log that says nothing at all of any key");
        assert!(scan.hits.is_empty());
        for before in 0..4 {
            let part = [&vec![b'x'; before][..], &secret[3..11], b"yz"].concat();
            for text in [
                part.clone(),
                hex::encode(&part).into_bytes(),
                hex::encode_upper(&part).into_bytes(),
                STANDARD.encode(&part).into_bytes(),
                URL_SAFE.encode(&part).into_bytes(),
                format!("{part:?}").into_bytes(),
            ] {
                let known = scan.hits.len();
                scan.look("planted", &text);
                assert!(scan.hits.len() > known, "{}", String::from_utf8_lossy(&text));
            }
        }
    }
}
