//! `rustle ledger compact`: destroyed jobs archived, and the free room of the ledger's file, or of its log in etcd, given back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgGroup, Args};
use coordinator::{LedgerStore, LedgerStoreArgs};
use ledger::{ArchivedJob, Archives, Ledger, MAX_ARCHIVE_BYTES, TooLargeArchive};
use node::config::settings::Layers;

use crate::output::Answer;
use crate::progress::Progress;

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("place").required(true))]
pub struct CompactArgs {
    /// Data folder of the coordinator, in which the ledger is ledger.redb
    #[arg(long, value_name = "DIR", group = "place")]
    data_dir: Option<PathBuf>,
    /// File of the ledger, as `noise-worker mpi --ledger` names it
    #[arg(long, value_name = "FILE", group = "place")]
    file: Option<PathBuf>,
    /// URL of the ledger in etcd, as `coordinator --store` has it
    #[arg(long, value_name = "URL", group = "place")]
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
    let CompactArgs { data_dir, file, store, store_tls_dir, store_user, store_password_file } = args;
    let folder = data_dir.unwrap_or_default();
    let Some(url) = store else {
        return in_file(&file.unwrap_or_else(|| coordinator::ledger_file(&folder)));
    };
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
