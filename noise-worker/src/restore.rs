//! Brings a newly granted shard to where its job stands: from the newest checkpoint that is whole, else from the one
//! before it, else from the key.

use ledger::{ShardCheckpoint, ShardHeader, pieces_by_checkpoint};
use noise_kernel::{BLOCK, Generator};
use proto::{
    CoordinateRange, Result, ServiceError,
    model::{CheckpointPiece, LeaseGrant},
};

use crate::{
    leases::Limits,
    metric_definitions::CHECKPOINTS_REFUSED,
    recipe::Recipe,
    row::{Row, Window},
};

/// The generator and the rows already made, ready to go on.
pub async fn restore(grant: &LeaseGrant, recipe: &Recipe, limits: &Limits) -> Result<(Generator, Window)> {
    for (id, pieces) in pieces_by_checkpoint(&grant.pieces) {
        match from_checkpoint(&pieces, grant, recipe, limits).await {
            Ok(restored) => {
                tracing::info!(job = %grant.job, shard = grant.shard, checkpoint = id, next_row = restored.0.next_row(),
                    "restored from a checkpoint");
                return Ok(restored);
            }
            Err(error) => {
                metrics::counter!(CHECKPOINTS_REFUSED).increment(1);
                tracing::warn!(job = %grant.job, shard = grant.shard, checkpoint = id, %error,
                    "checkpoint not usable; trying the one before, then the key");
            }
        }
    }
    // Skipped to where the job stands by the task that makes rows.
    let (recipe, range) = (recipe.clone(), grant.range.as_range());
    let made = limits.pool.run(move || recipe.generator(range)).await.map_err(ServiceError::internal)?;
    Ok((made.map_err(ServiceError::internal)?, Window::default()))
}

/// A part of the shard as one stored object had it.
struct Piece {
    range: CoordinateRange,
    generator: Generator,
    window: Window,
}

async fn from_checkpoint(
    stored: &[CheckpointPiece],
    grant: &LeaseGrant,
    recipe: &Recipe,
    limits: &Limits,
) -> Result<(Generator, Window)> {
    let store = limits.stores.open(&grant.store_url)?;
    let mut pieces = Vec::new();
    for piece in stored {
        let Some(range) = piece.range.intersection(&grant.range) else { continue };
        let check = |header: &ShardHeader| check_header(header, grant);
        let stored = store.read_shard(&piece.object, &piece.sha256, &recipe.checkpoint_key, check).await?;
        let recipe = recipe.clone();
        let cut = limits.pool.run(move || cut(stored, range, &recipe)).await;
        pieces.push(cut.map_err(ServiceError::internal)??);
    }
    check_cover(&mut pieces, grant.range)?;
    let next_row = pieces.iter().map(|piece| piece.generator.next_row()).max().unwrap_or(0);
    let recipe = recipe.clone();
    let range = grant.range;
    limits.pool.run(move || join(pieces, next_row, range, &recipe)).await.map_err(ServiceError::internal)?
}

fn check_header(header: &ShardHeader, grant: &LeaseGrant) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("is of another {what}"));
    match () {
        () if header.job != grant.job.as_str() => wrong("job"),
        // Rows that the branches don't share must not have gone into the state.
        () if !grant.lineage.continues(header.branch, header.next_row) => wrong("branch"),
        () if header.plan_digest != grant.plan_digest => wrong("plan"),
        () if header.key_commitment != grant.key_commitment => wrong("key"),
        () if header.stream_version != noise_kernel::STREAM_VERSION => wrong("stream version"),
        () => Ok(()),
    }
}

/// State lies block by block, so that a part of a shard is a slice of it.
fn cut(stored: ShardCheckpoint, range: CoordinateRange, recipe: &Recipe) -> Result<Piece> {
    let ShardCheckpoint { header, state, window } = stored;
    let (block, per_block) = (BLOCK as u64, header.block_state_len as usize);
    let first = ((range.start - header.range.start) / block) as usize;
    let blocks = (range.end - range.start).div_ceil(block) as usize;
    let state = &state[first * per_block..(first + blocks) * per_block];
    let generator =
        recipe.restore(range.as_range(), header.next_row, &[state]).map_err(ServiceError::internal)?;
    let (from, to) = ((range.start - header.range.start) as usize, (range.end - header.range.start) as usize);
    let rows = window.into_iter().map(|row| Row::new(row[from..to].to_vec())).collect();
    Ok(Piece { range, generator, window: Window::new(header.window_start, rows) })
}

fn check_cover(pieces: &mut [Piece], range: CoordinateRange) -> Result<()> {
    pieces.sort_by_key(|piece| piece.range.start);
    let mut covered = range.start;
    for piece in pieces.iter() {
        if piece.range.start != covered {
            break;
        }
        covered = piece.range.end;
    }
    if covered == range.end {
        Ok(())
    } else {
        let reason = format!("its pieces cover {}..{covered} of {range}", range.start);
        Err(ServiceError::Checkpoint { object: "newest".into(), reason })
    }
}

/// Pieces that stand at different rows are brought to the same one; rows that not all of them have are let go, and
/// drawn again if they are asked for.
fn join(
    mut pieces: Vec<Piece>,
    next_row: u64,
    range: CoordinateRange,
    recipe: &Recipe,
) -> Result<(Generator, Window)> {
    for piece in &mut pieces {
        while piece.generator.next_row() < next_row {
            let mut row = vec![0f32; piece.range.len() as usize];
            piece.generator.generate(&mut [&mut row]).map_err(ServiceError::internal)?;
            piece.window.push(Row::new(row));
        }
    }
    if pieces.len() == 1
        && let Some(Piece { generator, window, .. }) = pieces.pop()
    {
        return Ok((generator, window));
    }
    let start = pieces.iter().map(|piece| piece.window.start()).max().unwrap_or(next_row);
    let rows = (start..next_row).map(|row| {
        let parts = pieces.iter().filter_map(|piece| piece.window.get(row));
        Row::new(parts.flat_map(|part| part.values()).copied().collect())
    });
    let window = Window::new(start, rows.collect());
    let state: Vec<&[f32]> = pieces.iter().map(|piece| piece.generator.state()).collect();
    let generator = recipe.restore(range.as_range(), next_row, &state).map_err(ServiceError::internal)?;
    Ok((generator, window))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ledger::{CheckpointStore, piece_object};
    use noise_kernel::JobKey;
    use plan::{Mechanism, Participation, Plan, PlanSpec};
    use proto::JobId;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        args: crate::config::WorkerArgs,
    }

    fn limits() -> Limits {
        Limits::new(node::cpu_pool::CpuPool::new(1).unwrap(), &Flags::parse_from(["worker"]).args)
    }

    fn plan(scale: f64) -> Plan {
        Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: 40,
            noise_multiplier: scale,
            clip_norm: 1.0,
            participation: Participation { min_sep: 10, max_participations: 4 },
            mechanism: Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.2, 0.3] },
            layout: None,
        })
        .unwrap()
    }

    const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 1500 };

    struct Job {
        folder: tempfile::TempDir,
        key: JobKey,
        grant: LeaseGrant,
    }

    impl Job {
        fn new() -> Self {
            let (folder, key) = (tempfile::tempdir().unwrap(), JobKey::from_bytes(&[8; 32]).unwrap());
            let grant = LeaseGrant {
                job: JobId::new("j").unwrap(),
                lineage: proto::Lineage::of_branch(0),
                shard: 0,
                range: RANGE,
                epoch: 1,
                dimension: 1500,
                plan_digest: plan(1.0).digest(),
                key_commitment: key.commitment(),
                next_row: 0,
                store_url: format!("file://{}", folder.path().display()),
                pieces: vec![],
            };
            Self { folder, key, grant }
        }

        fn recipe(&self, plan: &Plan) -> Recipe {
            Recipe::new(plan, &self.key, &self.grant.job, 0).unwrap()
        }

        /// The state of `plan` before row `next_row` as checkpoint `id`, whose header says what `change` makes of it.
        async fn store(
            &mut self,
            id: u64,
            plan: &Plan,
            next_row: u64,
            change: impl FnOnce(&mut ShardHeader),
        ) {
            let recipe = self.recipe(plan);
            let mut generator = recipe.generator(RANGE.as_range()).unwrap();
            generator.skip(next_row).unwrap();
            let mut header = ShardHeader {
                job: "j".into(),
                branch: 0,
                plan_digest: plan.digest(),
                key_commitment: self.key.commitment(),
                stream_version: noise_kernel::STREAM_VERSION,
                range: RANGE,
                next_row,
                window_start: next_row,
                block_state_len: generator.block_state_len() as u64,
                element: proto::ElementType::F32,
            };
            change(&mut header);
            let object = piece_object(&self.grant.job, id, RANGE);
            let values = (generator.state().to_vec(), vec![]);
            let store = CheckpointStore::open(&self.grant.store_url).unwrap();
            let written = store.write_shard(&object, header, &recipe.checkpoint_key, values).await.unwrap();
            self.grant.pieces.push(CheckpointPiece {
                object,
                range: RANGE,
                next_row,
                sha256: written.sha256,
            });
        }

        /// The row that the restored shard makes next, after comparing it with the oracle.
        async fn restored(&self) -> u64 {
            let recipe = self.recipe(&plan(1.0));
            let (mut generator, _) = restore(&self.grant, &recipe, &limits()).await.unwrap();
            let next = generator.next_row();
            let mut row = vec![0f32; RANGE.len() as usize];
            generator.generate(&mut [&mut row]).unwrap();
            let expected = recipe.oracle().unwrap().rows(next..next + 1, RANGE.as_range()).unwrap();
            assert!(row.iter().zip(&expected[0]).all(|(got, expected)| got.to_bits() == expected.to_bits()));
            next
        }
    }

    #[tokio::test]
    async fn the_newest_checkpoint_that_is_whole_is_restored() {
        let mut job = Job::new();
        assert_eq!(job.restored().await, 0);
        job.store(1, &plan(1.0), 5, |_| ()).await;
        job.store(2, &plan(1.0), 9, |_| ()).await;
        assert_eq!(job.restored().await, 9);
        let file = |id: u64| job.folder.path().join(format!("j/{id}/512-1500.shard"));
        let mut bytes = std::fs::read(file(2)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(file(2), &bytes).unwrap();
        assert_eq!(job.restored().await, 5);
        std::fs::write(file(1), &bytes[..middle]).unwrap();
        assert_eq!(job.restored().await, 0);
        std::fs::remove_file(file(1)).unwrap();
        assert_eq!(job.restored().await, 0);
    }

    #[tokio::test]
    async fn what_is_anothers_is_refused_by_name() {
        type Change = fn(&mut ShardHeader);
        let changes: [(&str, Change); 4] = [
            ("branch", |header| header.branch = 1),
            ("plan", |header| header.plan_digest = [7; 32]),
            ("key", |header| header.key_commitment = [7; 32]),
            ("stream version", |header| header.stream_version += 1),
        ];
        for (name, change) in changes {
            let mut job = Job::new();
            job.store(1, &plan(1.0), 5, change).await;
            let recipe = job.recipe(&plan(1.0));
            let read = from_checkpoint(&job.grant.pieces, &job.grant, &recipe, &limits()).await;
            let error = read.err().unwrap().to_string();
            assert!(error.contains(&format!("of another {name}")), "{error}");
            assert_eq!(job.restored().await, 0, "{name}");
        }
        let mut job = Job::new();
        job.store(1, &plan(2.0), 5, |_| ()).await;
        assert_eq!(job.restored().await, 0, "a real checkpoint of another plan");
        // A name that another job's key sealed.
        job.grant.pieces.clear();
        job.store(2, &plan(1.0), 5, |_| ()).await;
        let other = Recipe::new(&plan(1.0), &job.key, &JobId::new("k").unwrap(), 0).unwrap();
        let read = from_checkpoint(&job.grant.pieces, &job.grant, &other, &limits()).await;
        assert!(read.err().unwrap().to_string().contains("another key"));
    }
}
