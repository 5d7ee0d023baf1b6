//! The flags of `noise-worker mpi`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, ensure};
use clap::{Args, FromArgMatches, builder::NonEmptyStringValueParser};
use noise_worker::config::WorkerArgs;
use plan::Plan;
use proto::{CoordinateRange, JobId, RowRange};
use url::Url;

use crate::deadlines::TimeLimit;

/// Generate and serve noise under MPI, one shard per rank. Settings of the worker that have no flag here are taken from its
/// environment variables (RUSTLE_WORKER_…)
#[derive(Args, Clone, Debug)]
pub struct MpiArgs {
    /// File of the job's plan
    #[arg(long, required_unless_present = "train")]
    pub plan: Option<PathBuf>,
    /// Coordinates of the flattened parameter vector [default: from the plan's layout]
    #[arg(long, value_name = "M")]
    pub dimension: Option<u64>,
    /// Name of the job
    #[arg(long, default_value = "default")]
    pub job: JobId,
    /// File of the key, 32 raw bytes, mode 0400; read by every noise rank
    #[arg(long, env = "RUSTLE_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Command that prints the key, for a key management service
    #[arg(long, env = "RUSTLE_KEY_COMMAND", conflicts_with = "key_file")]
    pub key_command: Option<String>,
    /// Only the first noise rank reads the key, and sends it to the others over MPI, which does not encrypt
    #[arg(long)]
    pub broadcast_key: bool,
    /// The ledger, opened by the first noise rank; may be a coordinator's while no coordinator runs on it
    #[arg(long, value_name = "FILE", default_value = "rustle-data/ledger.redb")]
    pub ledger: PathBuf,
    /// URL of the checkpoint store, or "none" for no checkpoints [default: the folder `checkpoints` beside the ledger]
    #[arg(long, value_name = "URL")]
    pub checkpoint_url: Option<String>,
    /// Rows between checkpoints; 0 for one at the end only
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub checkpoint_every: u64,
    /// Serve the training ranks of the same launch until all of them are done
    #[arg(long, conflicts_with_all = ["steps", "out", "sha256", "commitment"])]
    pub serve: bool,
    /// Be a training rank: fetch --steps of --range from the noise ranks of the same launch
    #[arg(long, conflicts_with_all = ["serve", "plan", "key_file", "key_command", "broadcast_key"], requires = "steps")]
    pub train: bool,
    /// Receive rows in memory that the training rank shares with the noise ranks of its node
    #[arg(long, requires = "train")]
    pub window: bool,
    /// Rows a..b, counted from 0 [default: from the first that is not bound to the last of the plan; must be given with --out
    /// unless --commitment is]
    #[arg(long, value_name = "A..B", value_parser = rows)]
    pub steps: Option<RowRange>,
    /// Coordinates a..b of a training rank [default: all]
    #[arg(long, value_name = "A..B", value_parser = coordinates, requires = "train")]
    pub range: Option<CoordinateRange>,
    /// Text that the rows are bound to, which names what their noise is added to: with the same text they are served again,
    /// another is refused [default: one drawn for --out, kept in FILE.commitment until that is whole; without --out one of the
    /// job, beside the ledger]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), required_if_eq("train", "true"))]
    pub commitment: Option<String>,
    /// The .npy file to write, of shape (rows, coordinates): float32, or int32 where the plan is on a grid
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write no file, and report the SHA-256 of all values
    #[arg(long, conflicts_with = "out")]
    pub sha256: bool,
    /// Folder of the ranks' logs of released rows, one folder per rank; `none` for no logs
    #[arg(long, env = "RUSTLE_WORKER_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Threads that generate noise in each rank; 0 for an equal share of the cores of a node
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Maximum number of rows generated ahead of demand
    #[arg(long, default_value_t = 8)]
    pub ahead_rows: u64,
    /// How long to wait for other ranks at every step; a launch that takes longer is ended
    #[arg(long, default_value = "120s", value_parser = duration)]
    pub time_limit: Duration,
}

fn span(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or_else(|| format!("{text:?} is no range; allowed: a..b, as in 0..8"))
}

fn rows(text: &str) -> Result<RowRange, String> {
    span(text).and_then(|(start, end)| RowRange::new(start, end).map_err(|error| error.to_string()))
}

fn coordinates(text: &str) -> Result<CoordinateRange, String> {
    span(text).and_then(|(start, end)| CoordinateRange::new(start, end).map_err(|error| error.to_string()))
}

fn duration(text: &str) -> Result<Duration, String> {
    match node::config::units::parse_duration(text) {
        Ok(time) if time >= Duration::from_millis(100) => Ok(time),
        Ok(time) => Err(format!("{time:?} is too short; allowed: 100ms or longer")),
        Err(error) => Err(error.to_string()),
    }
}

impl MpiArgs {
    /// Fails where the rows of a drawn commitment would depend on where the ledger stands: after a crash the same launch would
    /// write other rows to the same file.
    pub fn check(&self) -> anyhow::Result<()> {
        let names_rows = self.steps.is_some() || self.commitment.is_some() || self.out.is_none();
        ensure!(
            names_rows,
            "--out is given without --steps and --commitment; allowed: --steps A..B, so that the same launch after a crash \
             gets the same rows, or --commitment TEXT"
        );
        Ok(())
    }

    /// Returns how long to wait for other ranks.
    pub fn limit(&self) -> TimeLimit {
        TimeLimit(self.time_limit)
    }

    /// Returns the file beside which a commitment of a launch by itself is kept: its output, or the job's name in the folder
    /// of the ledger, where no row leaves the launch.
    pub fn commitment_place(&self) -> PathBuf {
        let in_ledger_folder = || self.ledger.with_file_name(format!("launch-{}", self.job));
        self.out.clone().unwrap_or_else(in_ledger_folder)
    }

    /// Reads the plan. Fails where there is none or it is not valid.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        Ok(Plan::from_path(self.plan.as_ref().context("--plan is missing")?)?)
    }

    /// Returns the dimension that the flag or the plan's layout sets. Fails where they differ or neither does.
    pub fn dimension(&self, plan: &Plan) -> anyhow::Result<u64> {
        release::job::dimension(self.dimension, plan).map_err(|error| anyhow!("--{error}"))
    }

    /// Returns the URL of the checkpoint store; `None` for no checkpoints.
    pub fn store_url(&self) -> anyhow::Result<Option<String>> {
        match self.checkpoint_url.as_deref() {
            Some("none") => Ok(None),
            Some(url) => Ok(Some(url.to_owned())),
            None => {
                let ledger = std::path::absolute(&self.ledger)?;
                let folder = ledger.with_file_name("checkpoints");
                let url = Url::from_file_path(&folder);
                Ok(Some(url.map_err(|()| anyhow!("{} has no URL", folder.display()))?.into()))
            }
        }
    }

    /// Returns the worker's settings, with those that have a flag here replaced.
    pub fn worker(&self, ranks_on_node: usize) -> anyhow::Result<WorkerArgs> {
        let command = WorkerArgs::augment_args(clap::Command::new("noise-worker"));
        let mut worker = WorkerArgs::from_arg_matches(&command.try_get_matches_from(["noise-worker"])?)?;
        ensure!(ranks_on_node > 0, "a node without ranks");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        worker.threads = if self.threads == 0 { (cores / ranks_on_node).max(1) } else { self.threads };
        worker.ahead_rows = self.ahead_rows;
        worker.key_file = self.key_file.clone();
        worker.key_command = self.key_command.clone();
        Ok(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(more: &str) -> Result<MpiArgs, clap::Error> {
        let command = MpiArgs::augment_args(clap::Command::new("mpi"));
        let words = ["mpi", "--plan", "p"].into_iter().chain(more.split_whitespace());
        MpiArgs::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn a_file_under_a_drawn_commitment_has_its_rows_named() {
        let refused = parsed("--out x.npy").unwrap().check().unwrap_err().to_string();
        assert!(refused.contains("--steps") && refused.contains("--commitment"), "{refused}");
        for good in ["--out x.npy --steps 0..8", "--out x.npy --commitment a", "--sha256", "--serve", ""] {
            parsed(good).unwrap().check().unwrap();
        }
    }

    #[test]
    fn a_commitment_has_a_text() {
        assert!(parsed("--commitment=").is_err());
        assert_eq!(parsed("--commitment a").unwrap().commitment.as_deref(), Some("a"));
    }
}
