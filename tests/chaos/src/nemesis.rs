//! One fault a round, then its end.

use std::{fmt, fs, path::PathBuf, str::FromStr, thread::sleep, time::Duration};

use anyhow::{Context, bail};
use dice::Dice;
use rustix::process::Signal;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::{
    Session,
    cluster::{Cluster, LEASE_TTL},
    damage::{damage, files, write},
    environment::Environment,
    figures::Figures,
    history::Violation,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    KillWorker,
    KillCoordinator,
    KillAll,
    Zombie,
    Clock,
    DiskFull,
    LedgerDamage,
    CheckpointDamage,
    Partition,
    OneWay,
    SlowLink,
    /// Connections are reset, again and again.
    Reset,
    /// A job rewinds to an earlier row while a process is killed.
    Rewind,
    /// A process ends at a durable step.
    EndAt,
    /// A second coordinator runs on a copy of the ledger.
    CopiedLedger,
    /// An old copy of the ledger is put in its place.
    OldLedger,
    /// The ledger's file is deleted beside all that it left.
    DeletedLedger,
    /// The workers' records are put back from an earlier copy, or those of other workers.
    OldRecords,
    /// The store that keeps the ledger's anchor can't be reached, or not be written to.
    StoreGone,
    /// Machines lose power. Asked for by name alone: all disks are other ones then.
    PowerCut,
    /// No fault that the service survives: shows that a lost binding is seen. In no list.
    Rollback,
}

impl Fault {
    pub const ALL: [Fault; 19] = [
        Fault::KillWorker,
        Fault::KillCoordinator,
        Fault::KillAll,
        Fault::Zombie,
        Fault::Clock,
        Fault::DiskFull,
        Fault::LedgerDamage,
        Fault::CheckpointDamage,
        Fault::Partition,
        Fault::OneWay,
        Fault::SlowLink,
        Fault::Reset,
        Fault::Rewind,
        Fault::EndAt,
        Fault::CopiedLedger,
        Fault::OldLedger,
        Fault::DeletedLedger,
        Fault::OldRecords,
        Fault::StoreGone,
    ];

    pub fn is_possible(self, environment: &Environment) -> bool {
        match self {
            Fault::Clock => environment.has_clock,
            Fault::DiskFull => environment.has_disk,
            Fault::Partition | Fault::OneWay | Fault::SlowLink => environment.has_network,
            Fault::Reset => environment.has_network && environment.has_resets,
            Fault::PowerCut => environment.disks.is_some(),
            Fault::EndAt => durable_io::ARE_ARMABLE,
            // On disks that lose power, the store is in the coordinator's folder.
            Fault::OldLedger | Fault::StoreGone => environment.disks.is_none(),
            _ => true,
        }
    }

    /// A service that delivers no new row for so long after this fault's end has not come back.
    pub fn patience(self) -> Duration {
        match self {
            // No process has to be restarted.
            Fault::Partition | Fault::OneWay | Fault::SlowLink | Fault::Reset => Duration::from_secs(10),
            _ => Duration::from_secs(60),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self).map_err(|_| fmt::Error)?;
        f.write_str(name.as_str().unwrap_or_default())
    }
}

impl FromStr for Fault {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = || Self::ALL.into_iter().chain([Fault::PowerCut]);
        let found = all().find(|fault| fault.to_string() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = all().map(|fault| fault.to_string()).collect();
            format!("{text:?} is no fault; allowed: {}", names.join(", "))
        })
    }
}

pub struct Nemesis<'a> {
    pub cluster: &'a mut Cluster,
    pub environment: &'a Environment,
    pub session: &'a Session,
    /// The counters of the observed effects of faults.
    pub figures: &'a mut Figures,
    pub runtime: Handle,
}

impl Nemesis<'_> {
    /// Breaks one thing, waits, and heals it; says what it did. `turn`: how often this fault came before.
    pub fn round(&mut self, fault: Fault, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        sleep(dice.millis(0, 400));
        let worker = dice.below(self.cluster.workers as u64) as usize;
        let done = match fault {
            Fault::KillWorker => self.kill_worker(worker, dice),
            Fault::KillCoordinator => self.kill_coordinator(dice),
            Fault::KillAll => self.kill_all(dice),
            Fault::Zombie => self.zombie(worker, dice),
            Fault::Clock => self.clock(worker, turn, dice),
            Fault::DiskFull => self.disk_full(turn, dice),
            Fault::LedgerDamage => self.ledger_damage(dice),
            Fault::CheckpointDamage => self.checkpoint_damage(dice),
            Fault::Partition | Fault::OneWay | Fault::SlowLink => self.network(fault, worker, dice),
            Fault::Reset => self.reset(worker, dice),
            Fault::Rewind => self.rewind(turn, dice),
            Fault::EndAt => self.end_at(turn, dice),
            Fault::CopiedLedger => self.copied_ledger(turn, dice),
            Fault::OldLedger => self.old_ledger(turn, dice),
            Fault::DeletedLedger => self.deleted_ledger(turn),
            Fault::OldRecords => self.old_records(turn),
            Fault::StoreGone => self.store_gone(turn),
            Fault::PowerCut => self.power_cut(dice),
            Fault::Rollback => self.rollback(),
        };
        let done = done?;
        self.cluster.mend()?;
        Ok(done)
    }

    fn kill_worker(&mut self, worker: usize, dice: &mut Dice) -> anyhow::Result<String> {
        self.cluster.kill_worker(worker);
        sleep(dice.millis(0, 2 * LEASE_TTL.as_millis() as u64));
        Ok(format!("worker {worker} killed"))
    }

    fn kill_coordinator(&mut self, dice: &mut Dice) -> anyhow::Result<String> {
        self.cluster.kill_coordinator();
        sleep(dice.millis(0, 1_000));
        Ok("coordinator killed".into())
    }

    fn kill_all(&mut self, dice: &mut Dice) -> anyhow::Result<String> {
        self.cluster.kill_all();
        sleep(dice.millis(0, 500));
        Ok("all processes killed".into())
    }

    /// Stopped until others hold its shards, then woken, as after a long pause of its host.
    fn zombie(&mut self, worker: usize, dice: &mut Dice) -> anyhow::Result<String> {
        self.cluster.signal(worker, Signal::STOP)?;
        sleep(LEASE_TTL + dice.millis(300, 1_200));
        self.cluster.signal(worker, Signal::CONT)?;
        sleep(dice.millis(300, 800));
        Ok(format!("worker {worker} stopped past its lease"))
    }

    pub fn ledger(&self) -> PathBuf {
        self.environment.data_dir().join("ledger.redb")
    }

    /// Checks that a coordinator refuses a damaged ledger and leaves it unchanged, or has every binding that it
    /// acknowledged.
    fn ledger_damage(&mut self, dice: &mut Dice) -> anyhow::Result<String> {
        self.cluster.kill_coordinator();
        let ledger = self.ledger();
        let good = fs::read(self.ledger())?;
        let what = damage(&ledger, dice)?;
        let bad = fs::read(&ledger)?;
        if bad == good {
            return Ok(format!("ledger: {what}, which changed nothing"));
        }
        match self.cluster.processes.start_coordinator() {
            Ok(()) => Ok(format!("ledger: {what}; taken, to be checked binding by binding")),
            Err(_) => {
                let is_changed = fs::read(&ledger)? != bad;
                if is_changed {
                    let text = format!("ledger: {what}; refused, and changed");
                    self.session.history.violation(Violation::Served, text);
                }
                write(&ledger, &good)?;
                self.figures.ledgers_refused += 1;
                Ok(format!("ledger: {what}; refused"))
            }
        }
    }

    /// Restores the ledger and its anchors to what they were before the latest rows of the jobs, in the same files, as a snapshot
    /// of the volume and its store would: workers alone know better.
    fn rollback(&mut self) -> anyhow::Result<String> {
        self.cluster.kill_coordinator();
        let old = self.ledger_and_anchors()?;
        self.cluster.mend()?;
        self.await_bound(10)?;
        self.cluster.kill_coordinator();
        for (path, bytes) in old {
            write(&path, &bytes)?;
        }
        Ok("ledger put back to an earlier moment".into())
    }

    fn ledger_and_anchors(&self) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let beside = self.anchors()?.into_iter().chain([self.ledger()]);
        let elsewhere = files(&self.environment.store(), ".anchor");
        beside.chain(elsewhere).map(|path| Ok((path.clone(), fs::read(&path)?))).collect()
    }

    /// All pieces and manifests of all jobs, while no worker has its state in memory.
    fn checkpoint_damage(&mut self, dice: &mut Dice) -> anyhow::Result<String> {
        let newest = self.session.cases.lasting().pop().context("a job")?;
        // Without one there is nothing to damage, which is no fault of the service.
        let _ = self.runtime.block_on(self.session.client.jobs().checkpoint(&newest.job));
        (0..self.cluster.workers).for_each(|worker| self.cluster.kill_worker(worker));
        let folder = self.environment.store();
        let mut damaged = 0;
        let mut last = String::new();
        for path in files(&folder, ".shard").into_iter().chain(files(&folder, ".json")) {
            if fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
                last = damage(&path, dice)?;
                damaged += 1;
            }
        }
        Ok(format!("{damaged} checkpoint files damaged, the last: {last}"))
    }

    fn network(&mut self, fault: Fault, worker: usize, dice: &mut Dice) -> anyhow::Result<String> {
        let outward = dice.one_in(2);
        match fault {
            Fault::Partition => {
                self.environment.deafen(worker).and_then(|()| self.environment.silence(worker))?
            }
            Fault::OneWay if outward => self.environment.silence(worker)?,
            Fault::OneWay => self.environment.deafen(worker)?,
            Fault::SlowLink => self.environment.slow(worker)?,
            other => bail!("{other} is no fault of the network"),
        }
        sleep(dice.millis(500, 3 * LEASE_TTL.as_millis() as u64));
        self.environment.heal(worker);
        let way = if fault == Fault::OneWay && outward { ", from it" } else { "" };
        Ok(format!("{fault} of worker {worker}{way}"))
    }
}
