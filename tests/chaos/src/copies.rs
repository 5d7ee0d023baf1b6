//! Copies of the ledger that run beside the original or in its place: they bind nothing until they are adopted, and then have
//! noise of their own. And ledgers that are deleted, and begun anew on request alone.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use dice::Dice;
use ledger::Ledger;
use proto::Commitment;
use rustix::process::Signal;

use crate::{
    calls,
    cases::{Case, ROWS},
    cluster::LEASE_TTL,
    damage::write,
    fresh_noise::Both,
    history::Violation,
    nemesis::Nemesis,
    side_cluster::{SideFolder, copy_folder, session_with, signal, succeeds},
};

/// Longer than a coordinator binds without an answer of its anchor's store, which is four of these leases, and than one that
/// finds the anchor held watches it, which is five.
pub const BEYOND_LEASE: Duration = LEASE_TTL.saturating_mul(6);
/// A coordinator that has not found its ledger to be a copy by then does not.
const FOUND: Duration = Duration::from_secs(60);
/// Rows that are tried, of each job.
const TRIED: u64 = 3;
const AGAIN: Duration = Duration::from_millis(100);

impl Nemesis<'_> {
    /// A copy of the ledger that was taken while it was open, and a coordinator on it: beside the original, beside the
    /// original while that is stopped past its lease, in the original's place with its workers, or adopted.
    pub fn copied_ledger(&mut self, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        let side = SideFolder::new(self.cluster)?;
        write(&side.data_dir().join("ledger.redb"), &Ledger::backup(&self.ledger())?)?;
        let has_anchor = dice.one_in(2);
        for anchor in self.anchors()?.into_iter().filter(|_| has_anchor) {
            fs::copy(&anchor, side.data_dir().join(anchor.file_name().unwrap_or_default()))?;
        }
        let anchor = if has_anchor { "with its anchor" } else { "without its anchor" };
        let what = match turn % 4 {
            0 => self.beside(&side),
            1 => self.beside_stopped(&side),
            2 => self.in_place(&side),
            _ => self.adopted(&side),
        };
        Ok(format!("ledger copied {anchor}, {}", what?))
    }

    fn beside(&mut self, side: &SideFolder) -> anyhow::Result<String> {
        let copy = side.coordinator(&side.options.listen)?;
        let refused = self.expect_refused(copy.grpc())?;
        copy.kill()?;
        Ok(format!("runs beside the original; {refused} bindings refused"))
    }

    fn beside_stopped(&mut self, side: &SideFolder) -> anyhow::Result<String> {
        let stop = |nemesis: &Self, with| {
            signal(nemesis.cluster.processes.coordinator().context("the coordinator runs")?, with)
        };
        stop(self, Signal::STOP)?;
        let tried = side.coordinator(&side.options.listen).and_then(|copy| {
            let refused = self.expect_refused(copy.grpc())?;
            sleep(BEYOND_LEASE);
            let refused = refused + self.expect_refused(copy.grpc())?;
            copy.kill()?;
            Ok(refused)
        });
        stop(self, Signal::CONT)?;
        Ok(format!("runs beside the original, which was stopped; {} bindings refused", tried?))
    }

    /// At the address of the original, which was killed: its workers and training jobs come to the copy.
    fn in_place(&mut self, side: &SideFolder) -> anyhow::Result<String> {
        let url = self.cluster.processes.url();
        self.cluster.kill_coordinator();
        let copy = side.coordinator(url.trim_start_matches("http://"))?;
        let refused = self.expect_refused(&url)?;
        // So that the workers have tried to register.
        sleep(LEASE_TTL);
        let refused = refused + self.expect_refused(&url)?;
        copy.kill()?;
        Ok(format!("runs in the original's place; {refused} bindings refused"))
    }

    /// With copies of the workers' records, and workers of its own; the original continues.
    fn adopted(&mut self, side: &SideFolder) -> anyhow::Result<String> {
        side.copy_records(self.cluster)?;
        let adopted =
            succeeds(&self.cluster.program, &["ledger", "adopt", "--yes", "--data-dir"], &side.data_dir())?;
        ensure!(adopted, "a copy can't be adopted");
        let made = self.on_side(side, async |both, case| both.adopted(case).await)?;
        Ok(format!("and adopted; {made} fresh rows"))
    }

    /// Does that with each job on a cluster beside, and takes what is seen there. Returns how many fresh rows were made.
    fn on_side(
        &mut self,
        side: &SideFolder,
        work: impl AsyncFn(&Both<'_>, &Case) -> anyhow::Result<u64>,
    ) -> anyhow::Result<u64> {
        let processes = side.cluster()?;
        let session = self.session;
        let round = self.figures.rounds;
        let made = self.runtime.clone().block_on(async {
            let beside = session_with(&processes.url())?;
            let both = Both { main: session, side: &beside, round };
            let mut made = 0;
            for case in session.cases.lasting() {
                made += work(&both, &case).await?;
            }
            for (broken, text) in beside.history.take_violations() {
                session.history.violation(broken, text);
            }
            anyhow::Ok(made)
        })?;
        ensure!(made > 0, "no row was made beside");
        self.figures.fresh_rows += made;
        Ok(made)
    }

    /// The ledger's file is deleted: beside its anchor, where nothing starts and none is begun; or in a copy of the folders, with the
    /// anchor too, where one is begun by a command and has other noise.
    pub fn deleted_ledger(&mut self, turn: u64) -> anyhow::Result<String> {
        if !turn.is_multiple_of(2) {
            let side = SideFolder::new(self.cluster)?;
            side.copy_records(self.cluster)?;
            self.expect_not_started(side.coordinator(&side.options.listen).is_ok());
            let begun = succeeds(&self.cluster.program, &["ledger", "init", "--data-dir"], &side.data_dir())?;
            ensure!(begun, "a ledger can't be begun in an empty folder");
            let made = self.on_side(&side, async |both, case| both.anew(case).await)?;
            return Ok(format!("ledger deleted, and another one begun; {made} fresh rows"));
        }
        self.cluster.kill_coordinator();
        let ledger = self.ledger();
        let kept = ledger.with_file_name("kept");
        fs::rename(&ledger, &kept)?;
        let is_started = self.cluster.processes.start_coordinator().is_ok();
        self.expect_not_started(is_started);
        self.cluster.kill_coordinator();
        let begun =
            succeeds(&self.cluster.program, &["ledger", "init", "--data-dir"], &self.environment.data_dir())?;
        if begun {
            self.session.history.violation(Violation::Served, "a ledger was begun beside an anchor");
        } else {
            self.figures.refused_on_copy("not_begun");
        }
        fs::rename(&kept, &ledger)?;
        Ok("ledger deleted; neither started nor begun again".into())
    }

    fn expect_not_started(&mut self, is_started: bool) {
        if is_started {
            self.session.history.violation(Violation::Served, "a coordinator started without its ledger");
        } else {
            self.figures.refused_on_copy("not_started");
        }
    }

    /// The workers' records are put back from a copy taken earlier, or each worker has those of another one. The ledger knows
    /// more than they do, and all continues.
    pub fn old_records(&mut self, turn: u64) -> anyhow::Result<String> {
        let folder = self.cluster.options.dir.join("workers");
        let kept = self.cluster.options.dir.join("records");
        copy_folder(&folder, &kept)?;
        self.await_bound(10)?;
        let workers = self.cluster.workers;
        (0..workers).for_each(|worker| self.cluster.kill_worker(worker));
        let others = u64::is_multiple_of(turn, 2);
        for worker in 0..workers {
            let from = if others { worker } else { (worker + 1) % workers };
            let own = folder.join(format!("worker-{worker}"));
            fs::remove_dir_all(&own)?;
            copy_folder(&kept.join(format!("worker-{from}")), &own)?;
        }
        fs::remove_dir_all(kept)?;
        Ok(if others { "records of workers put back" } else { "records of workers exchanged" }.into())
    }

    /// Tries to bind the next rows of each job to other commitments, until the coordinator has found that its ledger is a copy or
    /// an old one. Returns how many bindings were refused.
    pub fn expect_refused(&mut self, url: &str) -> anyhow::Result<u64> {
        let began = Instant::now();
        let mut refused = 0;
        loop {
            let answers = self.try_to_bind(url)?;
            let kinds: Vec<_> = answers.iter().filter_map(|answer| answer.err()).collect();
            kinds.iter().for_each(|kind| self.figures.refused_on_copy(kind));
            refused += kinds.len() as u64;
            if kinds.len() < answers.len() {
                let text = format!("rows were bound on a copy: {answers:?}");
                self.session.history.violation(Violation::Doubled, text);
                return Ok(refused);
            }
            if kinds.iter().any(|kind| ["ledger_copied", "ledger_behind"].contains(kind)) {
                return Ok(refused);
            }
            ensure!(began.elapsed() < FOUND, "a copy was not found to be one within {FOUND:?}: {answers:?}");
            sleep(AGAIN);
        }
    }

    /// Returns the kinds of the errors.
    pub fn try_to_bind(&self, url: &str) -> anyhow::Result<Vec<Result<(), &'static str>>> {
        let session = self.session;
        self.runtime.block_on(async {
            let thief = session_with(url)?;
            let mut answers = Vec::new();
            for case in session.cases.lasting() {
                let next = session.history.acked_rows(&case.job).last().map_or(0, |(row, _)| row + 1);
                for row in next..(next + TRIED).min(ROWS) {
                    let of = Commitment::of_text(&format!("thief {} {row}", case.job));
                    let bound = calls::bind(&thief, &case.job, 0, row, of).await;
                    answers.push(bound.map(drop).map_err(|error| error.kind()));
                }
            }
            Ok(answers)
        })
    }

    /// Waits until the training jobs have bound so many more rows.
    pub fn await_bound(&self, rows: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        let before = self.session.history.rows();
        while self.session.history.rows() < before + rows {
            ensure!(began.elapsed() < FOUND, "fewer than {rows} rows were bound within {FOUND:?}");
            sleep(AGAIN);
        }
        Ok(())
    }
}
