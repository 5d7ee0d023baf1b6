//! A launch by itself: all ranks generate each row together; the first binds it and gathers its parts.

use std::{path::Path, sync::Arc};

use anyhow::ensure;
use node::config::kept_commitment::KeptCommitment;
use node::process::runtime::Runtime;
use noise_worker::shard_runner::ShardRunner;
use proto::{Commitment, RowRange, model::CheckpointPiece};
use rsmpi::{
    request,
    topology::Communicator,
    traits::{Destination, Source},
};
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use crate::{
    checkpoint_piece::{self, PieceResult},
    launch::Launch,
    root_ledger::RootLedger,
    sink::Sink,
    wire::{DATA_BYTES, data_tag},
};

/// The verdicts that the first rank broadcasts at each row.
const GO: u8 = 1;
const STOP: u8 = 0;

/// A launch that generates a range of rows.
pub struct Steps<'a> {
    pub launch: &'a Launch,
    pub runtime: &'a Runtime,
    pub runner: Arc<ShardRunner>,
    /// Present on the first rank.
    pub root_ledger: Option<RootLedger>,
    pub rows: RowRange,
    pub commitment: Commitment,
    /// The commitment, where it was drawn; on the first rank.
    pub drawn: Option<KeptCommitment>,
    pub checkpoint_every: u64,
}

impl Steps<'_> {
    /// Runs to the last row, or until the first rank receives SIGTERM or SIGUSR1; then writes a checkpoint. Returns a summary
    /// as JSON on the first rank.
    pub fn run(&mut self, out: Option<&Path>) -> anyhow::Result<Option<serde_json::Value>> {
        let stop = self.stop_on_signals()?;
        let dimension = self.launch.dimension();
        let mut sink = match self.root_ledger {
            Some(_) => Some(Sink::create(out, dimension, self.launch.element())?),
            None => None,
        };
        // Values of four bytes, whatever they are.
        let mut buffer = vec![0f32; if sink.is_some() { usize::try_from(dimension)? } else { 0 }];
        let mut next = self.rows.start;
        let mut checkpointed = None;
        while next < self.rows.end && self.bind_next(next, &stop)? {
            self.gather(next, &mut buffer)?;
            if let Some(sink) = &mut sink {
                sink.write(&buffer)?;
            }
            next += 1;
            if self.checkpoint_every > 0 && (next - self.rows.start).is_multiple_of(self.checkpoint_every) {
                checkpointed = self.checkpoint()?.or(checkpointed);
            }
        }
        checkpointed = self.checkpoint()?.or(checkpointed);
        let Some(sink) = sink else { return Ok(None) };
        let is_whole = out.is_some() && next == self.rows.end;
        let drawn = self.drawn.as_ref().filter(|_| is_whole);
        drawn.map_or(Ok(()), KeptCommitment::finishing)?;
        let (sha256, rows) = sink.finish()?;
        drawn.map_or(Ok(()), KeptCommitment::complete)?;
        Ok(Some(json!({
            "job": self.runner.grant().job.as_str(),
            "branch": self.runner.grant().branch(),
            "noise_id": self.runner.grant().noise_id().to_string(),
            "ranks": self.launch.shards.len(),
            "dimension": dimension,
            "first_row": self.rows.start,
            "next_row": next,
            "rows": rows,
            "sha256": sha256,
            "out": out.map(|path| path.display().to_string()),
            "checkpoint": checkpointed,
        })))
    }

    fn stop_on_signals(&self) -> anyhow::Result<CancellationToken> {
        let _within = self.runtime.enter();
        let token = CancellationToken::new();
        for kind in [SignalKind::terminate(), SignalKind::user_defined1()] {
            let mut signal = tokio::signal::unix::signal(kind)?;
            let token = token.clone();
            tokio::spawn(async move {
                signal.recv().await;
                token.cancel();
            });
        }
        Ok(token)
    }

    /// Binds the row on the first rank, unless the launch is to stop, and broadcasts the verdict. So every rank knows that
    /// the row is durably bound before any part of it moves. Returns whether it is bound.
    fn bind_next(&self, row: u64, stop: &CancellationToken) -> anyhow::Result<bool> {
        let mut verdict = [STOP];
        if let Some(ledger) = &self.root_ledger
            && !stop.is_cancelled()
        {
            ledger.bind(row, ledger.branch(), self.commitment)?;
            verdict = [GO];
        }
        self.launch.broadcast("the first rank, to bind the next row", &mut verdict);
        Ok(verdict == [GO])
    }

    /// Gathers every rank's part, from the memory it was generated in, at its position in the first rank's `out`.
    fn gather(&self, row: u64, out: &mut [f32]) -> anyhow::Result<()> {
        let Launch { all, shards, limit, root, .. } = self.launch;
        let range = self.runner.grant().range;
        let part = self.runtime.block_on(self.runner.part(row, self.commitment, range))?;
        if !self.launch.is_root() {
            for chunk in part.chunks(DATA_BYTES) {
                request::scope(|scope| {
                    let to = all.process_at_rank(*root);
                    let sent = to.immediate_send_with_tag(scope, chunk, data_tag(0));
                    limit.wait("the first rank, to take a row", sent);
                });
            }
            self.runner.row_done();
            return Ok(());
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
        ensure!(range.start == 0, "the first noise rank owns {range}, not the first shard");
        let (own, mut rest) = bytes.split_at_mut(part.len());
        request::scope(|scope| {
            let mut coming = Vec::new();
            for (rank, range) in &shards[1..] {
                let (now, later) = std::mem::take(&mut rest).split_at_mut(range.len() as usize * 4);
                rest = later;
                let from = all.process_at_rank(*rank);
                coming.extend(
                    now.chunks_mut(DATA_BYTES)
                        .map(|chunk| from.immediate_receive_into_with_tag(scope, chunk, data_tag(0))),
                );
            }
            own.copy_from_slice(&part);
            for request in coming {
                limit.wait("every rank, to send its part of a row", request);
            }
        });
        self.runner.row_done();
        Ok(())
    }

    /// Writes every rank's piece, then the manifest. A checkpoint that fails is logged and costs a replay, but no row.
    /// Returns the number of the checkpoint on the first rank.
    fn checkpoint(&mut self) -> anyhow::Result<Option<u64>> {
        let mut id = [0u8; 8];
        if let Some(ledger) = &mut self.root_ledger
            && ledger.has_store()
        {
            id = ledger.new_checkpoint().to_le_bytes();
        }
        self.launch.broadcast("the first rank, to begin a checkpoint", &mut id);
        let id = u64::from_le_bytes(id);
        if id == 0 {
            return Ok(None);
        }
        let written = self.runtime.block_on(checkpoint_piece::write(&self.runner, id));
        let own = PieceResult::new(&written).encode();
        let all = self.launch.gather("every rank, to write its piece of a checkpoint", own);
        let Some(ledger) = &self.root_ledger else { return Ok(None) };
        let all: Vec<PieceResult> = all.iter().map(PieceResult::decode).collect();
        let bytes = all.iter().map(|written| written.bytes).sum();
        let pieces = self.launch.shards.iter().zip(&all);
        let pieces = pieces.map(|((_, range), written)| written.piece(ledger.job(), id, *range));
        let Some(pieces) = pieces.collect::<Option<Vec<CheckpointPiece>>>() else {
            tracing::warn!(id, "checkpoint failed; the one before stays the newest");
            return Ok(None);
        };
        Ok(checkpoint_piece::log_published(ledger.publish(self.runtime, id, bytes, pieces)))
    }
}
