//! A process ended while it begins a ledger, or starts on it for the first time: there is no ledger then or a whole
//! one, and beginning again makes one where there is none and is refused where there is.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, ensure};
use dice::Dice;
use ledger::Ledger;
use rustle::cluster::{ClusterOptions, LocalCluster};
use tempfile::TempDir;

use crate::{
    KEY,
    points::{FOLDER, FOLDER_PASSES_OF_INIT, Point},
};

/// A folder of a cluster without workers.
struct NewCluster<'a> {
    program: &'a Path,
    folder: TempDir,
}

/// Not the session's cluster: a ledger and a coordinator of its own. From the program's first thread.
pub fn end_at(program: &Path, point: &Point, dice: &mut Dice) -> anyhow::Result<String> {
    let cluster = NewCluster { program, folder: TempDir::new()? };
    // The last pass is that of the coordinator.
    let before = if point.name == FOLDER { dice.below(FOLDER_PASSES_OF_INIT + 1) } else { 0 };
    let ended = if before < FOLDER_PASSES_OF_INIT {
        cluster.end_init(&point.name, before)?;
        format!("a process ended at {}, as it begins a ledger", point.name)
    } else {
        cluster.end_first_start(&point.name)?;
        format!("coordinator ended at {}, as it starts for the first time", point.name)
    };
    let id = Ledger::open(&cluster.ledger())?.id()?;
    drop(LocalCluster::start(cluster.options(), KEY)?);
    ensure!(Ledger::open(&cluster.ledger())?.id()? == id, "another ledger after {}", point.name);
    Ok(format!("{ended}, without company"))
}

impl NewCluster<'_> {
    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("coordinator")
    }

    fn ledger(&self) -> PathBuf {
        self.data_dir().join("ledger.redb")
    }

    /// The file that says where the next process ends.
    fn requested(&self) -> PathBuf {
        self.folder.path().join("end")
    }

    fn options(&self) -> ClusterOptions {
        let mut options = ClusterOptions::new(self.program.to_owned(), self.folder.path().to_owned(), 0);
        options.environment.push(("RUSTLE_END_AT".into(), self.requested().display().to_string()));
        options
    }

    /// Begins the ledger by the command for it.
    fn init(&self) -> anyhow::Result<Output> {
        let mut command = Command::new(self.program);
        command.args(["ledger", "init", "--data-dir"]).arg(self.data_dir());
        let output = command.env("RUSTLE_END_AT", self.requested()).output();
        output.with_context(|| format!("run {}", self.program.display()))
    }

    fn end_init(&self, point: &str, before: u64) -> anyhow::Result<()> {
        fs::write(self.requested(), format!("{point} {before}"))?;
        let ended = self.init()?.status;
        ensure!(!ended.success() && !self.requested().exists(), "{point} was not reached: {ended}");
        let id = self.id_if_begun()?;
        let again = self.init()?;
        let said = String::from_utf8_lossy(&again.stderr);
        let is_begun = id.is_some();
        ensure!(
            again.status.success() != is_begun,
            "after {point}, there is a ledger: {is_begun}, and: {said}"
        );
        ensure!(id.is_none() || self.id_if_begun()? == id, "the ledger was replaced after {point}");
        Ok(())
    }

    fn end_first_start(&self, point: &str) -> anyhow::Result<()> {
        let begun = self.init()?;
        ensure!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
        fs::write(self.requested(), format!("{point} 0"))?;
        ensure!(LocalCluster::start(self.options(), KEY).is_err(), "{point} was not reached");
        ensure!(!self.requested().exists(), "the coordinator ended before {point}");
        Ok(())
    }

    /// A ledger under its name must be whole.
    fn id_if_begun(&self) -> anyhow::Result<Option<proto::Nonce>> {
        let path = self.ledger();
        if !path.try_exists()? {
            return Ok(None);
        }
        Ok(Some(Ledger::open(&path)?.id()?))
    }
}
