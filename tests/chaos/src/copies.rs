//! Faults of the ledger's file, and of the store that keeps its anchor: a copy on which a second coordinator runs, an old copy
//! in its place, a file that is deleted, a store that is gone or can't be written to. In none of them is a row bound but by
//! the one that has the ledger.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use client::{Client, Connections};
use dice::Dice;
use durable_io::create_private_folder;
use ledger::Ledger;
use node::net::dial::DialOptions;
use proto::{Commitment, RowRange, ServiceError};
use rustix::process::Signal;
use rustle::cluster::{ClusterOptions, Process};

use crate::{
    calls::in_time, cases::ROWS, cluster::LEASE_TTL, damage::write, environment::run, history::Violation,
    nemesis::Nemesis,
};

/// Longer than a coordinator binds without an answer of its anchor's store: that is four of these leases.
const BEYOND_LEASE: Duration = LEASE_TTL.saturating_mul(5);
/// Rows that are tried, of each job.
const TRIED: u64 = 3;

impl Nemesis<'_> {
    /// A copy of the ledger's file, with the anchor beside it or without, on which a second coordinator runs. The original is
    /// stopped meanwhile for longer than its lease, every other time, and woken.
    pub fn copied_ledger(&mut self, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        let has_anchor = dice.one_in(2);
        let is_frozen = !turn.is_multiple_of(2);
        let options = ClusterOptions { dir: self.cluster.dir().join("copy"), ..self.cluster.options.clone() };
        let data = options.dir.join("coordinator");
        create_private_folder(&data)?;
        write(&data.join("ledger.redb"), &Ledger::backup(&self.ledger())?)?;
        for anchor in self.anchors()?.into_iter().filter(|_| has_anchor) {
            fs::copy(&anchor, data.join(anchor.file_name().unwrap_or_default()))?;
        }
        if is_frozen {
            self.signal_coordinator(Signal::STOP)?;
        }
        let tried = self.try_on_copy(&options, is_frozen);
        if is_frozen {
            self.signal_coordinator(Signal::CONT)?;
        }
        fs::remove_dir_all(&options.dir)?;
        let anchor = if has_anchor { "with its anchor" } else { "without its anchor" };
        let frozen = if is_frozen { ", the original stopped" } else { "" };
        Ok(format!("ledger copied {anchor}{frozen}; {} bindings refused there", tried?))
    }

    /// Starts a coordinator on the copy, and tries to bind there. Returns how many bindings were refused.
    fn try_on_copy(&mut self, options: &ClusterOptions, is_long: bool) -> anyhow::Result<u64> {
        let mut flags = vec![
            "coordinator".to_owned(),
            "--listen".to_owned(),
            options.listen.clone(),
            "--data-dir".to_owned(),
        ];
        flags.push(options.dir.join("coordinator").display().to_string());
        flags.extend(options.coordinator_flags.clone());
        let copy = Process::start(options, "copy", flags, None)?;
        let mut refused = self.expect_refused_as_copy(copy.grpc())?;
        if is_long {
            sleep(BEYOND_LEASE);
            refused += self.expect_refused_as_copy(copy.grpc())?;
        }
        copy.kill()?;
        Ok(refused)
    }

    /// An old copy in place of the ledger: in its file, or in another one of its name.
    pub fn old_ledger(&mut self, dice: &mut Dice) -> anyhow::Result<String> {
        let is_other_file = dice.one_in(2);
        let ledger = self.ledger();
        self.cluster.kill_coordinator();
        let old = fs::read(&ledger)?;
        self.cluster.mend()?;
        self.await_bound(10)?;
        self.cluster.kill_coordinator();
        let current = fs::read(&ledger)?;
        let kept = ledger.with_file_name("kept");
        if is_other_file {
            fs::rename(&ledger, &kept)?;
        }
        write(&ledger, &old)?;
        self.cluster.processes.start_coordinator()?;
        let refused = self.expect_refused_as_copy(&self.cluster.processes.url())?;
        self.cluster.kill_coordinator();
        if is_other_file {
            fs::rename(&kept, &ledger)?
        } else {
            write(&ledger, &current)?
        }
        let place = if is_other_file { "as another file" } else { "in its file" };
        Ok(format!("old ledger put back {place}; {refused} bindings refused"))
    }

    /// The ledger's file is deleted: no coordinator starts, and none begins a new one.
    pub fn deleted_ledger(&mut self) -> anyhow::Result<String> {
        self.cluster.kill_coordinator();
        let ledger = self.ledger();
        let kept = ledger.with_file_name("kept");
        fs::rename(&ledger, &kept)?;
        if self.cluster.processes.start_coordinator().is_ok() {
            self.cluster.kill_coordinator();
            self.session.history.violation(Violation::Served, "a coordinator started without its ledger");
        }
        let begun = Command::new(&self.cluster.program)
            .args(["ledger", "init", "--data-dir"])
            .arg(self.environment.data_dir())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if begun.success() {
            self.session.history.violation(Violation::Served, "a ledger was begun beside an anchor");
            fs::remove_file(&ledger)?;
        }
        fs::rename(&kept, &ledger)?;
        Ok("ledger deleted; not begun again".into())
    }

    /// The store that keeps the anchor is gone, or can't be written to, for longer than the lease.
    pub fn store_gone(&mut self, turn: u64) -> anyhow::Result<String> {
        let store = self.environment.store();
        let is_read_only = !turn.is_multiple_of(2) && make_read_only(&store).is_ok();
        let gone = store.with_file_name("store.gone");
        if !is_read_only {
            fs::rename(&store, &gone)?;
            // So that nothing makes it anew.
            fs::write(&store, "")?;
        }
        sleep(BEYOND_LEASE + Duration::from_secs(1));
        let tried = self.try_to_bind(&self.cluster.processes.url());
        if is_read_only {
            run(&["umount", &store.display().to_string()])?;
        } else {
            fs::remove_file(&store)?;
            fs::rename(&gone, &store)?;
        }
        let answers = tried?;
        let bound = answers.iter().filter(|answer| answer.is_ok()).count();
        if bound > 0 {
            let text = format!("{bound} rows were bound without a lease of the anchor");
            self.session.history.violation(Violation::Served, text);
        }
        self.figures.unanchored_refused += (answers.len() - bound) as u64;
        let how = if is_read_only { "read-only" } else { "gone" };
        Ok(format!("anchor's store {how}; {} bindings refused", answers.len() - bound))
    }

    /// Checks that a coordinator binds nothing since its ledger is a copy. Returns how many bindings were refused for that.
    fn expect_refused_as_copy(&mut self, url: &str) -> anyhow::Result<u64> {
        let answers = self.try_to_bind(url)?;
        let copied = answers.iter().filter(|answer| matches!(answer, Err(ServiceError::LedgerCopied { .. })));
        let refused = copied.count() as u64;
        if answers.iter().any(Result::is_ok) {
            self.session
                .history
                .violation(Violation::Doubled, format!("rows were bound on a copy: {answers:?}"));
        }
        ensure!(refused > 0, "no binding was refused as on a copy: {answers:?}");
        self.figures.copies_refused += refused;
        Ok(refused)
    }

    /// Tries to bind the next rows of each job to another commitment, over the coordinator at that URL.
    fn try_to_bind(&self, url: &str) -> anyhow::Result<Vec<Result<(), ServiceError>>> {
        let dialing = DialOptions { insecure: true, ..DialOptions::default() };
        let session = self.session;
        self.runtime.block_on(async {
            let client = Client::with_connections(url, Connections::dialing(dialing))?;
            let mut answers = Vec::new();
            for case in session.cases.lasting() {
                let next = session.history.acked_rows(&case.job).last().map_or(0, |(row, _)| row + 1);
                for row in next..(next + TRIED).min(ROWS) {
                    let commitments = [Commitment::of_text(&format!("copy {} {row}", case.job))];
                    let rows = RowRange { start: row, end: row + 1 };
                    let bound = in_time(client.bind(&case.job, 0, rows, &commitments)).await;
                    answers.push(bound.map(drop));
                }
            }
            Ok(answers)
        })
    }

    fn await_bound(&self, rows: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        let before = self.session.history.rows();
        while self.session.history.rows() < before + rows {
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "fewer than {rows} rows were bound in a minute"
            );
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn signal_coordinator(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.cluster.processes.coordinator().context("the coordinator runs")?;
        let pid = rustix::process::Pid::from_raw(process.pid() as i32).context("a process id")?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// The anchors beside the ledger's file.
    fn anchors(&self) -> anyhow::Result<Vec<PathBuf>> {
        let names = fs::read_dir(self.environment.data_dir())?.map(|entry| Ok(entry?.path()));
        let paths = names.collect::<anyhow::Result<Vec<_>>>()?.into_iter();
        Ok(paths.filter(|path| path.to_string_lossy().contains("ledger.redb.anchor-")).collect())
    }
}

/// Mounts the folder over itself, read-only: permissions bind no one who may do everything.
fn make_read_only(folder: &Path) -> anyhow::Result<()> {
    let folder = folder.display().to_string();
    run(&["mount", "--bind", &folder, &folder])?;
    let made = run(&["mount", "-o", "remount,bind,ro", &folder]);
    if made.is_err() {
        run(&["umount", &folder])?;
    }
    made
}
