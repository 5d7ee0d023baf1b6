//! `rustle ledger compact`: destroyed jobs archived, and the free room of the ledger's file, or of its log in etcd, given back.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::{ArgGroup, Args};
use coordinator::{LedgerStore, LedgerStoreArgs};
use ledger::{ArchivedJob, Archives, Ledger, MAX_ARCHIVE_BYTES, TooLargeArchive};
use node::config::settings::Layers;

use super::LedgerPlace;
use crate::output::Answer;
use crate::progress::Progress;

#[derive(Clone, Debug, Args)]
// In etcd the ledger has no file.
#[command(mut_group("LedgerPlace", |group| group.required(false)))]
#[command(group = ArgGroup::new("place").required(true).args(["data_dir", "file", "store"]))]
pub struct CompactArgs {
    #[command(flatten)]
    place: LedgerPlace,
    /// URL of the ledger in etcd, as `coordinator --store` has it
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// As `coordinator --store-tls-dir`
    #[arg(long, value_name = "DIR", requires = "store")]
    store_tls_dir: Option<String>,
    /// As `coordinator --store-user`
    #[arg(long, value_name = "NAME", requires = "store")]
    store_user: Option<String>,
    /// As `coordinator --store-password-file`
    #[arg(long, value_name = "FILE", requires = "store")]
    store_password_file: Option<String>,
}

pub fn run(args: CompactArgs) -> anyhow::Result<Answer> {
    let CompactArgs { place, store, store_tls_dir, store_user, store_password_file } = args;
    let Some(url) = store else { return in_file(&place.path()) };
    let store = LedgerStoreArgs {
        store: Some(url.clone()),
        store_tls_dir,
        store_user,
        store_password_file,
        ..LedgerStoreArgs::default()
    };
    let (store, _) = store.resolve(&mut Layers::from_parts([], None)?)?;
    in_store(&url, store)
}

fn in_file(path: &Path) -> anyhow::Result<Answer> {
    let progress = Progress::spinner("checking and compacting the ledger");
    // Of a file that is missing, the ledger says what to do.
    let before = length(path).unwrap_or(0);
    let archives = Ledger::compact(path)?;
    drop(progress);
    let after = length(path).with_context(|| format!("the length of {}", path.display()))?;
    Ok(answer(&path.display().to_string(), &archives).with("bytes_before", before).with("bytes_after", after))
}

fn in_store(url: &str, store: LedgerStore) -> anyhow::Result<Answer> {
    match store {
        LedgerStore::File => {
            anyhow::bail!("--store is {url}; allowed: etcd://…, or --data-dir or --file for a file")
        }
        #[cfg(feature = "etcd")]
        LedgerStore::Etcd(config) => {
            use ledger::etcd::{Candidacy, Election};

            let progress = Progress::spinner("checking and compacting the ledger");
            let election = Election::connect_to_existing(&config)?;
            // An empty address: coordinators that stand by meanwhile name no leader.
            let term = match election.campaign("")? {
                Candidacy::Elected(term) => term,
                Candidacy::LedBy(leader) => anyhow::bail!(
                    "{leader} leads the ledger {url}; allowed: while no coordinator leads. Stop all of them, wait for \
                     --leader-lease-ttl, and try again"
                ),
            };
            let lease = term.lease().clone();
            let archives = Ledger::compact_led(term);
            election.resign(&lease);
            drop(progress);
            Ok(answer(url, &archives?))
        }
    }
}

fn answer(ledger: &str, Archives { archived, too_large }: &Archives) -> Answer {
    let name = |archived: &ArchivedJob| archived.job.to_string();
    let left = |TooLargeArchive { job, bytes }: &TooLargeArchive| {
        format!("{job}, whose archive would have {bytes} bytes; allowed: at most {MAX_ARCHIVE_BYTES}")
    };
    Answer::new()
        .with("ledger", ledger)
        .with("archived", archived.iter().map(name).collect::<Vec<_>>())
        .with("left_as_they_are", too_large.iter().map(left).collect::<Vec<_>>())
        .with("entries_removed", archived.iter().map(|job| job.entries).sum::<u64>())
        .with("bindings_removed", archived.iter().map(|job| job.rows).sum::<u64>())
}

fn length(path: &Path) -> std::io::Result<u64> {
    fs::metadata(path).map(|metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn a_ledger_is_in_one_place() {
        let command = CompactArgs::augment_args(Command::new("compact"));
        let is_taken = |args: &[&str]| {
            command.clone().no_binary_name(true).try_get_matches_from(args).map_err(|error| error.to_string())
        };
        for place in [["--data-dir", "d"], ["--file", "f"], ["--store", "etcd://e:1/x"]] {
            is_taken(&place).unwrap();
        }
        is_taken(&["--store", "etcd://e:1/x", "--store-user", "u"]).unwrap();
        let missing = is_taken(&[]).unwrap_err();
        assert!(missing.contains("<--data-dir <DIR>|--file <FILE>|--store <URL>>"), "{missing}");
        for too_many in [
            ["--data-dir", "d", "--file", "f"],
            ["--data-dir", "d", "--store", "etcd://e:1/x"],
            ["--file", "f", "--store", "etcd://e:1/x"],
        ] {
            is_taken(&too_many).unwrap_err();
        }
    }
}
