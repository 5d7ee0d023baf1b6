//! Observations of the cluster from outside, and the invariants that they must satisfy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::{Commitment, CoordinateRange, JobId, NoiseId, RowRange};

use crate::branches::Branches;
use crate::cases::{Case, DIMENSION, ROWS};
use crate::charges::Purchases;
use crate::figures::Tally;
use crate::leases::Leases;
use crate::releases::Releases;

/// A row of a job: the branch whose Z it has, and its number.
pub type RowOfZ = (JobId, u64, u64);

/// Two values drawn apart are the same f32 once in some ten million: so many in one row are no chance.
const NO_CHANCE: usize = 4;

#[derive(Debug, Default)]
pub struct History {
    pub now: Duration,
    pub branches: Branches,
    pub leases: Leases,
    pub releases: Releases,
    pub purchases: Purchases,
    /// Bindings that some caller has asked for.
    pub asked: BTreeMap<RowOfZ, Vec<Commitment>>,
    /// Bindings that were acknowledged to a caller.
    pub acked: BTreeMap<RowOfZ, Commitment>,
    delivered: BTreeSet<RowOfZ>,
    trained: BTreeSet<JobId>,
    pub tally: Tally,
    pub faults: BTreeMap<&'static str, u64>,
    pub violations: Vec<String>,
    /// FNV-1a over all events with their times.
    pub trace: u64,
    pub has_shut_down: bool,
    /// Requests may find a ledger that is known to be a copy.
    pub may_be_copied: bool,
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

    /// Records a branch and returns whether it is acknowledged to a caller for the first time.
    pub fn learn(&mut self, case: &Case, noise_id: &NoiseId, acknowledged: Option<Duration>) -> bool {
        self.branches.learn(case, noise_id, acknowledged).unwrap_or_else(|error| {
            self.violation(error);
            false
        })
    }

    /// Records that a caller requests bindings. Returns the newest branch that has been acknowledged by then.
    pub fn asked(&mut self, job: &JobId, branch: u64, rows: RowRange, commitments: &[Commitment]) -> u64 {
        for (row, commitment) in rows.as_range().zip(commitments) {
            let of_z = self.branches.of_row(job, branch, row);
            let asked = self.asked.entry((job.clone(), of_z, row)).or_default();
            if !asked.contains(commitment) {
                asked.push(*commitment);
            }
        }
        self.branches.newest(job)
    }

    /// Records an answer that the row is bound to the commitment; `newest` is what [`History::asked`] returned.
    pub fn acked(&mut self, job: &JobId, branch: u64, newest: u64, row: u64, commitment: Commitment) {
        if newest > branch {
            self.violation(format!(
                "{job} row {row} was bound on branch {branch}, after branch {newest} was known"
            ));
        }
        self.branches.bound(job, branch, self.now);
        let of_z = self.branches.of_row(job, branch, row);
        if let Some(noise_id) = self.branches.noise_id(job, of_z).cloned() {
            self.release(job, &noise_id, row, commitment);
        }
        match self.acked.insert((job.clone(), of_z, row), commitment) {
            None => self.event(format!("{job} row {row} of branch {of_z} bound")),
            Some(before) if before == commitment => {}
            Some(_) => {
                self.violation(format!("{job} row {row} of branch {of_z} was bound to two commitments"))
            }
        }
    }

    /// Records an answer that the row is bound to another commitment than this.
    pub fn refused(&mut self, job: &JobId, branch: u64, row: u64, commitment: Commitment) {
        let of_z = self.branches.of_row(job, branch, row);
        if self.acked.get(&(job.clone(), of_z, row)) == Some(&commitment) {
            self.violation(format!(
                "{job} row {row} of branch {of_z} was refused the commitment that it is bound to"
            ));
        }
    }

    pub fn delivered(
        &mut self,
        case: &Case,
        branch: u64,
        rows: RowRange,
        range: CoordinateRange,
        values: &[f32],
    ) {
        let job = &case.job;
        for (row, got) in rows.as_range().zip(values.chunks(range.len() as usize)) {
            self.check_values(job, branch, row, range.start, got);
            let of_z = (job.clone(), self.branches.of_row(job, branch, row), row);
            if !self.acked.contains_key(&of_z) {
                self.violation(format!(
                    "{job} row {row} of branch {} was delivered before it was bound",
                    of_z.1
                ));
            }
            if range.len() == DIMENSION && !self.delivered.contains(&of_z) {
                self.tally.rows_delivered += 1;
                self.event(format!("{job} row {row} of branch {} delivered", of_z.1));
                self.check_fresh(&of_z);
                self.delivered.insert(of_z);
            }
        }
    }

    /// Whatever leaves is of the branch that it was asked of, bit for bit.
    pub fn check_values(&mut self, job: &JobId, branch: u64, row: u64, start: u64, got: &[f32]) {
        let expected = self.branches.row(job, branch, row).unwrap_or_default();
        let expected = expected.get(start as usize..start as usize + got.len()).unwrap_or_default();
        let differs = |(got, exact): (&f32, &f32)| got.to_bits() != exact.to_bits();
        let at =
            if expected.len() == got.len() { got.iter().zip(expected).position(differs) } else { Some(0) };
        if let Some(at) = at {
            let at = start + at as u64;
            self.violation(format!("{job} row {row} of branch {branch} differs from the oracle at {at}"));
        }
    }

    /// A row of fresh Z is none of those that left under its number before.
    fn check_fresh(&mut self, (job, of_z, row): &RowOfZ) {
        let bits =
            |branch| self.branches.row(job, branch, *row).unwrap_or_default().iter().map(|it| it.to_bits());
        let before = self.delivered.iter().filter(|(of, _, at)| of == job && at == row).map(|(_, z, _)| *z);
        let before: Vec<u64> = before.collect();
        let same = |old: &&u64| bits(**old).zip(bits(*of_z)).filter(|(old, new)| old == new).count();
        let repeated = before.iter().find(|old| same(old) >= NO_CHANCE).copied();
        self.tally.rows_drawn_anew += before.len() as u64;
        if let Some(old) = repeated {
            self.violation(format!("{job} row {row} of branch {of_z} is that of branch {old} again"));
        }
    }

    /// The training job has come to its end on this branch.
    pub fn trained(&mut self, job: &JobId, branch: u64) {
        let of_z = |row| (job.clone(), self.branches.of_row(job, branch, row), row);
        if let Some(row) = (0..ROWS).find(|row| !self.delivered.contains(&of_z(*row))) {
            self.violation(format!("{job} ended on branch {branch} without row {row}"));
        }
        self.trained.insert(job.clone());
    }

    pub fn has_trained(&self, job: &JobId) -> bool {
        self.trained.contains(job)
    }
}
