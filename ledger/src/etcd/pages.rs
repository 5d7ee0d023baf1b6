//! Reads of the log and of states, by a leader, and what they change in its tables.

use std::time::Duration;

use etcd_client::{Client, GetOptions, GetResponse};
use redb::Database;

use super::{client::CallError, leader_lease::Term, log_reader::LogReader};
use crate::{
    LedgerError, Result,
    error::Fail,
    store::begin_durable,
    wire::{
        change::{self, Change},
        log_record::{self, Record},
    },
};

/// One page of the log.
pub const READ_LIMIT: Duration = Duration::from_secs(20);
/// One attempt at a compaction of etcd's revisions.
const COMPACT_LIMIT: Duration = Duration::from_secs(10);
/// More bytes than any page can have.
const LARGEST_ANSWER: usize = 512 << 20;
/// Pause before a call is made again.
pub const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// Records of the log, one after another.
pub struct Page {
    pub records: Vec<Vec<Change>>,
    /// The bytes that they take in etcd.
    pub bytes: u64,
}

/// Waits for the work on the client's runtime, as long as there is one.
pub fn on_client<T>(term: &Term, work: impl Future<Output = T>) -> Result<T> {
    let done = term.client.block_on(work);
    done.ok_or_else(|| LedgerError::NotLeader { path: term.lease().path().to_owned() })
}

/// Reads records from `next` on, without a gap; none at the log's end.
pub async fn read_page(term: &Term, next: u64, reader: &mut LogReader) -> Result<Page> {
    let options = GetOptions::new().with_range(term.keys.log_end());
    let page = read(term, reader, &term.keys.log(next), options).await?;
    let mut records = Vec::new();
    let mut bytes = 0;
    for (expected, pair) in (next..).zip(page.kvs()) {
        let damaged = |what: &str| LedgerError::Damaged {
            path: term.lease().path().to_owned(),
            reason: format!("record {expected} of the log {what}"),
        };
        if term.keys.number_of(pair.key()) != Some(expected) {
            return Err(damaged("is missing"));
        }
        bytes += pair.value().len() as u64;
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
                bytes += pieces.iter().map(|piece: &Vec<u8>| piece.len() as u64).sum::<u64>();
                let joined = log_record::join(&pieces, parts, sha256);
                joined.ok_or_else(|| damaged("has pieces that are not what was written"))?
            }
        });
    }
    Ok(Page { records, bytes })
}

/// Reads keys that a majority of members has, as long as this process leads.
pub async fn read(
    term: &Term,
    reader: &mut LogReader,
    key: &str,
    options: GetOptions,
) -> Result<GetResponse> {
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

pub fn apply(term: &Term, db: &Database, page: Vec<Vec<Change>>) -> Result<()> {
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

/// Lets etcd forget what was there before its present revision: else removed records take as much room as before.
pub async fn forget_revisions(term: &Term) -> Result<(), String> {
    let Term { client, keys, .. } = term;
    let read = async |mut client: Client| client.get(keys.state(), None).await;
    let answer = client.call_with_retry(READ_LIMIT, read).await.map_err(|error| error.to_string())?;
    let revision = answer.header().map(|header| header.revision()).unwrap_or_default();
    let compact = async |mut client: Client| client.compact(revision, None).await;
    match client.call(COMPACT_LIMIT, compact).await {
        Ok(_) => Ok(()),
        // Compacted by another one meanwhile, or to be compacted after the next state.
        Err(CallError::Refused(reason) | CallError::Unknown(reason)) => Err(reason),
    }
}
