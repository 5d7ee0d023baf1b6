//! The ledger in etcd, for several coordinators of which one leads.
//!
//! etcd keeps a log: what each transaction changed, in order, as JSON. Whoever leads holds all of it as tables in
//! memory, so that the ledger's rules are those of a file, and adds to the log by transactions that etcd refuses unless
//! the leader is still the same and the log's next place is still empty. So a leader that was replaced without knowing
//! it can write nothing, whatever its clock says; the lease is for a quick change of hands only.
//!
//! ```text
//! PREFIX/ledger            {"format": 2, "ledger": ID}
//! PREFIX/leader            {"address": URL}, under the leader's lease
//! PREFIX/log/NUMBER        {"by": LEADER, "changes": [[TABLE, KEY, VALUE], …]}, never changed or removed
//! PREFIX/part/NUMBER/BY/I  pieces of a record that is too large for one request
//! ```

mod config;
mod election;
mod journal;
mod keys;
mod pages;
mod record;
mod seat;
mod wire;

use std::sync::Arc;

use redb::backends::InMemoryBackend;

pub use config::{EtcdConfig, EtcdTls, EtcdUser};
pub use election::{Election, Standing};
pub use seat::{Seat, Term};

use crate::{Ledger, LedgerError, Result, open, store::Store, verify};
use journal::Journal;

impl Ledger {
    /// Reads the whole log and checks it as a file is checked. Holds the lead until all clones are dropped, or until
    /// the lease can't be kept, which [`Seat::lost`] tells. Blocks.
    pub fn lead(term: Term) -> Result<Self> {
        let path = term.seat().path().to_owned();
        let io =
            |error: &dyn std::fmt::Display| LedgerError::Io { path: path.clone(), reason: error.to_string() };
        let db = open::builder().create_with_backend(InMemoryBackend::new()).map_err(|error| io(&error))?;
        open::begin_tables(&db).map_err(|error| io(&error))?;
        let journal = Journal::read(term, &db)?;
        verify::verify(&db, &path)?;
        Ok(Self {
            store: Arc::new(Store::new(db, journal, path)),
            refusals: Default::default(),
            queue: Arc::default(),
        })
    }
}
