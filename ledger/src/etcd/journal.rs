//! The log: read by a new leader, added to by whoever still leads.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use etcd_client::{Client, Compare, CompareOp, DeleteOptions, GetOptions, GetResponse, Txn, TxnOp};
use redb::{Database, WriteTransaction};

use super::{
    election::found,
    pages::Pages,
    record::{self, Record},
    seat::Term,
    wire::Failure,
};
use crate::{
    LedgerError, Result,
    change::{self, Change},
    fail_points::fail_point,
    keeper::{Keeper, Unkept},
    store::{Fail, begin_durable},
};

/// One attempt at a write.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// One page of the log.
const READ_LIMIT: Duration = Duration::from_secs(20);
/// Records of one at most.
const PAGE: i64 = 256;
/// Above what a page can have.
const LARGEST_ANSWER: usize = 512 << 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

pub struct Journal {
    term: Term,
    /// Number of the log's next record. Held while it is written.
    next: Mutex<u64>,
}

impl Journal {
    /// Makes all changes of the log on empty tables, and clears up what earlier leaders left half written.
    pub fn read(term: Term, db: &Database) -> Result<Self> {
        let mut next = 0;
        let mut pages = Pages::new(PAGE, READ_LIMIT);
        loop {
            let page = on_wire(&term, read_page(&term, next, &mut pages))??;
            if page.is_empty() {
                break;
            }
            next += page.len() as u64;
            apply(&term, db, page)?;
        }
        let journal = Self { term, next: Mutex::new(next) };
        on_wire(&journal.term, journal.clear_parts(next))??;
        Ok(journal)
    }

    /// Pieces whose record never came: nobody refers to them.
    async fn clear_parts(&self, next: u64) -> Result<()> {
        let (first, end) = self.term.keys.parts_from(next);
        let delete = TxnOp::delete(first, Some(DeleteOptions::new().with_range(end)));
        fail_point!("etcd::clear::begin", self.io("a fail point".to_owned()));
        match self.write(None, vec![delete]).await {
            Ok(()) => {
                fail_point!("etcd::clear::end", self.io("a fail point".to_owned()));
                Ok(())
            }
            Err(Unkept::Refused(error)) => Err(error),
            Err(Unkept::Unknown(reason) | Unkept::Lost(reason)) => Err(self.io(reason)),
        }
    }

    async fn append(&self, number: u64, changes: &[Change]) -> Result<(), Unkept> {
        let keys = &self.term.keys;
        let by = self.term.seat().revision;
        let encoded = record::encode(by, changes);
        let encoded = encoded.map_err(|error| Unkept::Refused(self.io(error.to_string())))?;
        for (index, part) in encoded.parts.into_iter().enumerate() {
            fail_point!("etcd::part::begin", Unkept::Refused(self.io("a fail point".to_owned())));
            let put = TxnOp::put(keys.part(number, by, index), part, None);
            // Half a record is none: where a piece fails, nothing has happened.
            self.write(None, vec![put]).await.map_err(|unkept| match unkept {
                Unkept::Unknown(reason) => Unkept::Refused(self.io(reason)),
                Unkept::Lost(_) => {
                    Unkept::Refused(LedgerError::NotLeader { path: self.term.seat().path().to_owned() })
                }
                refused => refused,
            })?;
            fail_point!("etcd::part::end", Unkept::Refused(self.io("a fail point".to_owned())));
        }
        let put = TxnOp::put(keys.log(number), encoded.record.as_slice(), None);
        fail_point!("etcd::record::begin", Unkept::Refused(self.io("a fail point".to_owned())));
        self.write(Some((keys.log(number), &encoded.record)), vec![put]).await?;
        // It is in the log: whoever is not told so must not be told that it isn't.
        fail_point!("etcd::record::end", Unkept::Unknown("a fail point".to_owned()));
        Ok(())
    }

    /// Done only while this process leads, and where `place` is still empty. An attempt without an answer is made
    /// again: it changes nothing where the first got through. With the lease its outcome stays open.
    async fn write(&self, place: Option<(String, &[u8])>, operations: Vec<TxnOp>) -> Result<(), Unkept> {
        let seat = self.term.seat();
        let leader = self.term.keys.leader();
        let mut compares = vec![Compare::create_revision(leader.as_str(), CompareOp::Equal, seat.revision)];
        let mut reads = vec![TxnOp::get(leader, None)];
        if let Some((key, _)) = &place {
            compares.push(Compare::create_revision(key.as_str(), CompareOp::Equal, 0));
            reads.push(TxnOp::get(key.as_str(), None));
        }
        let txn = Txn::new().when(compares).and_then(operations).or_else(reads);
        let mut open: Option<String> = None;
        loop {
            let Some(left) = seat.left() else {
                seat.lose();
                return Err(match open {
                    None => Unkept::Refused(LedgerError::NotLeader { path: seat.path().to_owned() }),
                    Some(reason) => Unkept::Lost(format!(
                        "no answer while this coordinator led, and whether the change was made is not known: {reason}"
                    )),
                });
            };
            let attempt = async |mut client: Client| client.txn(txn.clone()).await;
            match (self.term.wire.call(left.min(WRITE_LIMIT), attempt).await, open.take()) {
                (Ok(answer), _) if answer.succeeded() => return Ok(()),
                (Ok(answer), _) => return self.refused(&answer.op_responses(), place),
                (Err(Failure::Refused(reason)), None) => return Err(Unkept::Refused(self.io(reason))),
                (Err(Failure::Refused(reason)), Some(_)) => return Err(Unkept::Unknown(reason)),
                (Err(Failure::Open(reason)), _) => {
                    tracing::warn!(reason, "etcd gave no answer to a write; asking again");
                    open = Some(reason);
                }
            }
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    /// A comparison failed: an earlier attempt got through, or another leads, and then none will any more.
    fn refused(
        &self,
        reads: &[etcd_client::TxnOpResponse],
        place: Option<(String, &[u8])>,
    ) -> Result<(), Unkept> {
        let seat = self.term.seat();
        let there = reads.get(1).and_then(found);
        if let (Some((_, ours)), Some(there)) = (&place, &there)
            && there.value == *ours
        {
            return Ok(());
        }
        let leader = reads.first().and_then(found);
        if leader.is_none_or(|leader| leader.revision != seat.revision) {
            seat.lose();
            return Err(Unkept::Refused(LedgerError::NotLeader { path: seat.path().to_owned() }));
        }
        let key = place.map(|(key, _)| key).unwrap_or_default();
        Err(Unkept::Unknown(format!("another process has written {key} under this leader's name")))
    }

    fn io(&self, reason: String) -> LedgerError {
        LedgerError::Io { path: self.term.seat().path().to_owned(), reason }
    }
}

impl Keeper for Journal {
    fn may_speak(&self) -> Result<(), LedgerError> {
        self.term.seat().check()
    }

    fn wants_changes(&self) -> bool {
        true
    }

    fn keep(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), Unkept> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        on_wire(&self.term, self.append(*next, changes)).map_err(Unkept::Refused)??;
        *next += 1;
        transaction.commit().map_err(|error| Unkept::Unknown(format!("the tables in memory: {error}")))
    }
}

fn on_wire<T>(term: &Term, work: impl Future<Output = T>) -> Result<T> {
    let done = term.wire.block_on(work);
    done.ok_or_else(|| LedgerError::NotLeader { path: term.seat().path().to_owned() })
}

/// Records from `next` on, without a gap; none at the log's end.
async fn read_page(term: &Term, next: u64, pages: &mut Pages) -> Result<Vec<Vec<Change>>> {
    let options = GetOptions::new().with_range(term.keys.log_end());
    let page = read(term, pages, &term.keys.log(next), options).await?;
    let mut records = Vec::new();
    for (expected, pair) in (next..).zip(page.kvs()) {
        let damaged = |what: &str| LedgerError::Damaged {
            path: term.seat().path().to_owned(),
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
                let mut alone = Pages::new(1, READ_LIMIT);
                for index in 0..parts {
                    let key = term.keys.part(expected, by, index);
                    let piece = read(term, &mut alone, &key, GetOptions::new()).await?;
                    pieces.extend(piece.kvs().first().map(|pair| pair.value().to_vec()));
                }
                let joined = record::join(&pieces, parts, sha256);
                joined.ok_or_else(|| damaged("has pieces that are not what was written"))?
            }
        });
    }
    Ok(records)
}

/// Reads what a majority has, as long as this process leads.
async fn read(term: &Term, pages: &mut Pages, key: &str, options: GetOptions) -> Result<GetResponse> {
    let ask = async |records| {
        let options = &options.clone().with_limit(records);
        let get = async |client: Client| {
            let mut kv = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
            kv.get(key, Some(options.clone())).await
        };
        term.wire.call(READ_LIMIT, get).await
    };
    match pages.read(|| term.seat().check(), BETWEEN_ATTEMPTS, ask).await? {
        Ok(answer) => Ok(answer),
        Err(reason) => Err(LedgerError::Io { path: term.seat().path().to_owned(), reason }),
    }
}

fn apply(term: &Term, db: &Database, page: Vec<Vec<Change>>) -> Result<()> {
    let path = || term.seat().path().to_owned();
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
