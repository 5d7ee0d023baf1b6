//! Opening the ledger of a term, which may be older than what this data folder has seen.

use client::Connections;
use ledger::Ledger;
use ledger::etcd::Term;

use crate::blocking::FatalStop;
use crate::config::Settings;
use crate::coordinator::Coordinator;
use crate::data_dir::seen_file;

/// Reads the term's ledger and opens a coordinator on it, which binds nothing where the ledger is old.
pub fn open_led(
    term: Term,
    settings: Settings,
    connections: Connections,
    stop: FatalStop,
) -> anyhow::Result<Coordinator> {
    let ledger = Ledger::lead(term)?;
    let seen = seen_file(&settings.data_dir);
    ledger.compare_with_seen(&seen)?;
    let coordinator = Coordinator::open(ledger.clone(), settings, connections, stop)?;
    if ledger.copied().is_none() {
        // With the epoch that the coordinator has taken.
        ledger.keep_seen(&seen)?;
    }
    Ok(coordinator)
}
