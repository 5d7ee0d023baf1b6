//! The log: read by a new leader, and appended to while it leads.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use durable_io::fail_point;
use etcd_client::{Client, Compare, CompareOp, DeleteOptions, Txn, TxnOp};
use redb::{Database, WriteTransaction};

use super::{
    client::CallError,
    election::{CUT_LOG_FORMAT, Identity, read_key},
    leader_lease::Term,
    log_reader::LogReader,
    pages::{BETWEEN_ATTEMPTS, READ_LIMIT, apply, forget_revisions, on_client, read_page},
    state::State,
};
use crate::{
    LedgerError, Result,
    store::backend::{Backend, CommitError},
    wire::{change::Change, log_record},
};

/// One attempt at a write.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// The records that are removed at once: etcd does it within one attempt.
const REMOVED_RECORDS: u64 = 10_000;
/// The most records of one page.
const MOST_RECORDS: i64 = 256;

/// The log as its leader writes it: the backend of a ledger in etcd.
pub struct Journal {
    term: Term,
    /// Locked while a record is written.
    length: Mutex<Length>,
    /// The fewest bytes of records that a state takes the place of.
    least_bytes: u64,
}

/// How far the log has come.
#[derive(Default)]
struct Length {
    /// The number of the next record.
    next: u64,
    /// The bytes of the last state and of the records since.
    bytes: u64,
    /// As many of them were there when a state was last found to be worth its bytes or not.
    weighed: u64,
    /// The number of the first record that may still be there.
    first: u64,
}

impl Journal {
    /// Applies the last state and the whole log after it to empty tables, and deletes what earlier leaders left half written.
    /// Where that has grown to twice its bytes, and by `least_bytes`, a state takes its place if that has half of them or fewer.
    pub fn read(term: Term, db: &Database, least_bytes: u64) -> Result<Self> {
        let (state, length) = Self::read_tables(&term, db)
            // What another leader removes meanwhile is no damage.
            .map_err(|error| term.lease().check().err().unwrap_or(error))?;
        let next = length.next;
        let journal = Self { term, length: Mutex::new(length), least_bytes };
        on_client(&journal.term, journal.clear(next, state.as_ref()))??;
        Ok(journal)
    }

    fn read_tables(term: &Term, db: &Database) -> Result<(Option<State>, Length)> {
        let state = on_client(term, State::find(term))??;
        let mut length = Length::default();
        if let Some(state) = &state {
            state.read(term, db)?;
            let first = state.next.saturating_sub(1);
            length = Length { next: state.next, bytes: state.bytes, weighed: state.bytes, first };
        }
        let mut reader = LogReader::new(MOST_RECORDS, READ_LIMIT);
        loop {
            let page = on_client(term, read_page(term, length.next, &mut reader))??;
            if page.records.is_empty() {
                return Ok((state, length));
            }
            length.next += page.records.len() as u64;
            length.bytes += page.bytes;
            apply(term, db, page.records)?;
        }
    }

    /// Deletes pieces whose record or state was never written, and records before the state: nothing refers to them.
    async fn clear(&self, next: u64, state: Option<&State>) -> Result<()> {
        let keys = &self.term.keys;
        let mut ranges = vec![keys.parts_from(next)];
        match state {
            Some(state) => {
                ranges.extend(keys.other_pieces(state.next, state.by));
                ranges.extend([
                    keys.log_between(0, state.next.saturating_sub(1)),
                    keys.parts_before(state.next),
                ]);
            }
            None => ranges.push(keys.all_pieces().into()),
        }
        fail_point!("etcd::clear::begin", self.io("a fail point".to_owned()));
        match self.write(None, ranges.into_iter().map(delete).collect()).await {
            Ok(()) => {
                fail_point!("etcd::clear::end", self.io("a fail point".to_owned()));
                Ok(())
            }
            Err(CommitError::Refused(error)) => Err(error),
            Err(CommitError::Unknown(reason) | CommitError::Lost(reason)) => Err(self.io(reason)),
        }
    }

    /// Returns the bytes of the record.
    async fn append(&self, number: u64, changes: &[Change]) -> Result<u64, CommitError> {
        let keys = &self.term.keys;
        let by = self.term.lease().revision;
        let encoded = log_record::encode(by, changes);
        let encoded = encoded.map_err(|error| CommitError::Refused(self.io(error.to_string())))?;
        let parts: usize = encoded.parts.iter().map(Vec::len).sum();
        for (index, part) in encoded.parts.into_iter().enumerate() {
            fail_point!("etcd::part::begin", CommitError::Refused(self.io("a fail point".to_owned())));
            let put = TxnOp::put(keys.part(number, by, index), part, None);
            // Half a record is no record: where a piece fails, nothing has changed.
            self.write(None, vec![put]).await.map_err(|commit_error| match commit_error {
                CommitError::Unknown(reason) => CommitError::Refused(self.io(reason)),
                CommitError::Lost(_) => {
                    CommitError::Refused(LedgerError::NotLeader { path: self.term.lease().path().to_owned() })
                }
                refused => refused,
            })?;
            fail_point!("etcd::part::end", CommitError::Refused(self.io("a fail point".to_owned())));
        }
        let put = TxnOp::put(keys.log(number), encoded.record.as_slice(), None);
        fail_point!("etcd::record::begin", CommitError::Refused(self.io("a fail point".to_owned())));
        self.write(Some((keys.log(number), &encoded.record)), vec![put]).await?;
        // The record is in the log, so that a caller must not hear that it is not.
        fail_point!("etcd::record::end", CommitError::Unknown("a fail point".to_owned()));
        Ok((parts + encoded.record.len()) as u64)
    }

    /// Writes the tables as a state in the place of all records so far, and then removes these. Does nothing where that would save
    /// less than half of their room: both are there for a while, and etcd stops where it has no room.
    fn shorten(&self, transaction: &WriteTransaction, length: &mut Length) -> Result<(), CommitError> {
        let next = length.next;
        if !State::is_within(transaction, length.bytes / 2)? {
            return Ok(());
        }
        let Term { keys, .. } = &self.term;
        let by = self.term.lease().revision;
        let mut put = |index, piece: Vec<u8>| {
            let put = TxnOp::put(keys.piece(next, by, index), piece, None);
            on_client(&self.term, self.write(None, vec![put])).map_err(CommitError::Refused)?
        };
        let state = State::write(transaction, by, next, &mut put)?;
        let identity = Identity { format: CUT_LOG_FORMAT, ledger: self.term.ledger().to_string() };
        let unwritable = |error: serde_json::Error| CommitError::Unknown(error.to_string());
        let text = serde_json::to_vec(&state).map_err(unwritable)?;
        let identity = serde_json::to_vec(&identity).map_err(unwritable)?;
        let write =
            |operations| on_client(&self.term, self.write(None, operations)).map_err(CommitError::Refused)?;
        fail_point!("etcd::state::begin", CommitError::Refused(self.io("a fail point".to_owned())));
        // Before it the log counts from the former state on, and after it from this one.
        write(vec![TxnOp::put(keys.state(), text, None), TxnOp::put(keys.ledger(), identity, None)])?;
        fail_point!("etcd::state::end", CommitError::Unknown("a fail point".to_owned()));
        length.bytes = state.bytes;
        length.weighed = state.bytes;
        // The last of them stays: a build that takes the log for whole must not find an empty one.
        let last = next.saturating_sub(1);
        while length.first < last {
            let end = last.min(length.first + REMOVED_RECORDS);
            write(vec![delete(keys.log_between(length.first, end))])?;
            length.first = end;
        }
        let [before, after] = keys.other_pieces(next, by);
        write([keys.parts_before(next), before, after].map(delete).into())?;
        fail_point!("etcd::cut::end", CommitError::Unknown("a fail point".to_owned()));
        let compacted = on_client(&self.term, forget_revisions(&self.term)).map_err(CommitError::Refused)?;
        if let Err(reason) = compacted {
            tracing::warn!(reason, "etcd keeps the revisions of removed records until it is compacted");
        }
        tracing::info!(records = next, bytes = state.bytes, "a state took the place of the log's records");
        Ok(())
    }

    /// Runs a transaction that etcd refuses unless this process still leads and `place` is still empty. An attempt
    /// without an answer is repeated: it changes nothing where the first got through. Once the lease has run out, the
    /// outcome stays unknown.
    async fn write(&self, place: Option<(String, &[u8])>, operations: Vec<TxnOp>) -> Result<(), CommitError> {
        let lease = self.term.lease();
        let leader = self.term.keys.leader();
        let mut compares = vec![Compare::create_revision(leader.as_str(), CompareOp::Equal, lease.revision)];
        let mut reads = vec![TxnOp::get(leader, None)];
        if let Some((key, _)) = &place {
            compares.push(Compare::create_revision(key.as_str(), CompareOp::Equal, 0));
            reads.push(TxnOp::get(key.as_str(), None));
        }
        let txn = Txn::new().when(compares).and_then(operations).or_else(reads);
        let mut open: Option<String> = None;
        loop {
            let Some(left) = lease.left() else {
                lease.lose();
                return Err(match open {
                    None => CommitError::Refused(LedgerError::NotLeader { path: lease.path().to_owned() }),
                    Some(reason) => CommitError::Lost(format!(
                        "no answer while this coordinator led, and whether the change was made is not known: {reason}"
                    )),
                });
            };
            let attempt = async |mut client: Client| client.txn(txn.clone()).await;
            match (self.term.client.call(left.min(WRITE_LIMIT), attempt).await, open.take()) {
                (Ok(answer), _) if answer.succeeded() => return Ok(()),
                (Ok(answer), _) => return self.refused(&answer.op_responses(), place),
                (Err(CallError::Refused(reason)), None) => return Err(CommitError::Refused(self.io(reason))),
                (Err(CallError::Refused(reason)), Some(_)) => return Err(CommitError::Unknown(reason)),
                (Err(CallError::Unknown(reason)), _) => {
                    tracing::warn!(reason, "etcd did not answer a write; trying again");
                    open = Some(reason);
                }
            }
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    /// Judges a failed comparison: an earlier attempt got through, or another coordinator leads and no attempt can
    /// succeed.
    fn refused(
        &self,
        reads: &[etcd_client::TxnOpResponse],
        place: Option<(String, &[u8])>,
    ) -> Result<(), CommitError> {
        let lease = self.term.lease();
        let existing = reads.get(1).and_then(read_key);
        if let (Some((_, ours)), Some(existing)) = (&place, &existing)
            && existing.value == *ours
        {
            return Ok(());
        }
        let leader = reads.first().and_then(read_key);
        if leader.is_none_or(|leader| leader.revision != lease.revision) {
            lease.lose();
            return Err(CommitError::Refused(LedgerError::NotLeader { path: lease.path().to_owned() }));
        }
        let key = place.map(|(key, _)| key).unwrap_or_default();
        Err(CommitError::Unknown(format!("another process has written {key} under this leader's name")))
    }

    fn io(&self, reason: String) -> LedgerError {
        LedgerError::Io { path: self.term.lease().path().to_owned(), reason }
    }
}

/// Returns the operation that deletes a range of keys.
fn delete((first, end): (String, String)) -> TxnOp {
    TxnOp::delete(first, Some(DeleteOptions::new().with_range(end)))
}

impl Backend for Journal {
    fn ensure_leader(&self) -> Result<(), LedgerError> {
        self.term.lease().check()
    }

    fn wants_changes(&self) -> bool {
        true
    }

    fn commit(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), CommitError> {
        let mut length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes =
            on_client(&self.term, self.append(length.next, changes)).map_err(CommitError::Refused)??;
        length.next += 1;
        length.bytes += bytes;
        if length.bytes - length.weighed >= self.least_bytes.max(length.weighed) {
            // The change is durable whatever comes of this, which is tried again after as many bytes.
            length.weighed = length.bytes;
            match self.shorten(&transaction, &mut length) {
                Ok(()) => {}
                Err(CommitError::Refused(error)) => {
                    tracing::warn!(%error, "the log could not be shortened");
                }
                Err(CommitError::Unknown(reason) | CommitError::Lost(reason)) => {
                    tracing::warn!(reason, "whether the log was shortened is not known");
                }
            }
        }
        transaction.commit().map_err(|error| CommitError::Unknown(format!("the tables in memory: {error}")))
    }

    fn compact_log(&self, transaction: &WriteTransaction) -> Result<(), CommitError> {
        let mut length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        length.weighed = length.bytes;
        self.shorten(transaction, &mut length)
    }
}
