//! A search for secrets in everything that a cluster writes: every 8 bytes of each, raw and in the usual encodings.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

const WINDOW: usize = 8;

/// A search for secrets by their first bytes.
#[derive(Debug, Default)]
pub struct Scan {
    secrets: Vec<String>,
    patterns: HashMap<[u8; WINDOW], Vec<Pattern>>,
    pub bytes: u64,
    /// The places and encodings in which a secret was found.
    pub hits: Vec<String>,
}

/// One window of a secret, as it might be printed.
#[derive(Debug)]
struct Pattern {
    text: Box<[u8]>,
    secret: usize,
    at: usize,
    form: &'static str,
}

impl Scan {
    pub fn add(&mut self, name: &str, secret: &[u8]) {
        let number = self.named(name);
        for (at, window) in secret.windows(WINDOW).enumerate() {
            forms(window).into_iter().for_each(|(form, text)| self.know(number, at, form, text));
        }
    }

    /// Every two neighbours, raw and as programs print numbers; every 64th two in all forms. Zeros are no secret.
    pub fn add_values(&mut self, name: &str, values: &[f32]) {
        let number = self.named(name);
        for (at, pair) in values.windows(2).enumerate() {
            if pair.contains(&0.0) || pair[0] == pair[1] {
                continue;
            }
            let raw = [pair[0].to_le_bytes(), pair[1].to_le_bytes()].concat();
            if at % 64 == 0 {
                let forms = forms(&raw).into_iter();
                forms.for_each(|(form, text)| self.know(number, at * 4, form, text));
            } else {
                self.know(number, at * 4, "raw", raw);
            }
            for printed in [format!("{}, {}", pair[0], pair[1]), format!("{},{}", pair[0], pair[1])] {
                // Shorter ones are anybody's numbers.
                if printed.len() > 12 {
                    self.know(number, at * 4, "printed", printed.into_bytes());
                }
            }
        }
    }

    fn named(&mut self, name: &str) -> usize {
        self.secrets.push(name.to_owned());
        self.secrets.len() - 1
    }

    fn know(&mut self, secret: usize, at: usize, form: &'static str, text: Vec<u8>) {
        let start = text[..WINDOW].try_into().expect("patterns are long enough");
        self.patterns.entry(start).or_default().push(Pattern { text: text.into(), secret, at, form });
    }

    pub fn look(&mut self, origin: &str, haystack: &[u8]) {
        self.bytes += haystack.len() as u64;
        for (at, start) in haystack.windows(WINDOW).enumerate() {
            let Some(patterns) = <&[u8; WINDOW]>::try_from(start).ok().and_then(|s| self.patterns.get(s))
            else {
                continue;
            };
            let found = patterns.iter().filter(|pattern| haystack[at..].starts_with(&pattern.text));
            let secrets = &self.secrets;
            self.hits.extend(found.map(|Pattern { secret, at: from, form, .. }| {
                format!("{origin} at {at}: {}, bytes {from}..{}, {form}", secrets[*secret], from + WINDOW)
            }));
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
        let from = (before * 8).div_ceil(6);
        let to = padded.len() * 8 / 6;
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
    #[test]
    fn values_are_found_as_they_lie_and_as_they_are_printed() {
        let values: Vec<f32> = (0..200).map(|i| (i as f32 * 0.37).sin() * 3.1).collect();
        let mut scan = Scan::default();
        scan.add_values("state", &values);
        scan.look("zeros", &[0; 4096]);
        assert!(scan.hits.is_empty());
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        for text in [
            raw[41..61].to_vec(),
            hex::encode(&raw).into_bytes(),
            STANDARD.encode(&raw).into_bytes(),
            format!("{:?}", &values[7..9]).into_bytes(),
            serde_json::to_vec(&values[100..102]).expect("numbers"),
        ] {
            let known = scan.hits.len();
            scan.look("planted", &text);
            assert!(scan.hits.len() > known, "{}", String::from_utf8_lossy(&text));
        }
    }
}
