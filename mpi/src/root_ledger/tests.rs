//! The first noise rank's ledger without MPI: what the ranks' own records refuse, and what is written then.

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Command, FromArgMatches};
use noise_worker::release_log::{ReleaseLog, ReleasedRow};
use proto::model::JobIdentity;
use tempfile::TempDir;

use super::*;
use crate::{Rank, watermark_exchange::WatermarkSender};

/// The rank whose log this is.
const RANK: Rank = 3;

fn job() -> JobId {
    JobId::new("job").unwrap()
}

fn key() -> JobKey {
    JobKey::from_bytes(&[7; 32]).unwrap()
}

fn plan() -> Plan {
    let text = r#"
format = 1
stream_version = 3
iterations = 8
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
min_sep = 4
max_participations = 2
[mechanism]
name = "blt"
theta = [0.9, 0.5]
omega = [0.1, 0.2]
"#;
    Plan::from_toml_str(text).unwrap()
}

struct Launch {
    folder: TempDir,
    /// The log of the rank, whichever ledger it meets.
    log: Arc<ReleaseLog>,
}

impl Launch {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), log: Arc::new(ReleaseLog::open(None).unwrap()) }
    }

    fn path(&self, ledger: &str) -> PathBuf {
        self.folder.path().join(ledger)
    }

    /// Begins a launch of `ranks` on a ledger, with the contents of the rank's log.
    fn open(&self, ledger: &str, ranks: u64, flags: &[&str]) -> anyhow::Result<RootLedger> {
        let path = self.path(ledger);
        if !path.exists() {
            Ledger::init(&path, proto::Nonce::from_bytes([1; 32])).unwrap();
        }
        let path = path.display().to_string();
        let words =
            ["mpi", "--plan", "unread", "--job", job().as_str(), "--ledger", &path].map(str::to_owned);
        let words = words.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned()));
        let args = MpiArgs::augment_args(Command::new("mpi")).get_matches_from(words);
        let args = MpiArgs::from_arg_matches(&args).unwrap();
        let ranges = (0..ranks).map(|rank| CoordinateRange { start: 512 * rank, end: 512 * (rank + 1) });
        let mut watermarks = Watermarks::default();
        watermarks.take([(RANK, WatermarkSender::new(&self.log, &job()).next_part())]);
        RootLedger::open(&args, &plan(), &key(), &ranges.collect::<Vec<_>>(), &watermarks)
    }

    /// The job as the ledger has it, which no launch has open.
    fn identity(&self, ledger: &str) -> JobIdentity {
        let ledger = Ledger::open(&self.path(ledger)).unwrap();
        let record = ledger.job(&job()).unwrap().unwrap();
        JobIdentity { ledger: ledger.id().unwrap(), nonce: record.nonce, job: job() }
    }

    /// The rank releases a row of the ledger's job.
    async fn release(&self, ledger: &str, branch: u64, row: u64) {
        self.release_under(self.identity(ledger), branch, row, "a").await;
    }

    async fn release_under(&self, job: JobIdentity, branch: u64, row: u64, text: &str) {
        let row = ReleasedRow { branch, row, commitment: Commitment::of_text(text) };
        self.log.clone().record(job, branch, vec![row]).await.unwrap();
    }
}

fn bind(root_ledger: &RootLedger, rows: std::ops::Range<u64>) {
    rows.for_each(|row| root_ledger.bind(row, root_ledger.branch(), Commitment::of_text("a")).unwrap());
}

#[track_caller]
fn is_behind(opened: anyhow::Result<RootLedger>, words: &[&str]) {
    let error = opened.map(|_| "it was opened").unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(LedgerError::Behind { .. })), "{error:#}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

/// Returns everything that the ledger has of the job.
fn contents(ledger: PathBuf) -> String {
    let ledger = Ledger::open(&ledger).unwrap();
    let record = ledger.job(&job()).unwrap();
    let of_job = record.is_some().then(|| (ledger.head(&job()).unwrap(), ledger.shards(&job()).unwrap()));
    format!("{record:?} {of_job:?}")
}

fn next_epoch(ledger: PathBuf) -> u64 {
    Ledger::open(&ledger).unwrap().next_coordinator_epoch().unwrap()
}

/// The old copy of the ledger and the rank's record agree on the current branch. The record also has rows of the branch
/// before, which the copy never bound.
#[tokio::test]
async fn an_old_ledger_is_found_by_a_branch_that_was_left() {
    let launch = Launch::new();
    let mut root_ledger = launch.open("old", 1, &[]).unwrap();
    bind(&root_ledger, 0..3);
    root_ledger.rewind(1).unwrap();
    bind(&root_ledger, 1..3);
    drop(root_ledger);
    for (branch, row) in [(0, 2), (1, 1), (1, 2)] {
        launch.release("old", branch, row).await;
        launch.open("old", 1, &[]).expect("the ledger knows that row");
    }
    let launch = Launch { log: Arc::new(ReleaseLog::open(None).unwrap()), ..launch };
    for (branch, row) in [(0, 4), (1, 2)] {
        launch.release("old", branch, row).await;
    }
    is_behind(
        launch.open("old", 1, &[]),
        &["ledger knows branch 0 up to row 3", "rank 3", "branch 0 up to row 5"],
    );
}

#[tokio::test]
async fn a_branch_that_the_ledger_does_not_know_is_missed() {
    let launch = Launch::new();
    bind(&launch.open("ledger", 1, &[]).unwrap(), 0..3);
    let job = launch.identity("ledger");
    launch.log.observe(job.ledger, 1, vec![(job, 2)]).await.unwrap();
    is_behind(launch.open("ledger", 1, &[]), &["knows branch 0 up to row 3", "seen branch 2 up to row 0"]);
}

/// The old copy has bound as many rows since, under other commitments: the heights agree.
#[tokio::test]
async fn a_ledger_that_bound_the_rows_anew_is_found_and_one_of_another_id_is_not_meant() {
    let launch = Launch::new();
    bind(&launch.open("ledger", 1, &[]).unwrap(), 0..3);
    let job = launch.identity("ledger");
    let elsewhere = JobIdentity { ledger: proto::Nonce::from_bytes([9; 32]), ..job.clone() };
    launch.release_under(elsewhere, 7, 500, "b").await;
    launch.open("ledger", 1, &[]).expect("that was another ledger");
    launch.release_under(job, 0, 2, "b").await;
    is_behind(launch.open("ledger", 1, &[]), &["rank 3", "row 2 of branch 0 under the commitment"]);
}

#[tokio::test]
async fn a_launch_that_is_refused_leaves_the_ledger_as_it_was() {
    let launch = Launch::new();
    bind(&launch.open("ledger", 1, &[]).unwrap(), 0..3);
    let before = contents(launch.path("ledger"));
    assert!(launch.open("ledger", 2, &["--checkpoint-url", "nowhere://x"]).is_err());
    assert_eq!(contents(launch.path("ledger")), before, "nowhere to put checkpoints");
    launch.release("ledger", 0, 3).await;
    is_behind(launch.open("ledger", 2, &[]), &["seen branch 0 up to row 4"]);
    assert_eq!(contents(launch.path("ledger")), before);
    assert_eq!(next_epoch(launch.path("ledger")), 2, "after that of the one launch that began");

    is_behind(launch.open("lost", 2, &[]), &["the ledger knows nothing"]);
    assert_eq!(contents(launch.path("lost")), "None None", "the job is not begun anew");
    assert_eq!(next_epoch(launch.path("lost")), 1);
}
