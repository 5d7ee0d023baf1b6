//! A coordinator ended while it makes its ledger, or raises one of an older format: the next start has all of it.

use std::{fs, path::Path};

use anyhow::ensure;
use dice::Dice;
use ledger::Ledger;
use proto::{CommitmentKind, JobId};
use rustle::cluster::{ClusterOptions, LocalCluster};
use tempfile::TempDir;

use crate::{
    KEY,
    points::{FOLDER, FOLDER_PASSES, Point},
};

/// Jobs a, b and c, rows 0..20 and 30..33 of each bound.
const FORMAT_1: &[u8] = include_bytes!("../../../ledger/tests/data/format-1.redb");

/// Not the session's cluster: a coordinator of its own, twice. From the program's first thread.
pub fn end_at(program: &Path, point: &Point, dice: &mut Dice) -> anyhow::Result<String> {
    let folder = TempDir::new()?;
    let ledger = folder.path().join("coordinator/ledger.redb");
    let asked = folder.path().join("end");
    let is_old = point.name.contains("migrate");
    if is_old {
        fs::create_dir_all(folder.path().join("coordinator"))?;
        fs::write(&ledger, FORMAT_1)?;
    }
    let mut options = ClusterOptions::new(program.to_owned(), folder.path().to_owned(), 0);
    options.environment.push(("RUSTLE_END_AT".into(), asked.display().to_string()));
    let before = match point.name.as_str() {
        // The first time of an old ledger is the check on a copy.
        _ if is_old => dice.below(2),
        FOLDER => dice.below(FOLDER_PASSES),
        _ => 0,
    };
    fs::write(&asked, format!("{} {before}", point.name))?;
    ensure!(LocalCluster::start(options.clone(), KEY).is_err(), "{} was not reached", point.name);
    ensure!(!asked.exists(), "the coordinator ended before {}", point.name);
    // The jobs of the old ledger are of no plan that a coordinator could read.
    if !is_old {
        drop(LocalCluster::start(options, KEY)?);
    }
    let opened = Ledger::open(&ledger)?;
    for job in if is_old { &["a", "b", "c"][..] } else { &[] } {
        let bound = opened.bindings(&JobId::new(*job)?, 0, 0..100)?;
        let is_whole = bound.len() == 23 && bound.iter().all(|(_, of)| of.kind == CommitmentKind::Declared);
        ensure!(is_whole, "job {job} has {} bindings of 23 after {}", bound.len(), point.name);
    }
    Ok(format!("coordinator ended at {}, as it starts for the first time, without company", point.name))
}
