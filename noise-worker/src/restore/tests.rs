mod on_grid;
use std::{fs, ops::Range, path::PathBuf, time::Duration};

use checkpoint_store::CheckpointStore;
use clap::Parser;
use noise_kernel::JobKey;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{JobId, piece_object};
use tokio::time::{Instant, sleep};

use super::*;
use crate::tests::NONCE;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    args: crate::config::WorkerArgs,
}

fn limits() -> Limits {
    Limits::new(node::process::cpu_pool::CpuPool::new(1).unwrap(), &Flags::parse_from(["worker"]).args)
        .unwrap()
}

fn plan(scale: f64) -> Plan {
    Plan::new(PlanSpec {
        iterations: 600,
        noise_multiplier: scale,
        participation: Participation { min_sep: 10, max_participations: 4 },
        mechanism: Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.2, 0.3] },
        ..crate::tests::plan().spec().clone()
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
        let folder = tempfile::tempdir().unwrap();
        let key = JobKey::from_bytes(&[8; 32]).unwrap();
        let grant = LeaseGrant {
            job: JobId::new("j").unwrap(),
            job_nonce: NONCE,
            ledger: NONCE,
            lineage: proto::Lineage::of_job(NONCE),
            shard: 0,
            range: RANGE,
            epoch: 1,
            dimension: 1500,
            plan_digest: plan(1.0).digest(),
            layout_digest: [0; 32],
            key_commitment: key.commitment(),
            next_row: 0,
            store_url: format!("file://{}", folder.path().display()),
            pieces: vec![],
        };
        Self { folder, key, grant }
    }

    fn spec(&self, plan: &Plan) -> GenerationSpec {
        GenerationSpec::new(plan, &self.key, self.grant.dimension, &self.grant.noise_id()).unwrap()
    }

    /// The state of `plan` before row `next_row` as checkpoint `id`, whose header says what `change` makes of it.
    async fn store(&mut self, id: u64, plan: &Plan, next_row: u64, change: impl FnOnce(&mut ShardHeader)) {
        self.store_piece(id, RANGE, plan, next_row..next_row, change).await;
    }

    /// Of a part of the shard, with the rows `window`, after which it stands.
    async fn store_piece(
        &mut self,
        id: u64,
        range: CoordinateRange,
        plan: &Plan,
        window: Range<u64>,
        change: impl FnOnce(&mut ShardHeader),
    ) {
        let spec = self.spec(plan);
        let mut generator = spec.generator(range.as_range()).unwrap();
        generator.skip(window.end).unwrap();
        let mut header = ShardHeader {
            job: "j".into(),
            branch: 0,
            plan_digest: plan.digest(),
            key_commitment: self.key.commitment(),
            stream_version: noise_kernel::STREAM_VERSION,
            range,
            next_row: window.end,
            window_start: window.start,
            block_state_len: generator.block_state_len() as u64,
            element: proto::ElementType::F32,
        };
        change(&mut header);
        let object = piece_object(&self.grant.job, id, range);
        let rows = spec.oracle().unwrap().rows(window.clone(), range.as_range()).unwrap();
        let store = CheckpointStore::open(&self.grant.store_url).unwrap();
        let values = (generator.state().unwrap().to_vec(), rows);
        let written = store.write_shard(&object, header, &spec.checkpoint_key, values).await.unwrap();
        let next_row = window.end;
        let sha256 = written.sha256;
        self.grant.pieces.push(CheckpointPiece { object, range, next_row, sha256 });
    }

    /// The row that the restored shard makes next, after comparing it with the oracle.
    async fn restored(&self) -> u64 {
        self.restored_with_window().await.end
    }

    /// And the rows that it has, each compared too.
    async fn restored_with_window(&self) -> Range<u64> {
        let spec = self.spec(&plan(1.0));
        let (mut generator, mut window) = restore(&self.grant, &spec, &limits()).await.unwrap();
        let next = generator.next_row();
        let start = if window.len() == 0 { next } else { window.start() };
        let mut row = vec![0f32; self.grant.range.len() as usize];
        generator.generate(&mut [&mut row]).unwrap();
        window.push(Row::new(row));
        let expected = spec.oracle().unwrap().rows(start..next + 1, self.grant.range.as_range()).unwrap();
        assert_eq!(window.len(), expected.len());
        for (row, expected) in window.rows().zip(&expected) {
            assert!(
                row.values().iter().zip(expected).all(|(got, expected)| got.to_bits() == expected.to_bits())
            );
        }
        start..next
    }

    /// What lies where the store was: nothing can be opened there.
    fn take_away(&self) -> PathBuf {
        let folder = self.folder.path();
        let away = self.folder.path().with_extension("away");
        fs::rename(folder, &away).unwrap();
        fs::write(folder, "in its place").unwrap();
        away
    }

    fn bring_back(&self, away: PathBuf) {
        fs::remove_file(self.folder.path()).unwrap();
        fs::rename(away, self.folder.path()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_checkpoint_that_is_whole_is_restored() {
    let mut job = Job::new();
    let begun = Instant::now();
    assert_eq!(job.restored().await, 0);
    job.store(1, &plan(1.0), 5, |_| ()).await;
    job.store(2, &plan(1.0), 9, |_| ()).await;
    assert_eq!(job.restored().await, 9);
    let file = |id: u64| job.folder.path().join(format!("j/{id}/512-1500.shard"));
    let mut bytes = fs::read(file(2)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(file(2), &bytes).unwrap();
    assert_eq!(job.restored().await, 5);
    fs::write(file(1), &bytes[..middle]).unwrap();
    assert_eq!(job.restored().await, 0);
    fs::remove_file(file(1)).unwrap();
    assert_eq!(job.restored().await, 0);
    assert_eq!(begun.elapsed(), Duration::ZERO, "what is damaged or gone is not waited for");
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
        let spec = job.spec(&plan(1.0));
        let read = from_checkpoint(&job.grant.pieces, &job.grant, &spec, &limits()).await;
        let error = read.err().unwrap().to_string();
        assert!(error.contains(&format!("of another {name}")), "{error}");
        assert_eq!(job.restored().await, 0, "{name}");
    }
    let mut job = Job::new();
    job.store(1, &plan(2.0), 5, |_| ()).await;
    assert_eq!(job.restored().await, 0, "a real checkpoint of another plan");
    // What a job of another nonce sealed.
    job.grant.pieces.clear();
    job.store(2, &plan(1.0), 5, |_| ()).await;
    let noise_id = proto::NoiseId::of_job(proto::Nonce::from_bytes([6; 32]));
    let other = GenerationSpec::new(&plan(1.0), &job.key, 1500, &noise_id).unwrap();
    let read = from_checkpoint(&job.grant.pieces, &job.grant, &other, &limits()).await;
    assert!(read.err().unwrap().to_string().contains("another key"));
}

const LEFT: CoordinateRange = CoordinateRange { start: 512, end: 1_024 };
const RIGHT: CoordinateRange = CoordinateRange { start: 1_024, end: 1_500 };

#[tokio::test]
async fn pieces_far_apart_are_joined_at_the_newest_ones_rows() {
    for (left, right, has) in [
        (3..5, 495..500, 495..500),
        (495..500, 3..5, 495..500),
        (3..5, 500..500, 500..500),
        (490..498, 495..500, 495..500),
        (0..9, 4..9, 4..9),
    ] {
        let mut job = Job::new();
        job.store_piece(1, LEFT, &plan(1.0), left.clone(), |_| ()).await;
        job.store_piece(1, RIGHT, &plan(1.0), right.clone(), |_| ()).await;
        assert_eq!(job.restored_with_window().await, has, "{left:?} and {right:?}");
    }
    // A piece by itself keeps all that it has.
    let mut job = Job::new();
    job.store_piece(1, RANGE, &plan(1.0), 2..40, |_| ()).await;
    assert_eq!(job.restored_with_window().await, 2..40);
}

#[test]
fn a_piece_that_is_far_behind_makes_only_the_rows_that_are_kept() {
    let spec = Job::new().spec(&plan(1.0));
    for (next_row, window_start, made) in [(5, 3, 5), (497, 480, 3), (500, 400, 0)] {
        let mut generator = spec.generator(RIGHT.as_range()).unwrap();
        generator.skip(next_row).unwrap();
        let rows = (window_start..next_row).map(|_| Row::new(vec![0.0; RIGHT.len() as usize])).collect();
        let mut piece = Piece { range: RIGHT, generator, window: Window::new(window_start, rows) };
        assert_eq!(piece.catch_up(495, 500).unwrap(), made, "from row {next_row}");
        assert_eq!((piece.window.start(), piece.window.end(), piece.generator.next_row()), (495, 500, 500));
    }
}

#[tokio::test]
async fn a_part_of_a_piece_is_restored_where_a_shard_has_become_smaller() {
    for range in [LEFT, RIGHT] {
        let mut job = Job::new();
        job.store_piece(1, RANGE, &plan(1.0), 4..9, |_| ()).await;
        job.grant.range = range;
        assert_eq!(job.restored_with_window().await, 4..9, "{range}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_minute_is_waited_for() {
    let mut job = Job::new();
    job.store(1, &plan(1.0), 5, |_| ()).await;
    job.store(2, &plan(1.0), 9, |_| ()).await;
    let away = job.take_away();
    let begun = Instant::now();
    let back = async {
        sleep(Duration::from_secs(60)).await;
        job.bring_back(away);
    };
    let (next_row, ()) = tokio::join!(job.restored(), back);
    assert_eq!(next_row, 9);
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_is_given_up_once_for_all_checkpoints() {
    let mut job = Job::new();
    job.store(1, &plan(1.0), 5, |_| ()).await;
    job.store(2, &plan(1.0), 9, |_| ()).await;
    let away = job.take_away();
    let begun = Instant::now();
    assert_eq!(job.restored().await, 0);
    assert_eq!(begun.elapsed().as_secs(), retry_deadline::MAX_WAIT.as_secs());
    job.bring_back(away);
    assert_eq!(job.restored().await, 9);
}

#[tokio::test(start_paused = true)]
async fn no_restore_waits_for_longer_than_a_replay_takes() {
    let mut job = Job::new();
    job.store(2, &plan(1.0), 9, |_| ()).await;
    let spec = job.spec(&plan(1.0));
    let rate = bytes_per_row(&spec, RANGE.len()) as f64 * 9.0 / 10.0;
    let _away = job.take_away();
    let begun = Instant::now();
    let restored = restore(&job.grant, &spec, &limits().with_throughput(rate)).await.unwrap();
    assert_eq!((restored.0.next_row(), begun.elapsed().as_secs()), (0, 10));
}

#[tokio::test]
async fn checkpoints_are_read_in_turn() {
    let mut job = Job::new();
    job.store(1, &plan(1.0), 9, |_| ()).await;
    let limits = limits();
    let spec = job.spec(&plan(1.0));
    let others = limits.restores.acquire_many(crate::limits::MAX_CONCURRENT_READS as u32).await.unwrap();
    let mut restoring = std::pin::pin!(restore(&job.grant, &spec, &limits));
    let early = tokio::time::timeout(Duration::from_millis(300), restoring.as_mut()).await;
    assert!(early.is_err(), "it did not wait for its turn");
    drop(others);
    assert_eq!(restoring.await.unwrap().0.next_row(), 9);
    assert_eq!(limits.restores.available_permits(), crate::limits::MAX_CONCURRENT_READS);
}
