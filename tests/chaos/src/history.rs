//! What was seen of the cluster from outside, and what must never be seen.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ledger::Ledger;
use proto::{Commitment, JobId, ReleasedRows};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The rule that a violation breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// A binding that was acknowledged to a caller is gone.
    Lost,
    /// Two commitments for one row.
    Doubled,
    /// Bytes that are not the oracle's.
    Different,
    /// A byte from a lease that has gone to another worker.
    Stale,
    /// Damage that was taken as good.
    Served,
    /// The service did not come back.
    Stuck,
}

#[derive(Clone, Debug)]
pub struct BoundRow {
    pub commitment: Commitment,
    /// The newest grant that the coordinator returned: of the row, or of it and others.
    pub released: ReleasedRows,
    /// SHA-256 of all bytes of the row.
    pub sha256: Option<[u8; 32]>,
}

/// Job and row; the branch is 0.
pub type Row = (JobId, u64);

#[derive(Default)]
struct Observations {
    rows: BTreeMap<Row, BoundRow>,
    checked: u64,
    /// What was bound, by the SHA-256 of a row's bytes, under every ledger.
    released: BTreeMap<[u8; 32], (Commitment, String)>,
    violations: Vec<(Violation, String)>,
}

impl Observations {
    /// Records bytes that left under a commitment. Returns the violation where they left under another one before.
    fn release(
        &mut self,
        sha256: [u8; 32],
        commitment: Commitment,
        what: String,
    ) -> Option<(Violation, String)> {
        let (first, before) = self.released.entry(sha256).or_insert_with(|| (commitment, what.clone()));
        let is_doubled = *first != commitment;
        is_doubled.then(|| {
            (Violation::Doubled, format!("{what} has the bytes of {before}, for another commitment"))
        })
    }
}

fn sha256(values: &[f32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    values.iter().for_each(|value| hash.update(value.to_le_bytes()));
    hash.finalize().into()
}

#[derive(Default)]
pub struct History(Mutex<Observations>);

impl History {
    fn seen(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn violation(&self, broken: Violation, text: impl Display) {
        self.seen().violations.push((broken, text.to_string()));
    }

    /// Violations since the last call.
    pub fn take_violations(&self) -> Vec<(Violation, String)> {
        std::mem::take(&mut self.seen().violations)
    }

    /// Records an answer that the row is bound to the commitment.
    pub fn acked(&self, job: &JobId, row: u64, commitment: Commitment, released: ReleasedRows) {
        let mut seen = self.seen();
        let entry = seen.rows.entry((job.clone(), row));
        let acked =
            entry.or_insert_with(|| BoundRow { commitment, released: released.clone(), sha256: None });
        acked.released = released;
        if acked.commitment != commitment {
            drop(seen);
            self.violation(Violation::Doubled, format!("{job} row {row} was bound to two commitments"));
        }
    }

    /// Records an answer that the row is bound to another commitment than this.
    pub fn refused(&self, job: &JobId, row: u64, commitment: Commitment) {
        let is_own = self.seen().rows.get(&(job.clone(), row)).is_some_and(|a| a.commitment == commitment);
        if is_own {
            self.violation(Violation::Lost, format!("{job} row {row} was refused its own commitment"));
        }
    }

    /// Records a row that some ledger has released, under this commitment.
    pub fn released(&self, what: &str, commitment: Commitment, values: &[f32]) {
        let mut seen = self.seen();
        let broken = seen.release(sha256(values), commitment, what.to_owned());
        seen.violations.extend(broken);
    }

    /// Compares with the oracle and with what was delivered before.
    pub fn delivered(&self, job: &JobId, row: u64, got: &[f32], expected: &[f32]) {
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        let differs = got.iter().zip(expected).position(|pair| !same(pair));
        let sha256 = sha256(got);
        let mut seen = self.seen();
        seen.checked += 1;
        let acked = seen.rows.get_mut(&(job.clone(), row));
        let bound = acked.map(|acked| (acked.sha256.replace(sha256), acked.commitment));
        let before = bound.map(|(before, _)| before);
        let mut broken = Vec::new();
        if let Some((_, commitment)) = bound {
            broken.extend(seen.release(sha256, commitment, format!("{job} row {row}")));
        }
        if let Some(at) = differs {
            broken.push((Violation::Different, format!("{job} row {row} differs from the oracle at {at}")));
        }
        match before {
            None => {
                broken.push((Violation::Doubled, format!("{job} row {row} was delivered and never bound")))
            }
            Some(Some(before)) if before != sha256 => {
                broken
                    .push((Violation::Different, format!("{job} row {row} came in other bytes than before")));
            }
            Some(_) => {}
        }
        seen.violations.extend(broken);
    }

    /// Rows compared so far, repeated ones included.
    pub fn checked(&self) -> u64 {
        self.seen().checked
    }

    pub fn rows(&self) -> usize {
        self.seen().rows.len()
    }

    pub fn delivered_rows(&self) -> Vec<Row> {
        let seen = self.seen();
        let delivered = seen.rows.iter().filter(|(_, acked)| acked.sha256.is_some());
        delivered.map(|(row, _)| row.clone()).collect()
    }

    pub fn acked_rows(&self, job: &JobId) -> Vec<(u64, BoundRow)> {
        let seen = self.seen();
        let rows = seen.rows.range((job.clone(), 0)..=(job.clone(), u64::MAX));
        rows.map(|((_, row), acked)| (*row, acked.clone())).collect()
    }

    /// Checks that every acknowledged binding is in the ledger.
    pub fn check_ledger(&self, ledger: &Ledger) {
        let rows = self.seen().rows.clone();
        for ((job, row), acked) in rows {
            match ledger.bindings(&job, 0, row..row + 1) {
                Ok(found) if found == [(row, acked.commitment)] => {}
                Ok(found) if found.is_empty() => {
                    self.violation(Violation::Lost, format!("{job} row {row} is not in the ledger"));
                }
                Ok(_) => self.violation(Violation::Doubled, format!("{job} row {row}: another commitment")),
                Err(error) => self.violation(Violation::Lost, format!("{job} row {row}: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(history: &History, text: &str) {
        let job = JobId::new("j").unwrap();
        let of = proto::GrantedBranch { job: &job, nonce: &proto::Nonce::from_bytes([1; 32]), branch: 0 };
        let validity = proto::Validity { epoch: 1, until_ms: 1, extent: None };
        let rows = proto::RowRange { start: 3, end: 4 };
        let commitment = Commitment::of_text(text);
        let released = proto::CoordinatorKey::new(&[1; 32]).release(of, rows, vec![commitment], validity);
        history.acked(&job, 3, commitment, released);
    }

    fn broken(history: &History) -> Vec<Violation> {
        history.take_violations().into_iter().map(|(broken, _)| broken).collect()
    }

    #[test]
    fn every_violation_is_seen() {
        let history = History::default();
        let job = JobId::new("j").unwrap();
        history.delivered(&job, 3, &[1.0], &[1.0]);
        assert_eq!(broken(&history), [Violation::Doubled], "before it was bound");
        acked(&history, "a");
        acked(&history, "a");
        history.delivered(&job, 3, &[0.0], &[0.0]);
        history.refused(&job, 3, Commitment::of_text("b"));
        history.released("a copy's row", Commitment::of_text("a"), &[0.0]);
        assert_eq!(broken(&history), []);
        history.released("a copy's row", Commitment::of_text("b"), &[0.0]);
        assert_eq!(broken(&history), [Violation::Doubled], "by another ledger");
        history.refused(&job, 3, Commitment::of_text("a"));
        assert_eq!(broken(&history), [Violation::Lost]);
        acked(&history, "b");
        assert_eq!(broken(&history), [Violation::Doubled]);
        history.delivered(&job, 3, &[-0.0], &[0.0]);
        assert_eq!(broken(&history), [Violation::Different, Violation::Different]);
    }
}
