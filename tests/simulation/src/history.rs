//! What was seen of the cluster from outside, and what must never be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ledger::Ledger;
use proto::{Commitment, CoordinateRange, JobId, RowRange};

use crate::cases::{Case, DIMENSION, ROWS};

/// A shard of a job under one epoch.
pub type Lease = (JobId, u32, u64);

#[derive(Debug, Default)]
pub struct History {
    pub now: Duration,
    /// Bindings that a caller was told of.
    acked: BTreeMap<(JobId, u64, u64), Commitment>,
    delivered: BTreeSet<(JobId, u64)>,
    pub rows_delivered: u64,
    /// Endpoints that the coordinator named for a lease.
    served_by: BTreeMap<Lease, String>,
    /// When each lease was last seen in the ledger, or in service for an owner that was not ready yet.
    held: BTreeMap<Lease, Duration>,
    pub faults: BTreeMap<&'static str, u64>,
    pub violations: Vec<String>,
    /// FNV-1a over all events with their times.
    pub trace: u64,
    pub has_shut_down: bool,
    is_printed: bool,
}

impl History {
    pub fn new(is_printed: bool) -> Self {
        Self { is_printed, trace: 0xcbf2_9ce4_8422_2325, ..Self::default() }
    }

    pub fn event(&mut self, text: impl AsRef<str>) {
        let line = format!("{:>9.3} {}", self.now.as_secs_f64(), text.as_ref());
        for byte in line.bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.is_printed {
            println!("{line}");
        }
    }

    /// A node has ended by itself.
    pub fn ended(&mut self, host: &str, how: &str) {
        self.has_shut_down = true;
        self.event(format!("{host} ended: {how}"));
    }

    pub fn fault(&mut self, kind: &'static str, about: impl AsRef<str>) {
        *self.faults.entry(kind).or_default() += 1;
        self.event(format!("fault: {kind} {}", about.as_ref()));
    }

    pub fn violation(&mut self, text: impl AsRef<str>) {
        self.event(format!("VIOLATION: {}", text.as_ref()));
        self.violations.push(text.as_ref().to_owned());
    }

    /// A caller was told that the row is bound to the commitment.
    pub fn acked(&mut self, job: &JobId, row: u64, commitment: Commitment) {
        match self.acked.insert((job.clone(), 0, row), commitment) {
            None => self.event(format!("{job} row {row} bound")),
            Some(before) if before == commitment => {}
            Some(_) => self.violation(format!("{job} row {row} was bound to two commitments")),
        }
    }

    /// A caller was told that the row is bound to another commitment than this.
    pub fn refused(&mut self, job: &JobId, row: u64, commitment: Commitment) {
        if self.acked.get(&(job.clone(), 0, row)) == Some(&commitment) {
            self.violation(format!("{job} row {row} was refused the commitment that it is bound to"));
        }
    }

    pub fn delivered(&mut self, case: &Case, rows: RowRange, range: CoordinateRange, values: &[f32]) {
        let job = &case.job;
        let width = range.len() as usize;
        for (row, got) in rows.as_range().zip(values.chunks(width)) {
            let expected = &case.rows[row as usize][range.start as usize..range.end as usize];
            let differs = got.iter().zip(expected).position(|(got, exact)| got.to_bits() != exact.to_bits());
            if let Some(at) = differs {
                self.violation(format!(
                    "{job} row {row} differs from the oracle at {}",
                    range.start + at as u64
                ));
            }
            if !self.acked.contains_key(&(job.clone(), 0, row)) {
                self.violation(format!("{job} row {row} was delivered before it was bound"));
            }
            if range.len() == DIMENSION && self.delivered.insert((job.clone(), row)) {
                self.rows_delivered += 1;
                self.event(format!("{job} row {row} delivered"));
            }
        }
    }

    pub fn all_delivered(&self, job: &JobId) -> bool {
        (0..ROWS).all(|row| self.delivered.contains(&(job.clone(), row)))
    }

    /// What a caller was told must be in the ledger, whatever became of the disk.
    pub fn check_ledger(&mut self, ledger: &Ledger) {
        let mut lost = Vec::new();
        for ((job, branch, row), commitment) in &self.acked {
            match ledger.bindings(job, *branch, *row..*row + 1) {
                Ok(found) if found == [(*row, *commitment)] => {}
                Ok(found) if found.is_empty() => lost.push(format!("{job} row {row}: acked, and lost")),
                Ok(_) => lost.push(format!("{job} row {row}: acked, and bound to another commitment")),
                Err(error) => lost.push(format!("{job} row {row}: acked, and not readable: {error}")),
            }
        }
        lost.iter().for_each(|lost| self.violation(lost));
    }

    pub fn check_nothing_acked(&mut self) {
        if !self.acked.is_empty() {
            self.violation("all bindings are lost: there is no ledger");
        }
    }

    pub fn sample(&mut self, ledger: &Ledger, retiring: Vec<Lease>, jobs: &[&'static Case]) {
        self.held.extend(retiring.into_iter().map(|lease| (lease, self.now)));
        for case in jobs {
            for shard in ledger.shards(&case.job).unwrap_or_default() {
                self.held.insert((case.job.clone(), shard.shard, shard.epoch), self.now);
            }
        }
    }

    /// One process serves a shard under an epoch, and no other ever does.
    pub fn routed(&mut self, lease: Lease, endpoint: &str) {
        let before = self.served_by.entry(lease.clone()).or_insert_with(|| endpoint.to_owned());
        if before != endpoint {
            let text = format!("{lease:?} is served by {before} and by {endpoint}");
            self.violation(text);
        }
    }

    /// A worker has served under this epoch, asked at `asked`.
    pub fn served(&mut self, lease: Lease, asked: Duration, ttl: Duration) {
        let ended = self.held.get(&lease).copied();
        if ended.is_none_or(|last| last + ttl < asked) {
            self.violation(format!(
                "{lease:?}, asked for at {asked:?}, was served; it was last held at {ended:?}"
            ));
        }
    }
}
