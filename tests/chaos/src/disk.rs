//! A disk that is full until the coordinator has met it.

use std::{
    fs::{self, File},
    io::Write,
    time::{Duration, Instant},
};

use anyhow::ensure;
use dice::Dice;
use proto::{JobId, RowRange};

use crate::{
    Session,
    calls::in_time,
    cases::{Case, ROWS},
    environment::DISK_MIB,
    logs::Log,
    nemesis::Nemesis,
    points::Role,
    trainer,
};

/// A ledger that has found room for so long is not on this disk.
const TIMEOUT: Duration = Duration::from_secs(60);
/// MiB that a coordinator needs to start again, at the least.
const TO_START: u64 = 2;
/// ENOSPC in the system's error text.
const NO_SPACE: &str = "os error 28";

impl Nemesis<'_> {
    /// A coordinator that can't write stops, and says why; it is started again where there is room again.
    pub fn disk_full(&mut self, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        // 1 to 64 MiB, each power of two as often, but room for what is there.
        let size = (1u64 << dice.below(7)).max(self.environment.disk_used()? + TO_START).min(DISK_MIB);
        let log = Log::of(self.cluster, "coordinator")?;
        self.environment.resize_disk(size)?;
        let path = self.environment.data_dir().join("fill");
        let filled = File::create(&path).map_err(Into::into).and_then(|fill| self.until_it_ends(fill, turn));
        fs::remove_file(path)?;
        let (bytes, last) = filled?;
        let said = log.text()?;
        ensure!(said.contains(NO_SPACE), "the coordinator ended on a full disk, and said only:\n{said}");
        self.figures.full_disks_met += 1;
        // On the small disk.
        self.cluster.mend()?;
        self.environment.resize_disk(DISK_MIB)?;
        // It may have ended before this one was; not more than a job too many, where that fails.
        let _ = self.runtime.block_on(in_time(self.session.client.jobs().destroy(&last)));
        Ok(format!("a disk of {size} MiB filled with {bytes} bytes, which the coordinator met"))
    }

    /// Fills the disk until the coordinator ends. Returns the bytes written and the last job created.
    fn until_it_ends(&mut self, mut fill: File, turn: u64) -> anyhow::Result<(u64, JobId)> {
        let began = Instant::now();
        let mut bytes = 0;
        for number in 0.. {
            // Again: a checkpoint that is deleted makes room.
            bytes += fill_up(&mut fill);
            let case = Case::named(&format!("full-{turn}-{number}"), 0)?;
            let _ = self.runtime.block_on(write_much(self.session, &case));
            if !self.cluster.runs(Role::Coordinator, 0) {
                return Ok((bytes, case.job));
            }
            ensure!(began.elapsed() < TIMEOUT, "no write has failed on a full disk within {TIMEOUT:?}");
        }
        unreachable!("a job of all numbers")
    }
}

/// Fills the disk to the last byte.
fn fill_up(fill: &mut File) -> u64 {
    let mut bytes = 0;
    for size in [1 << 20, 1 << 12, 1 << 8, 1] {
        while fill.write_all(&vec![0xaa; size]).is_ok() {
            bytes += size as u64;
        }
    }
    bytes
}

/// A ledger writes into pages that it has freed, and one binding more finds room there: all rows of a job at once, and
/// then of another, do not for long.
async fn write_much(session: &Session, case: &Case) -> proto::Result<()> {
    let jobs = session.client.jobs();
    in_time(jobs.create(case.request.clone())).await?;
    let all: Vec<_> = (0..ROWS).map(|row| trainer::commitment("full", case, row)).collect();
    let rows = RowRange { start: 0, end: ROWS };
    let released = in_time(session.client.bind(&case.job, 0, rows, &all)).await?;
    for (row, commitment) in (0..).zip(all) {
        session.history.acked(&case.job, row, commitment, released.clone());
    }
    in_time(jobs.destroy(&case.job)).await.map(|_| ())
}
