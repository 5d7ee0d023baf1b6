//! A training job that crashes between binding and checkpoint, and goes back: to the row that its checkpoint says, on a
//! new branch, with other gradients. The answer to that may be lost, as any; then it is asked again.

use std::time::Duration;

use dice::Dice;
use proto::{Lineage, NoiseId, Result, RowRange, ServiceError, pb};
use tokio::time::{sleep, timeout};

use crate::cases::{Case, ROWS};
use crate::trainer::{CALL_TIMEOUT, Trainer, connect};

/// A checkpoint of the training job: all that it knows after a crash.
#[derive(Default)]
pub struct TrainerCheckpoint {
    row: u64,
    branch: u64,
    /// The job's cursor. With one, the trainer resumes from it.
    cursor: Option<Vec<u8>>,
}

/// The rows in whose steps the job crashes: none in every other seed, else one to three.
pub fn crashes(seed: u64, case: &Case) -> Vec<u64> {
    if !Dice::named(seed, "rewinds").one_in(2) {
        return Vec::new();
    }
    let mut dice = Dice::named(seed, &format!("crashes of {}", case.job));
    (0..dice.within(1, 3)).map(|_| dice.within(1, ROWS)).collect()
}

impl Trainer {
    /// Stores the job's position, a row number or a cursor, after one step in three.
    pub async fn keep(&mut self, row: u64, kept: &mut TrainerCheckpoint) {
        if !self.dice.one_in(3) {
            return;
        }
        let mut cursor = None;
        if self.dice.one_in(2) {
            match timeout(CALL_TIMEOUT, self.client.jobs().cursor(&self.case.job, Some(row))).await {
                Ok(Ok(given)) => cursor = Some(given),
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => {}
            }
        }
        *kept = TrainerCheckpoint { row, branch: self.branch, cursor };
    }

    /// Another process, with what the checkpoint says. Gives the next row.
    pub async fn come_back(&mut self, kept: &mut TrainerCheckpoint) -> Result<u64> {
        self.world.history().fault("crash of a trainer", self.case.job.as_str());
        self.client = connect()?;
        let down = self.dice.millis(0, 600);
        sleep(down).await;
        let left = self.branch;
        match kept.cursor.clone() {
            Some(cursor) => self.resume(kept, cursor).await?,
            None => self.rewind(kept).await?,
        }
        self.look_back(left).await;
        if self.dice.one_in(2) {
            *kept = TrainerCheckpoint { row: kept.row, branch: self.branch, cursor: None };
        }
        Ok(kept.row)
    }

    /// One that is impatient hears nothing of what it has done.
    fn patience(&mut self) -> Duration {
        if self.dice.one_in(2) { self.dice.millis(1, 80) } else { CALL_TIMEOUT }
    }

    async fn rewind(&mut self, kept: &TrainerCheckpoint) -> Result<()> {
        let job = &self.case.job;
        let mut expected = kept.branch;
        loop {
            let patience = self.patience();
            match timeout(patience, self.client.jobs().rewind(job, kept.row, expected)).await {
                Ok(Ok(opened)) => return self.take(expected, kept.row, opened),
                Ok(Err(ServiceError::BranchSuperseded { current, .. })) => {
                    self.world.sample();
                    self.world.history().rewind_refused(job, kept.row, expected, current);
                    expected = current;
                }
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => self.world.history().event(format!("{job}: no answer to the rewind")),
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn resume(&mut self, kept: &TrainerCheckpoint, cursor: Vec<u8>) -> Result<()> {
        let job = &self.case.job;
        loop {
            let patience = self.patience();
            let has_more = self.world.history().has_bound_from(job, kept.branch, kept.row);
            match timeout(patience, self.client.jobs().resume(job, cursor.clone(), false)).await {
                Ok(Ok(resumed)) => {
                    let opened = resumed.job.unwrap_or_default();
                    if resumed.next_row != kept.row || (opened.branch == kept.branch && has_more) {
                        let branch = opened.branch;
                        let row = resumed.next_row;
                        self.world
                            .history()
                            .violation(format!("{job} continues at row {row} of branch {branch}"));
                    }
                    return self.take(kept.branch, kept.row, opened);
                }
                // An earlier request was under way still.
                Ok(Err(ServiceError::BranchSuperseded { .. })) => {}
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => self.world.history().event(format!("{job}: no answer to the resumption")),
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Continues as the answer says.
    fn take(&mut self, parent: u64, from_row: u64, opened: pb::Job) -> Result<()> {
        self.world.sample();
        let noise_id = NoiseId::try_from(&opened)?;
        self.branch = noise_id.lineage.branch();
        self.world.history().went_on(self.case, parent, from_row, &noise_id);
        Ok(())
    }

    /// What was left is refused, and what was kept is as it was.
    async fn look_back(&mut self, left: u64) {
        if left == self.branch {
            return;
        }
        self.ask_for_left(left).await;
        let from_row = {
            let history = self.world.history();
            history.branches.lineage(&self.case.job, self.branch).map_or(0, Lineage::from_row)
        };
        if from_row > 0 {
            let row = self.dice.below(from_row);
            self.bind_otherwise(row).await;
            self.step(RowRange { start: row, end: row + 1 }).await;
        }
    }

    /// A row of the branch that was left, as it was bound there.
    async fn ask_for_left(&mut self, left: u64) {
        let job = &self.case.job;
        let row = self.dice.below(ROWS);
        let rows = RowRange { start: row, end: row + 1 };
        let commitments = {
            let history = self.world.history();
            [self.case.commitment(history.branches.of_row(job, left, row), row, self.dice.one_in(2))]
        };
        match timeout(CALL_TIMEOUT, self.client.bind(job, left, rows, &commitments)).await {
            Ok(Ok(_)) => {
                self.world
                    .history()
                    .violation(format!("{job} row {row} was bound on branch {left}, which was left"));
            }
            Ok(Err(error)) => self.world.history().left_refused(job, left, &error),
            Err(_) => {}
        }
    }

    /// A row of before, with a gradient of now.
    async fn bind_otherwise(&mut self, row: u64) {
        let job = &self.case.job;
        let rows = RowRange { start: row, end: row + 1 };
        let other = [self.case.commitment(self.branch, row, false)];
        if let Ok(Ok(_)) = timeout(CALL_TIMEOUT, self.client.bind(job, self.branch, rows, &other)).await {
            self.world.history().violation(format!("{job} row {row} was bound anew by a rewind to after it"));
        }
    }
}
