//! Checkpoints while rows are served: begun by the first noise rank after so many rows and at the end, written by each
//! rank beside its loop, one at a time.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use mpi::Rank;
use node::runtime::Runtime;
use proto::{CoordinateRange, Result};
use tokio::task::JoinHandle;

use super::{
    checkpoint::{self, Written},
    keeper::Keeper,
    message::{Kind, Message},
    owner::Owner,
};
use crate::snapshot::Snapshot;

pub struct Rounds {
    /// Rows between checkpoints; 0 for one at the end alone.
    every: u64,
    rows_bound: u64,
    last_at: u64,
    /// Of the first noise rank: the checkpoint under way and the pieces that are written.
    under_way: Option<(u64, BTreeMap<Rank, Written>)>,
    own: Option<(u64, JoinHandle<Result<Snapshot>>)>,
    ending: bool,
    last_is_written: bool,
}

impl Rounds {
    pub fn new(every: u64) -> Self {
        let rows_bound = 0;
        let last_at = 0;
        Self { every, rows_bound, last_at, under_way: None, own: None, ending: false, last_is_written: false }
    }

    /// Training ranks ask again.
    pub fn begin(&mut self) {
        (self.ending, self.last_is_written) = (false, false);
    }

    pub fn bound(&mut self, row: u64) {
        self.rows_bound = self.rows_bound.max(row + 1);
    }

    /// Whether no checkpoint is under way, here or anywhere.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.own.is_none()
    }

    /// The job went back: rows come again from `row` on.
    pub fn turned(&mut self, row: u64) {
        (self.rows_bound, self.last_at) = (row, row);
    }

    /// Whether the last checkpoint is written, or failed. The first call begins the end.
    pub fn is_over(&mut self) -> bool {
        self.ending = true;
        self.last_is_written && self.under_way.is_none()
    }

    /// The number of a checkpoint to begin now.
    pub fn due(&mut self, keeper: &mut Keeper) -> Option<u64> {
        if self.under_way.is_some() {
            return None;
        }
        let by_rows = self.every > 0 && self.rows_bound >= self.last_at + self.every;
        let at_end = self.ending && !self.last_is_written;
        if at_end {
            self.last_is_written = true;
        }
        if !keeper.has_store() || !(by_rows || at_end) {
            return None;
        }
        self.last_at = self.rows_bound;
        let id = keeper.new_checkpoint();
        self.under_way = Some((id, BTreeMap::new()));
        Some(id)
    }

    pub fn write_own(&mut self, runtime: &Runtime, owner: &Arc<Owner>, id: u64) {
        let owner = owner.clone();
        self.own = Some((id, runtime.spawn(async move { checkpoint::write_piece(&owner, id).await })));
    }

    /// This rank's piece, once it is written, as it tells the first rank.
    pub fn own_written(&mut self, runtime: &Runtime) -> anyhow::Result<Option<Message>> {
        let Some((id, task)) = self.own.take_if(|(_, task)| task.is_finished()) else { return Ok(None) };
        let snapshot = runtime.block_on(task).context("a task that writes a checkpoint")?;
        let Written { is_whole, next_row, bytes, sha256 } = Written::of(&snapshot);
        let kind = if is_whole { Kind::Piece } else { Kind::NoPiece };
        let mut message = Message { id, row: next_row, place: bytes, ..Message::new(kind) };
        message.digest[..32].copy_from_slice(&sha256);
        Ok(Some(message))
    }

    /// A piece of the checkpoint under way; of another, it comes too late.
    pub fn take(&mut self, from: Rank, message: &Message) {
        let Some((_, pieces)) = self.under_way.as_mut().filter(|(id, _)| *id == message.id) else { return };
        let sha256 = std::array::from_fn(|index| message.digest[index]);
        let is_whole = message.kind == Kind::Piece;
        pieces.insert(from, Written { is_whole, next_row: message.row, bytes: message.place, sha256 });
    }

    /// Writes the manifest when all pieces are there.
    pub fn publish(&mut self, runtime: &Runtime, keeper: &Keeper, shards: &[(Rank, CoordinateRange)]) {
        let Some((id, pieces)) = self.under_way.take_if(|(_, pieces)| pieces.len() == shards.len()) else {
            return;
        };
        let bytes = pieces.values().map(|written| written.bytes).sum();
        let piece = |(rank, range): &(Rank, CoordinateRange)| pieces[rank].piece(keeper.job(), id, *range);
        match shards.iter().map(piece).collect::<Option<Vec<_>>>() {
            Some(pieces) => {
                checkpoint::published(keeper.publish(runtime, id, bytes, pieces));
            }
            None => tracing::warn!(id, "checkpoint failed; the one before stays the newest"),
        }
    }
}
