//! The log: read by a new leader, and appended to while it leads.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use durable_io::fail_point;
use etcd_client::{Client, Compare, CompareOp, DeleteOptions, GetOptions, GetResponse, Txn, TxnOp};
use redb::{Database, WriteTransaction};

use super::{client::CallError, election::read_key, leader_lease::Term, log_reader::LogReader};
use crate::{
    LedgerError, Result,
    error::Fail,
    store::{
        backend::{Backend, CommitError},
        begin_durable,
    },
    wire::{
        change::{self, Change},
        log_record::{self, Record},
    },
};

/// One attempt at a write.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// One page of the log.
const READ_LIMIT: Duration = Duration::from_secs(20);
/// The most records of one page.
const MOST_RECORDS: i64 = 256;
/// More bytes than any page can have.
const LARGEST_ANSWER: usize = 512 << 20;
/// Pause before a call is made again.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// The log as its leader writes it: the backend of a ledger in etcd.
pub struct Journal {
    term: Term,
    /// The number of the log's next record. Locked while that is written.
    next: Mutex<u64>,
}

impl Journal {
    /// Applies the whole log to empty tables, and deletes what earlier leaders left half written.
    pub fn read(term: Term, db: &Database) -> Result<Self> {
        let mut next = 0;
        let mut reader = LogReader::new(MOST_RECORDS, READ_LIMIT);
        loop {
            let page = on_client(&term, read_page(&term, next, &mut reader))??;
            if page.is_empty() {
                break;
            }
            next += page.len() as u64;
            apply(&term, db, page)?;
        }
        let journal = Self { term, next: Mutex::new(next) };
        on_client(&journal.term, journal.clear_parts(next))??;
        Ok(journal)
    }

    /// Deletes pieces whose record was never written: nothing refers to them.
    async fn clear_parts(&self, next: u64) -> Result<()> {
        let (first, end) = self.term.keys.parts_from(next);
        let delete = TxnOp::delete(first, Some(DeleteOptions::new().with_range(end)));
        fail_point!("etcd::clear::begin", self.io("a fail point".to_owned()));
        match self.write(None, vec![delete]).await {
            Ok(()) => {
                fail_point!("etcd::clear::end", self.io("a fail point".to_owned()));
                Ok(())
            }
            Err(CommitError::Refused(error)) => Err(error),
            Err(CommitError::Unknown(reason) | CommitError::Lost(reason)) => Err(self.io(reason)),
        }
    }

    async fn append(&self, number: u64, changes: &[Change]) -> Result<(), CommitError> {
        let keys = &self.term.keys;
        let by = self.term.lease().revision;
        let encoded = log_record::encode(by, changes);
        let encoded = encoded.map_err(|error| CommitError::Refused(self.io(error.to_string())))?;
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

impl Backend for Journal {
    fn ensure_leader(&self) -> Result<(), LedgerError> {
        self.term.lease().check()
    }

    fn wants_changes(&self) -> bool {
        true
    }

    fn commit(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), CommitError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        on_client(&self.term, self.append(*next, changes)).map_err(CommitError::Refused)??;
        *next += 1;
        transaction.commit().map_err(|error| CommitError::Unknown(format!("the tables in memory: {error}")))
    }
}

fn on_client<T>(term: &Term, work: impl Future<Output = T>) -> Result<T> {
    let done = term.client.block_on(work);
    done.ok_or_else(|| LedgerError::NotLeader { path: term.lease().path().to_owned() })
}

/// Reads records from `next` on, without a gap; none at the log's end.
async fn read_page(term: &Term, next: u64, reader: &mut LogReader) -> Result<Vec<Vec<Change>>> {
    let options = GetOptions::new().with_range(term.keys.log_end());
    let page = read(term, reader, &term.keys.log(next), options).await?;
    let mut records = Vec::new();
    for (expected, pair) in (next..).zip(page.kvs()) {
        let damaged = |what: &str| LedgerError::Damaged {
            path: term.lease().path().to_owned(),
            reason: format!("record {expected} of the log {what}"),
        };
        if term.keys.number_of(pair.key()) != Some(expected) {
            return Err(damaged("is missing"));
        }
        let record = serde_json::from_slice(pair.value())
            .map_err(|error| damaged(&format!("can't be read: {error}")))?;
        records.push(match record {
            Record::Whole { changes, .. } => changes,
            Record::InParts { by, parts, sha256 } => {
                let mut pieces = Vec::new();
                let mut alone = LogReader::new(1, READ_LIMIT);
                for index in 0..parts {
                    let key = term.keys.part(expected, by, index);
                    let piece = read(term, &mut alone, &key, GetOptions::new()).await?;
                    pieces.extend(piece.kvs().first().map(|pair| pair.value().to_vec()));
                }
                let joined = log_record::join(&pieces, parts, sha256);
                joined.ok_or_else(|| damaged("has pieces that are not what was written"))?
            }
        });
    }
    Ok(records)
}

/// Reads keys that a majority of members has, as long as this process leads.
async fn read(term: &Term, reader: &mut LogReader, key: &str, options: GetOptions) -> Result<GetResponse> {
    let request = async |records| {
        let options = &options.clone().with_limit(records);
        let get = async |client: Client| {
            let mut kv = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
            kv.get(key, Some(options.clone())).await
        };
        term.client.call(READ_LIMIT, get).await
    };
    match reader.read(|| term.lease().check(), BETWEEN_ATTEMPTS, request).await? {
        Ok(answer) => Ok(answer),
        Err(reason) => Err(LedgerError::Io { path: term.lease().path().to_owned(), reason }),
    }
}

fn apply(term: &Term, db: &Database, page: Vec<Vec<Change>>) -> Result<()> {
    let path = || term.lease().path().to_owned();
    let io = |reason: String| LedgerError::Io { path: path(), reason };
    let transaction = begin_durable(db).map_err(|error| io(error.to_string()))?;
    for changes in page {
        change::apply(&transaction, changes).map_err(|fail| match fail {
            Fail::Refused(error) => error,
            Fail::Store(error) => io(error.to_string()),
            Fail::Record(reason) => LedgerError::Damaged { path: path(), reason },
        })?;
    }
    transaction.commit().map_err(|error| io(error.to_string()))
}
