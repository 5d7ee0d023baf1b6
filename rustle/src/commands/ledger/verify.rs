//! `rustle ledger verify`: every chain of a ledger's file or of an export, checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use ledger::{ChainCheck, ChainGap, EntryLine, Fault, Head, LedgerFile};

use super::log::read;
use crate::output::{Answer, Format, status_of_check};
use crate::progress::Progress;

#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct VerifyArgs {
    /// Data folder of the coordinator, in which the ledger is ledger.redb
    #[arg(long, value_name = "DIR", group = "source")]
    data_dir: Option<PathBuf>,
    /// File of the ledger, or of a copy
    #[arg(long, value_name = "FILE", group = "source")]
    file: Option<PathBuf>,
    /// File of JSON lines that `rustle ledger export` or `coordinator --audit-log` wrote, in place of a ledger
    #[arg(long, value_name = "FILE", group = "source")]
    from: Option<PathBuf>,
    /// Let chains of --from lack entries, as in an audit log that was begun after the ledger; what they lack is named
    #[arg(long, requires = "from")]
    partial: bool,
    /// Hash that a chain must contain, as published earlier: JOB=HASH, or data-set/NAME=HASH. May be given several times. One that
    /// an archive alone names is not proved, with exit status 1
    #[arg(long = "head", value_name = "JOB=HASH")]
    heads: Vec<KnownHead>,
}

/// A hash that a chain had as its head, by the name of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownHead {
    chain: String,
    hash: [u8; 32],
}

impl FromStr for KnownHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            "allowed: the name of a job or data-set/ and that of a data set, =, and 64 hex digits".to_owned()
        };
        let (chain, hash) = text.split_once('=').ok_or_else(bad)?;
        let hash: [u8; 32] =
            hex::decode(hash).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(bad)?;
        Ok(Self { chain: chain.to_owned(), hash })
    }
}

/// The outcome of a check.
struct Checked {
    fault: Option<Fault>,
    heads: BTreeMap<String, Head>,
    /// Of the hashes that chains must contain those that none has.
    missing: Vec<KnownHead>,
    /// Of the hashes that chains must contain those that an archive names, and no entry has.
    named: Vec<KnownHead>,
    /// Of archived jobs the number of entries before the archive.
    archived: BTreeMap<String, u64>,
    /// Of chains that begin after their first entry where they do.
    begun_late: BTreeMap<String, u64>,
    gaps: Vec<ChainGap>,
}

impl Checked {
    fn fault(&self) -> Option<Fault> {
        let fault = self.fault.clone().or_else(|| self.missing.first().map(|head| self.missing_fault(head)));
        fault.or_else(|| self.named.first().map(named_fault))
    }

    fn missing_fault(&self, KnownHead { chain, hash }: &KnownHead) -> Fault {
        let reason = format!("the chain of {chain} has no entry of the hash {}", hex::encode(hash));
        let reason = match self.archived.get(chain) {
            None => reason,
            Some(entries) => format!(
                "{reason} any more: entries 0 to {} are archived, and of their hashes the archive names the last alone",
                entries - 1
            ),
        };
        Fault { entry: None, reason }
    }

    fn answer(&self) -> Answer {
        let fault = self.fault();
        // As --head takes them.
        let head = |(chain, head): (&String, &Head)| format!("{chain}={}", hex::encode(head.hash));
        let answer = Answer::new()
            .with("verified", fault.is_none())
            .with("chains", self.heads.len())
            .with("entries", self.heads.values().map(|head| head.entries).sum::<u64>())
            .with("heads", self.heads.iter().map(head).collect::<Vec<_>>());
        let named: Vec<String> = self
            .named
            .iter()
            .map(|KnownHead { chain, hash }| format!("{chain}={}", hex::encode(hash)))
            .collect();
        let answer = if named.is_empty() { answer } else { answer.with("named_not_proved", named) };
        let late: Vec<String> =
            self.begun_late.iter().map(|(chain, index)| format!("{chain} at entry {index}")).collect();
        let answer = if late.is_empty() { answer } else { answer.with("begun_late", late) };
        let lacks = |ChainGap { chain, entries }: &ChainGap| {
            format!("{chain} lacks entries {} to {}", entries.start, entries.end - 1)
        };
        let gaps: Vec<String> = self.gaps.iter().map(lacks).collect();
        let answer = if gaps.is_empty() { answer } else { answer.with("gaps", gaps) };
        let Some(Fault { entry, reason }) = fault else { return answer };
        let answer = match entry {
            Some((chain, index)) => answer.with("chain", chain).with("entry", index),
            None => answer,
        };
        answer.with("reason", reason)
    }
}

fn named_fault(KnownHead { chain, hash }: &KnownHead) -> Fault {
    let hash = hex::encode(hash);
    let reason = format!(
        "the hash {hash} of the chain of {chain} is named by an archive, not proved: the entries before it are gone"
    );
    Fault { entry: None, reason }
}

/// Checks every chain, and every table of a ledger. Exit status 1 for a fault.
pub fn run(args: &VerifyArgs, format: Format) -> anyhow::Result<ExitCode> {
    let progress = Progress::spinner("checking every entry");
    let checked = match (&args.from, &args.file, &args.data_dir) {
        (Some(export), ..) => of_export(export, args.partial, &args.heads)?,
        (_, Some(file), _) => of_file(file, &args.heads)?,
        (.., folder) => {
            of_file(&coordinator::ledger_file(folder.as_deref().unwrap_or(Path::new(""))), &args.heads)?
        }
    };
    drop(progress);
    status_of_check(checked.fault().is_none(), checked.answer().print(format))
}

fn of_file(path: &Path, known: &[KnownHead]) -> anyhow::Result<Checked> {
    let file = read(path)?;
    let fault = file.verify()?;
    let mut missing = Vec::new();
    let mut named = Vec::new();
    if fault.is_none() {
        for head in known {
            match find(&file, head)? {
                Some(Evidence::Entry) => {}
                Some(Evidence::Archive) => named.push(head.clone()),
                None => missing.push(head.clone()),
            }
        }
    }
    let chains = file.chains()?;
    let archived = chains.iter().filter(|chain| chain.archived > 0);
    let archived = archived.map(|chain| (chain.name.clone(), chain.archived)).collect();
    let heads = chains.into_iter().map(|chain| (chain.name, chain.head)).collect();
    Ok(Checked { fault, heads, missing, named, archived, begun_late: BTreeMap::new(), gaps: Vec::new() })
}

/// What a hash that was published earlier was found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// An entry has the hash, and so is what it was.
    Entry,
    /// An archive says that the last entry it stands for had the hash: the word of its writer.
    Archive,
}

fn find(file: &LedgerFile, head: &KnownHead) -> anyhow::Result<Option<Evidence>> {
    let mut found = None;
    file.entries(&head.chain, 0, |entry| {
        let line = EntryLine::new(&head.chain, entry)?;
        found = evidence(head, &line).or(found);
        anyhow::Ok(found != Some(Evidence::Entry))
    })?;
    Ok(found)
}

fn evidence(known: &KnownHead, line: &EntryLine) -> Option<Evidence> {
    if known.chain != line.chain {
        return None;
    }
    if known.hash == line.hash {
        return Some(Evidence::Entry);
    }
    let is_named = line.kind == "archived" && known.hash == line.previous;
    is_named.then_some(Evidence::Archive)
}

fn of_export(path: &Path, is_partial: bool, known: &[KnownHead]) -> anyhow::Result<Checked> {
    let shown = || format!("export {}", path.display());
    let lines = BufReader::new(File::open(path).with_context(shown)?);
    let mut check = if is_partial { ChainCheck::of_partial_chains() } else { ChainCheck::default() };
    let mut missing = known.to_vec();
    let mut named = Vec::new();
    let mut archived = BTreeMap::new();
    let mut fault = None;
    for (number, line) in (1..).zip(lines.lines()) {
        let line = match line {
            Ok(line) => line,
            // A byte that no text has is a fault of the line, and not of the disk.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(error).with_context(shown),
        };
        let entry: EntryLine = match serde_json::from_str(&line) {
            Ok(entry) => entry,
            Err(error) => {
                let reason = format!("line {number} is no entry: {error}");
                fault = Some(Fault { entry: None, reason });
                break;
            }
        };
        if let Err(reason) = check.take(&entry) {
            let at = Some((entry.chain.clone(), entry.index));
            fault = Some(Fault { entry: at, reason: format!("line {number}: {reason}") });
            break;
        }
        missing.retain(|head| match evidence(head, &entry) {
            None => true,
            Some(Evidence::Entry) => false,
            Some(Evidence::Archive) => {
                named.push(head.clone());
                false
            }
        });
        if entry.index > 0 && entry.kind == "archived" {
            archived.insert(entry.chain.clone(), entry.index);
        }
    }
    let begun_late = check.begun_late().clone();
    Ok(Checked {
        fault,
        heads: check.heads().clone(),
        missing,
        named,
        archived,
        begun_late,
        gaps: check.gaps().to_vec(),
    })
}
