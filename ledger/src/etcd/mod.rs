//! The ledger in etcd, for several coordinators of which one leads.
//!
//! etcd keeps a log: what each transaction changed, in order, as JSON. The leader holds all of it as tables in
//! memory, so that the ledger's rules are those of a file, and adds to the log by transactions that etcd refuses unless
//! the leader is still the same and the log's next place is still empty. So a leader that was replaced without knowing
//! it can write nothing, whatever its clock says; the lease is for a quick change of hands only.
//!
//! ```text
//! PREFIX/ledger            {"format": 7, "ledger": ID}; the format is 8 from the first state on
//! PREFIX/leader            {"address": URL}, under the leader's lease
//! PREFIX/log/NUMBER        {"by": LEADER, "changes": [[TABLE, KEY, VALUE], …]}, never changed
//! PREFIX/part/NUMBER/BY/I  pieces of a record that is too large for one request
//! PREFIX/state             {"by": LEADER, "next": NUMBER, …}: all tables before that record; the records before are removed, but for the last
//! PREFIX/piece/NUMBER/BY/I pieces of a state, lines of [TABLE, KEY, VALUE]
//! ```

mod client;
mod config;
mod election;
mod journal;
mod keys;
mod leader_lease;
mod log_reader;
mod pages;
mod state;

use std::sync::Arc;

use redb::backends::InMemoryBackend;

pub use config::{EtcdConfig, EtcdTls, EtcdUser};
pub use election::{Candidacy, Election};
pub use leader_lease::{LeaderLease, Term};

use crate::{
    Archives, Ledger, LedgerError, Result,
    chain::verify,
    store::{Store, acting::ActingStore, open},
};
use journal::Journal;

/// The fewest bytes of records that a state takes the place of. What is bound waits for as long as etcd takes to write a state,
/// which has half of them or fewer.
const LOG_BYTES: u64 = 64 << 20;

impl Ledger {
    /// Opens the ledger of a won election: reads its state and the log after it, and checks them as a file is checked. The lead
    /// lasts until all clones are dropped, or until the lease can't be renewed, which [`LeaderLease::lost`] reports. Blocks.
    pub fn lead(term: Term) -> Result<Self> {
        Self::lead_within(term, LOG_BYTES)
    }

    /// Archives every destroyed job of the ledger of a won election ([`Ledger::archive_destroyed`]), and lets a state take the place
    /// of the log where that has half of its bytes or fewer. The ledger is checked as it is read, and once more with the archives
    /// in it before anything is removed from the log. Ends the lead. Blocks.
    ///
    /// # Errors
    /// Those of [`Ledger::lead`]; [`LedgerError::ArchivedInPart`] where jobs are archived already.
    pub fn compact_led(term: Term) -> Result<Archives> {
        let ledger = Self::lead(term)?;
        let done = ledger.archive_destroyed()?;
        let check = |db: &redb::Database, path: &std::path::Path| verify::verify(db, path).map(drop);
        ledger.store.compact_log(check).map_err(|error| done.failed(ledger.store.path(), error))?;
        Ok(done)
    }

    /// Opens a ledger as [`Ledger::lead`] does, with another number of bytes of records, the fewest that a state takes the place of.
    pub fn lead_within(term: Term, log_bytes: u64) -> Result<Self> {
        let path = term.lease().path().to_owned();
        let io =
            |error: &dyn std::fmt::Display| LedgerError::Io { path: path.clone(), reason: error.to_string() };
        let db = open::builder().create_with_backend(InMemoryBackend::new()).map_err(|error| io(&error))?;
        open::create_tables(&db, term.ledger()).map_err(|error| io(&error))?;
        let journal = Journal::read(term, &db, log_bytes)?;
        verify::verify(&db, &path)?;
        Ok(Self {
            store: ActingStore::new(Store::new(db, journal, path)),
            refusals: Default::default(),
            group_commit: Arc::default(),
            copies: Default::default(),
        })
    }
}
