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
    /// The first entry that differs.
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

/// Returns the hashes of the chain's entries, computed anew: the stored ones may be what was altered, or was not.
fn hashes(file: &LedgerFile, chain: &str) -> anyhow::Result<Vec<[u8; 32]>> {
    let mut hashes = Vec::new();
    file.entries(chain, 0, |entry| {
        let before = Head { entries: entry.index, hash: entry.previous };
        hashes.push(before.next(entry.event.as_bytes()).hash);
        anyhow::Ok(true)
    })?;
    Ok(hashes)
}

fn relation(a: &[[u8; 32]], b: &[[u8; 32]]) -> Relation {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    match (common == a.len(), common == b.len()) {
        (true, true) => Relation::Same,
        (true, false) => Relation::APrefix,
        (false, true) => Relation::BPrefix,
        (false, false) => Relation::Differs(common as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_equal_or_one_is_the_others_beginning_or_they_part() {
        let hash = |byte: u8| [byte; 32];
        let one = [hash(1), hash(2), hash(3)];
        assert_eq!(relation(&one, &one), Relation::Same);
        assert_eq!(relation(&one[..2], &one), Relation::APrefix);
        assert_eq!(relation(&one, &[]), Relation::BPrefix);
        assert_eq!(relation(&one, &[hash(1), hash(9)]), Relation::Differs(1));
    }

    #[test]
    fn two_chains_that_are_each_ahead_make_ledgers_that_differ() {
        assert_eq!(Relation::APrefix.and(Relation::Same).and(Relation::APrefix), Relation::APrefix);
        assert!(matches!(Relation::APrefix.and(Relation::BPrefix), Relation::Differs(_)));
        assert_eq!(Relation::BPrefix.and(Relation::Differs(4)), Relation::Differs(4));
    }
}
