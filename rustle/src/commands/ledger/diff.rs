//! `rustle ledger diff`: what two ledgers' files have in common, and where they part.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ledger::{Head, LedgerFile};
use serde_json::json;

use super::log::read;
use crate::output::{self, Format, status_of_check};
use crate::streams;

#[derive(Clone, Debug, clap::Args)]
pub struct DiffArgs {
    /// One ledger: its file, or a folder with ledger.redb in it
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The other
    #[arg(value_name = "B")]
    b: PathBuf,
}

/// How a chain of A relates to the same chain of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    /// B has all of A's entries, and more.
    APrefix,
    BPrefix,
    /// The first entry that differs, or the first that can be compared where one of them has archived all that the other has.
    Differs(u64),
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::APrefix => "a_is_prefix",
            Self::BPrefix => "b_is_prefix",
            Self::Differs(_) => "differs",
        })
    }
}

impl Relation {
    /// Returns the relation of two ledgers with both of these chains.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differs(at), _) | (_, Self::Differs(at)) => Self::Differs(at),
            (Self::Same, other) | (other, Self::Same) => other,
            (one, other) if one == other => one,
            // Each has entries that the other lacks.
            _ => Self::Differs(0),
        }
    }
}

/// A chain that both or one of them have.
struct Compared {
    name: String,
    a: u64,
    b: u64,
    relation: Relation,
}

/// Compares two ledgers. Exit status 1 unless they are the same.
pub fn diff(args: &DiffArgs, format: Format) -> anyhow::Result<ExitCode> {
    let a = at(&args.a)?;
    let b = at(&args.b)?;
    let is_one_ledger = a.id()? == b.id()?;
    let compared = compare(&a, &b)?;
    let relation = compared.iter().fold(Relation::Same, |all, chain| all.and(chain.relation));
    let is_same = is_one_ledger && relation == Relation::Same;
    let summary = if is_one_ledger { relation.to_string() } else { "another_ledger".to_owned() };
    let printed = match format {
        Format::Json => streams::line(json!({
            "relation": summary,
            "chains": compared.iter().map(as_json).collect::<Vec<_>>(),
        })),
        Format::Table => {
            let mut table =
                output::table(&["chain", "entries of A", "entries of B", "relation", "first difference"]);
            for chain in &compared {
                let first = first_difference(chain).map_or_else(String::new, |at| at.to_string());
                let [a, b] = [chain.a, chain.b].map(|entries| entries.to_string());
                table.add_row([chain.name.clone(), a, b, chain.relation.to_string(), first]);
            }
            table.add_row(["all".to_owned(), String::new(), String::new(), summary, String::new()]);
            streams::line(table)
        }
    };
    status_of_check(is_same, printed)
}

fn as_json(chain: &Compared) -> serde_json::Value {
    json!({
        "chain": chain.name, "entries_a": chain.a, "entries_b": chain.b, "relation": chain.relation.to_string(),
        "first_difference": first_difference(chain),
    })
}

/// The first entry that only one of them has, or that they have in two forms.
fn first_difference(chain: &Compared) -> Option<u64> {
    match chain.relation {
        Relation::Same => None,
        Relation::APrefix => Some(chain.a),
        Relation::BPrefix => Some(chain.b),
        Relation::Differs(at) => Some(at),
    }
}

fn at(place: &Path) -> anyhow::Result<LedgerFile> {
    if place.is_dir() { read(&coordinator::ledger_file(place)) } else { read(place) }
}

fn compare(a: &LedgerFile, b: &LedgerFile) -> anyhow::Result<Vec<Compared>> {
    let heads = |file: &LedgerFile| -> anyhow::Result<BTreeMap<String, Head>> {
        Ok(file.chains()?.into_iter().map(|chain| (chain.name, chain.head)).collect())
    };
    let heads_a = heads(a)?;
    let heads_b = heads(b)?;
    let names: BTreeSet<&String> = heads_a.keys().chain(heads_b.keys()).collect();
    let compare_chain = |name: &String| {
        let head =
            |heads: &BTreeMap<String, Head>| heads.get(name).copied().unwrap_or_else(|| Head::empty(name));
        let head_a = head(&heads_a);
        let head_b = head(&heads_b);
        let relation = relation(&hashes(a, name)?, &hashes(b, name)?);
        Ok(Compared { name: name.clone(), a: head_a.entries, b: head_b.entries, relation })
    };
    names.into_iter().map(compare_chain).collect()
}

/// The hashes of a chain's entries that are known.
struct Hashes {
    /// The index of the first of them: later than 0 where the job is archived.
    first: u64,
    hashes: Vec<[u8; 32]>,
}

impl Hashes {
    fn end(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }

    fn from(&self, index: u64) -> &[[u8; 32]] {
        self.hashes.get((index - self.first) as usize..).unwrap_or_default()
    }
}

/// Returns the hashes of the chain's entries, computed anew: the stored ones may be what was altered, or was not. Of the entries
/// that an archive stands for, it has the hash of the last.
fn hashes(file: &LedgerFile, chain: &str) -> anyhow::Result<Hashes> {
    let mut known = Hashes { first: 0, hashes: Vec::new() };
    file.entries(chain, 0, |entry| {
        let before = Head { entries: entry.index, hash: entry.previous };
        if known.hashes.is_empty() && entry.index > 0 {
            known = Hashes { first: entry.index - 1, hashes: vec![entry.previous] };
        }
        known.hashes.push(before.next(entry.event.as_bytes()).hash);
        anyhow::Ok(true)
    })?;
    Ok(known)
}

fn relation(a: &Hashes, b: &Hashes) -> Relation {
    // A chain that one of them never had is the beginning of the other's, archived or not.
    match (a.hashes.is_empty(), b.hashes.is_empty()) {
        (true, true) => return Relation::Same,
        (true, false) => return Relation::APrefix,
        (false, true) => return Relation::BPrefix,
        (false, false) => {}
    }
    let start = a.first.max(b.first);
    // One of them has archived all that the other has: whether they are the same is not known.
    let is_apart = start > 0 && (a.end() <= start || b.end() <= start);
    let a = a.from(start);
    let b = b.from(start);
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    match (common == a.len(), common == b.len()) {
        _ if is_apart => Relation::Differs(start),
        (true, true) => Relation::Same,
        (true, false) => Relation::APrefix,
        (false, true) => Relation::BPrefix,
        (false, false) => Relation::Differs(start + common as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_equal_or_one_is_the_others_beginning_or_they_part() {
        let from = |first: u64, bytes: &[u8]| Hashes {
            first,
            hashes: bytes.iter().map(|byte| [*byte; 32]).collect(),
        };
        let one = from(0, &[1, 2, 3]);
        assert_eq!(relation(&one, &from(0, &[1, 2, 3])), Relation::Same);
        assert_eq!(relation(&from(0, &[1, 2]), &one), Relation::APrefix);
        assert_eq!(relation(&one, &from(0, &[])), Relation::BPrefix);
        assert_eq!(relation(&one, &from(0, &[1, 9])), Relation::Differs(1));
        // Archives know the hash of the last entry that they stand for.
        assert_eq!(relation(&one, &from(2, &[3, 4])), Relation::APrefix);
        assert_eq!(relation(&from(2, &[3, 4]), &from(2, &[3, 4])), Relation::Same);
        assert_eq!(relation(&one, &from(2, &[9, 4])), Relation::Differs(2));
        // A job that one ledger never had.
        assert_eq!(relation(&from(0, &[]), &from(2, &[3, 4])), Relation::APrefix);
        assert_eq!(relation(&from(2, &[3, 4]), &from(0, &[])), Relation::BPrefix);
        assert_eq!(relation(&from(0, &[]), &from(0, &[])), Relation::Same);
        // What the archive has of entry 3 says nothing about entries 0 to 2.
        assert_eq!(relation(&one, &from(3, &[4, 5])), Relation::Differs(3));
    }

    #[test]
    fn two_chains_that_are_each_ahead_make_ledgers_that_differ() {
        assert_eq!(Relation::APrefix.and(Relation::Same).and(Relation::APrefix), Relation::APrefix);
        assert!(matches!(Relation::APrefix.and(Relation::BPrefix), Relation::Differs(_)));
        assert_eq!(Relation::BPrefix.and(Relation::Differs(4)), Relation::Differs(4));
    }
}
