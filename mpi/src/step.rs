//! One launch by itself: rows made in step on all ranks, bound by the first, gathered there.

use std::{path::Path, sync::Arc};

use anyhow::ensure;
use mpi::{
    request,
    topology::Communicator,
    traits::{Destination, Source},
};
use node::runtime::Runtime;
use proto::{Commitment, RowRange, model::CheckpointPiece};
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use super::{
    checkpoint::{self, Written},
    keeper::Keeper,
    launch::Launch,
    message::{DATA_BYTES, data_tag},
    owner::Owner,
    sink::Sink,
};

/// What the first rank tells the others at each row.
const GO: u8 = 1;
const STOP: u8 = 0;

pub struct Steps<'a> {
    pub launch: &'a Launch,
    pub runtime: &'a Runtime,
    pub owner: Arc<Owner>,
    /// On the first rank.
    pub keeper: Option<Keeper>,
    pub rows: RowRange,
    pub commitment: Commitment,
    pub checkpoint_every: u64,
}

impl Steps<'_> {
    /// Runs to the last row, or to a SIGTERM or SIGUSR1 to the first rank; then checkpoints. What it did, as JSON, on
    /// the first rank.
    pub fn run(&mut self, out: Option<&Path>) -> anyhow::Result<Option<serde_json::Value>> {
        let stop = self.stop_on_signals()?;
        let dimension = self.launch.dimension();
        let mut sink = match self.keeper {
            Some(_) => Some(Sink::create(out, dimension)?),
            None => None,
        };
        let mut buffer = vec![0f32; if sink.is_some() { usize::try_from(dimension)? } else { 0 }];
        let mut next = self.rows.start;
        let mut checkpointed = None;
        while next < self.rows.end && self.may_go_on(next, &stop)? {
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
        let (sha256, rows) = sink.finish()?;
        Ok(Some(json!({
            "job": self.owner.grant().job.as_str(),
            "branch": self.owner.grant().branch(),
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

    /// The first rank binds the row, or says that this is the end; the others hear of it. So every rank knows that the
    /// row is durably bound before any part of it moves.
    fn may_go_on(&self, row: u64, stop: &CancellationToken) -> anyhow::Result<bool> {
        let mut verdict = [STOP];
        if let Some(keeper) = &self.keeper
            && !stop.is_cancelled()
        {
            keeper.bind(row, keeper.branch(), self.commitment)?;
            verdict = [GO];
        }
        self.launch.broadcast("the first rank, to bind the next row", &mut verdict);
        Ok(verdict == [GO])
    }

    /// Every rank's part, from the memory it was made in, to its place in the first rank's `row`.
    fn gather(&self, row: u64, out: &mut [f32]) -> anyhow::Result<()> {
        let Launch { all, shards, limit, root, .. } = self.launch;
        let range = self.owner.grant().range;
        let part = self.runtime.block_on(self.owner.part(row, self.commitment, range))?;
        if !self.launch.is_root() {
            for chunk in part.chunks(DATA_BYTES) {
                request::scope(|scope| {
                    let to = all.process_at_rank(*root);
                    let sent = to.immediate_send_with_tag(scope, chunk, data_tag(0));
                    limit.wait("the first rank, to take a row", sent);
                });
            }
            self.owner.delivered();
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
                limit.wait("every rank, to give its part of a row", request);
            }
        });
        self.owner.delivered();
        Ok(())
    }

    /// Every rank's piece, then the manifest. One that fails is reported and costs a replay, no row. The number of the
    /// checkpoint, on the first rank.
    fn checkpoint(&mut self) -> anyhow::Result<Option<u64>> {
        let mut id = [0u8; 8];
        if let Some(keeper) = &mut self.keeper
            && keeper.has_store()
        {
            id = keeper.new_checkpoint().to_le_bytes();
        }
        self.launch.broadcast("the first rank, to begin a checkpoint", &mut id);
        let id = u64::from_le_bytes(id);
        if id == 0 {
            return Ok(None);
        }
        let written = self.runtime.block_on(checkpoint::write_piece(&self.owner, id));
        let own = Written::of(&written).encode();
        let all = self.launch.gather("every rank, to write its piece of a checkpoint", own);
        let Some(keeper) = &self.keeper else { return Ok(None) };
        let all: Vec<Written> = all.iter().map(Written::decode).collect();
        let bytes = all.iter().map(|written| written.bytes).sum();
        let pieces = self.launch.shards.iter().zip(&all);
        let pieces = pieces.map(|((_, range), written)| written.piece(keeper.job(), id, *range));
        let Some(pieces) = pieces.collect::<Option<Vec<CheckpointPiece>>>() else {
            tracing::warn!(id, "checkpoint failed; the one before stays the newest");
            return Ok(None);
        };
        Ok(checkpoint::published(keeper.publish(self.runtime, id, bytes, pieces)))
    }
}
