//! Checkpoints while rows are served: begun by the first noise rank after a number of rows and at the end, written by each
//! rank beside its loop, one at a time.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use node::process::runtime::Runtime;
use noise_worker::{Snapshot, shard_runner::ShardRunner};
use proto::{CoordinateRange, Result};
use tokio::task::JoinHandle;

use crate::{
    Rank,
    checkpoint_piece::{self, PieceResult},
    root_ledger::RootLedger,
    wire::{Message, Piece},
};

/// The schedule of checkpoints, and the checkpoint in progress.
pub struct CheckpointRounds {
    /// Rows between checkpoints; 0 for one at the end only.
    every: u64,
    /// The row after the highest that is bound.
    rows_bound: u64,
    /// `rows_bound` when the last checkpoint began.
    last_at: u64,
    /// On the first noise rank: the number of the checkpoint in progress, and the pieces that are written.
    in_progress: Option<(u64, BTreeMap<Rank, PieceResult>)>,
    /// The task that writes this rank's piece.
    own: Option<(u64, JoinHandle<Result<Snapshot>>)>,
    is_ending: bool,
    last_has_begun: bool,
}

impl CheckpointRounds {
    pub fn new(every: u64) -> Self {
        Self {
            every,
            rows_bound: 0,
            last_at: 0,
            in_progress: None,
            own: None,
            is_ending: false,
            last_has_begun: false,
        }
    }

    /// Starts anew: training ranks request rows again.
    pub fn begin(&mut self) {
        self.is_ending = false;
        self.last_has_begun = false;
    }

    /// Notes that a row is bound.
    pub fn note_bound(&mut self, row: u64) {
        self.rows_bound = self.rows_bound.max(row + 1);
    }

    /// Returns whether no checkpoint is in progress, on this rank or on another.
    pub fn is_idle(&self) -> bool {
        self.in_progress.is_none() && self.own.is_none()
    }

    /// Notes that the job is on another branch, whose rows begin at `row`.
    pub fn restart_at(&mut self, row: u64) {
        self.rows_bound = row;
        self.last_at = row;
    }

    /// Returns whether the last checkpoint is written, or failed. The first call begins the end.
    pub fn is_over(&mut self) -> bool {
        self.is_ending = true;
        self.last_has_begun && self.in_progress.is_none()
    }

    /// Returns the number of a checkpoint to begin now, if one is due.
    pub fn due(&mut self, ledger: &mut RootLedger) -> Option<u64> {
        if self.in_progress.is_some() {
            return None;
        }
        let by_rows = self.every > 0 && self.rows_bound >= self.last_at + self.every;
        let at_end = self.is_ending && !self.last_has_begun;
        if at_end {
            self.last_has_begun = true;
        }
        if !ledger.has_store() || !(by_rows || at_end) {
            return None;
        }
        self.last_at = self.rows_bound;
        let id = ledger.new_checkpoint();
        self.in_progress = Some((id, BTreeMap::new()));
        Some(id)
    }

    /// Begins to write this rank's piece.
    pub fn write_own(&mut self, runtime: &Runtime, runner: &Arc<ShardRunner>, id: u64) {
        let runner = runner.clone();
        self.own = Some((id, runtime.spawn(async move { checkpoint_piece::write(&runner, id).await })));
    }

    /// Returns the report on this rank's piece to the first noise rank, once the piece is written or has failed.
    pub fn own_written(&mut self, runtime: &Runtime) -> anyhow::Result<Option<Message>> {
        let Some((id, task)) = self.own.take_if(|(_, task)| task.is_finished()) else { return Ok(None) };
        let snapshot = runtime.block_on(task).context("a task that writes a checkpoint")?;
        let PieceResult { is_whole, next_row, bytes, sha256 } = PieceResult::new(&snapshot);
        Ok(Some(if is_whole {
            Message::Piece(Piece { checkpoint: id, next_row, bytes, sha256 })
        } else {
            Message::PieceFailed { checkpoint: id }
        }))
    }

    /// Takes the report on a piece. One of a checkpoint that is not in progress is ignored.
    pub fn take(&mut self, from: Rank, report: &Message) {
        let (checkpoint, result) = match *report {
            Message::Piece(Piece { checkpoint, next_row, bytes, sha256 }) => {
                (checkpoint, PieceResult { is_whole: true, next_row, bytes, sha256 })
            }
            Message::PieceFailed { checkpoint } => (checkpoint, PieceResult::default()),
            _ => return,
        };
        if let Some((_, pieces)) = self.in_progress.as_mut().filter(|(id, _)| *id == checkpoint) {
            pieces.insert(from, result);
        }
    }

    /// Writes the manifest when all pieces are reported.
    pub fn publish(&mut self, runtime: &Runtime, ledger: &RootLedger, shards: &[(Rank, CoordinateRange)]) {
        let Some((id, pieces)) = self.in_progress.take_if(|(_, pieces)| pieces.len() == shards.len()) else {
            return;
        };
        let bytes = pieces.values().map(|piece| piece.bytes).sum();
        let piece = |(rank, range): &(Rank, CoordinateRange)| pieces[rank].piece(ledger.job(), id, *range);
        match shards.iter().map(piece).collect::<Option<Vec<_>>>() {
            Some(pieces) => {
                checkpoint_piece::log_published(ledger.publish(runtime, id, bytes, pieces));
            }
            None => tracing::warn!(id, "checkpoint failed; the one before stays the newest"),
        }
    }
}
