//! States: all tables at one moment, which stand for the log's records before it. Those are removed, so that the log grows with
//! what the ledger has, and not with all that ever changed. A state is written where it saves half of the room.
//!
//! A state is text, one change a line, cut into pieces. Its key names the pieces and their digest, and is written once they are
//! there; what came before is removed after it. Chains are in it whole: a leader checks as much as it does of a whole log.

use etcd_client::GetOptions;
use proto::hex_digest;
use redb::{Database, WriteTransaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    election::{CUT_LOG_FORMAT, Identity},
    leader_lease::Term,
    log_reader::LogReader,
    pages::{READ_LIMIT, apply, on_client, read},
};
use crate::{
    LedgerError, Result,
    error::Fail,
    store::backend::CommitError,
    wire::{
        change::{self, Change},
        log_record::MAX_VALUE_BYTES,
    },
};

/// The JSON under the key of the state.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The revision at which its writer became leader.
    pub by: i64,
    /// The number of the first record that comes after it.
    pub next: u64,
    pieces: usize,
    /// The bytes of all pieces.
    pub bytes: u64,
    #[serde(with = "hex_digest")]
    sha256: [u8; 32],
}

/// Writes one piece, by its index.
type Put<'p> = dyn FnMut(usize, Vec<u8>) -> Result<(), CommitError> + 'p;

/// Text on its way into pieces.
struct Pieces<'p> {
    put: &'p mut Put<'p>,
    text: Vec<u8>,
    count: usize,
    bytes: u64,
    sha256: Sha256,
}

impl Pieces<'_> {
    /// Writes pieces as long as there is text for a whole one.
    fn write_whole(&mut self) -> Result<(), CommitError> {
        while self.text.len() >= MAX_VALUE_BYTES {
            let piece = self.text.drain(..MAX_VALUE_BYTES).collect();
            self.write(piece)?;
        }
        Ok(())
    }

    fn write(&mut self, piece: Vec<u8>) -> Result<(), CommitError> {
        self.sha256.update(&piece);
        self.bytes += piece.len() as u64;
        self.count += 1;
        (self.put)(self.count - 1, piece)
    }
}

impl State {
    /// Returns whether the state that [`State::write`] would write has at most so many bytes.
    pub fn is_within(transaction: &WriteTransaction, most: u64) -> Result<bool, CommitError> {
        let mut bytes = 0;
        let walked = change::each(transaction, &mut |change| {
            bytes += serde_json::to_vec(&change).map_or(0, |text| text.len() as u64 + 1);
            bytes <= most
        });
        walked.map_err(unreadable)?;
        Ok(bytes <= most)
    }

    /// Writes the pieces of all tables by `put`, and returns what is to be written under the key of the state.
    pub fn write<'p>(
        transaction: &WriteTransaction,
        by: i64,
        next: u64,
        put: &'p mut Put<'p>,
    ) -> Result<Self, CommitError> {
        let mut pieces = Pieces { put, text: Vec::new(), count: 0, bytes: 0, sha256: Sha256::new() };
        let mut outcome = Ok(());
        let walked = change::each(transaction, &mut |change| {
            outcome = match serde_json::to_writer(&mut pieces.text, &change) {
                Ok(()) => {
                    pieces.text.push(b'\n');
                    pieces.write_whole()
                }
                Err(error) => Err(CommitError::Unknown(error.to_string())),
            };
            outcome.is_ok()
        });
        outcome?;
        walked.map_err(unreadable)?;
        let last = std::mem::take(&mut pieces.text);
        if !last.is_empty() {
            pieces.write(last)?;
        }
        let Pieces { count, bytes, sha256, .. } = pieces;
        Ok(Self { by, next, pieces: count, bytes, sha256: sha256.finalize().into() })
    }

    /// Returns the ledger's state; `None` where its log is whole. Error: the ledger's own key says that there is a state, and
    /// there is none.
    pub async fn find(term: &Term) -> Result<Option<Self>> {
        let mut alone = LogReader::new(1, READ_LIMIT);
        let identity = read(term, &mut alone, &term.keys.ledger(), GetOptions::new()).await?;
        let identity = identity.kvs().first().map(|pair| serde_json::from_slice::<Identity>(pair.value()));
        let is_cut = matches!(identity, Some(Ok(Identity { format: CUT_LOG_FORMAT, .. })));
        let answer = read(term, &mut alone, &term.keys.state(), GetOptions::new()).await?;
        let pair = match (answer.kvs().first(), is_cut) {
            (Some(pair), true) => pair,
            (None, false) => return Ok(None),
            (None, true) => return Err(damaged(term, "its state is missing".to_owned())),
            (Some(_), false) => {
                return Err(damaged(term, "it has a state, and its own key knows of none".to_owned()));
            }
        };
        let state = serde_json::from_slice(pair.value());
        state.map(Some).map_err(|error| damaged(term, format!("its state can't be read: {error}")))
    }

    /// Applies the state to empty tables, a piece at a time.
    pub fn read(&self, term: &Term, db: &Database) -> Result<()> {
        let mut sha256 = Sha256::new();
        let mut text = Vec::new();
        for index in 0..self.pieces {
            let key = term.keys.piece(self.next, self.by, index);
            let mut alone = LogReader::new(1, READ_LIMIT);
            let piece = on_client(term, read(term, &mut alone, &key, GetOptions::new()))??;
            let pair = piece.kvs().first();
            let pair = pair.ok_or_else(|| damaged(term, format!("piece {index} of its state is missing")))?;
            sha256.update(pair.value());
            text.extend_from_slice(pair.value());
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let changes = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let changes = changes.map(serde_json::from_slice).collect::<serde_json::Result<Vec<Change>>>();
            let changes =
                changes.map_err(|error| damaged(term, format!("its state can't be read: {error}")))?;
            apply(term, db, vec![changes])?;
            text.drain(..whole);
        }
        let is_whole = text.is_empty() && <[u8; 32]>::from(sha256.finalize()) == self.sha256;
        is_whole.then_some(()).ok_or_else(|| damaged(term, "its state is not what was written".to_owned()))
    }
}

fn damaged(term: &Term, reason: String) -> LedgerError {
    LedgerError::Damaged { path: term.lease().path().to_owned(), reason }
}

fn unreadable(fail: Fail) -> CommitError {
    let reason = match fail {
        Fail::Refused(error) => error.to_string(),
        Fail::Store(error) => error.to_string(),
        Fail::Record(reason) => reason,
    };
    CommitError::Unknown(format!("the tables in memory: {reason}"))
}
