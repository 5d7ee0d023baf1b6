//! Reading which owners each record has, line by line.

use std::collections::HashMap;
use std::io::BufRead;

use serde::Deserialize;

use crate::error::{BatchError, Result};
use crate::owners::Owners;

/// A line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine {
    record: u64,
    owners: Vec<Name>,
}

/// An owner's name, which may be a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u64),
    Word(String),
}

impl Owners {
    /// Reads one record a line: `record,owner,owner,…` with commas or blanks between them, or
    /// `{"record": 7, "owners": ["ann", "bob"]}`. Owners have any names; they are numbered as they appear. Empty lines are
    /// skipped.
    ///
    /// # Errors
    /// [`BatchError::Line`] naming the line and what is wrong with it; those of [`Owners::new`].
    pub fn read(lines: impl BufRead) -> Result<Self> {
        let mut names = HashMap::<String, u64>::new();
        let mut graph = Self::default();
        for (number, line) in (1..).zip(lines.lines()) {
            let wrong = |why: String| BatchError::Line { line: number, why };
            let line = line.map_err(|error| wrong(error.to_string()))?;
            let words = line.trim();
            if words.is_empty() {
                continue;
            }
            let mut number_of = |name: &str| {
                let next = names.len() as u64;
                // An owner that is known takes no new name.
                names.get(name).copied().unwrap_or_else(|| *names.entry(name.to_owned()).or_insert(next))
            };
            if words.starts_with('{') {
                let line: RecordLine =
                    serde_json::from_str(words).map_err(|error| wrong(error.to_string()))?;
                let owners: Vec<u64> = line
                    .owners
                    .iter()
                    .map(|name| match name {
                        Name::Number(number) => number_of(&number.to_string()),
                        Name::Word(word) => number_of(word),
                    })
                    .collect();
                graph.add(line.record, &owners)?;
                continue;
            }
            let mut parts = words.split([',', ' ', '\t']).filter(|part| !part.is_empty());
            let record = parts.next().unwrap_or_default();
            let allowed = "allowed: a record's number and its owners, or an object with record and owners";
            let record = record.parse().map_err(|_| wrong(format!("{record:?} is no number; {allowed}")))?;
            let owners: Vec<u64> = parts.map(number_of).collect();
            graph.add(record, &owners)?;
        }
        graph.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Owners> {
        Owners::read(text.as_bytes())
    }

    #[test]
    fn lines_of_both_kinds_say_the_same() {
        let plain = read("7,ann,bob\n\n 3 bob\n9\tann  12\n").unwrap();
        let json = concat!(
            "{\"record\": 7, \"owners\": [\"ann\", \"bob\"]}\n",
            "{\"record\": 3, \"owners\": [\"bob\"]}\n{\"record\": 9, \"owners\": [\"ann\", 12, \"ann\"]}"
        );
        assert_eq!(plain, read(json).unwrap());
        assert_eq!(plain, Owners::new([(7, vec![0, 1]), (3, vec![1]), (9, vec![0, 2])]).unwrap());
        assert_eq!((plain.records(), plain.count()), (3, 3));
    }

    #[test]
    fn lines_that_say_something_else_are_named() {
        let cases = [
            ("1,a\nx,b\n", "line 2: \"x\" is no number; allowed"),
            ("1,a\n1,b\n", "record 1: it is there twice"),
            ("1,a\n4\n", "record 4: it has no owner"),
            ("{\"record\": 1, \"owners\": []}", "record 1: it has no owner"),
            ("{\"record\": 1}", "line 1: missing field `owners`"),
            ("{\"record\": 1, \"owners\": [\"a\"], \"unit\": 2}", "line 1: unknown field"),
            ("9007199254740992,a", "record 9007199254740992: its number is too large"),
        ];
        for (text, part) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Owners::new([(1, [1 << 32])]).is_err());
    }
}
