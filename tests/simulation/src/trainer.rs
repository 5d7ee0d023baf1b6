//! A training job: binds row after row and fetches it, whatever happens, and checks every byte. In every other seed it
//! crashes now and then, and resumes from a checkpoint of its own ([`crate::rewinds`]).

use std::sync::Arc;
use std::time::Duration;

use client::{Client, FetchRequest};
use dice::Dice;
use proto::{Commitment, CoordinateRange, NoiseId, Result, RowRange, ServiceError};
use tokio::time::{Instant, sleep, timeout};

use crate::cases::{Case, DIMENSION, ROWS};
use crate::net;
use crate::rewinds::{TrainerCheckpoint, crashes};
use crate::software::COORDINATOR;
use crate::world::World;

/// Longest time of one attempt; each is followed by another.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(8);
pub const WHOLE: CoordinateRange = CoordinateRange { start: 0, end: DIMENSION };

pub fn connect() -> Result<Client> {
    connect_to(COORDINATOR)
}

pub fn connect_to(host: &str) -> Result<Client> {
    Client::with_connections(&net::url(host), net::connections())
}

pub async fn train(world: Arc<World>, at: usize) -> turmoil::Result {
    let case = world.cases[at];
    let dice = Dice::named(world.seed, case.job.as_str());
    let mut trainer = Trainer { client: connect()?, dice, world, case, branch: 0 };
    trainer.create().await?;
    trainer.go_on().await?;
    trainer.ask_beyond().await;
    trainer.world.history().trained(&case.job, trainer.branch);
    Ok(())
}

pub struct Trainer {
    pub client: Client,
    pub dice: Dice,
    pub world: Arc<World>,
    pub case: &'static Case,
    /// That it binds on.
    pub branch: u64,
}

impl Trainer {
    /// Until an answer says what noise the job has: an earlier one may be lost, and the job there already.
    async fn create(&mut self) -> Result<()> {
        let shards = self.dice.within(1, 3) as u32;
        loop {
            match timeout(CALL_TIMEOUT, self.client.jobs().create(self.case.create(shards))).await {
                Ok(Ok(created)) => {
                    let noise_id = NoiseId::try_from(&created)?;
                    self.world.history().created(self.case, &noise_id);
                    return Ok(());
                }
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => {}
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// To the last row; a crash falls within a step, wherever that is by then.
    async fn go_on(&mut self) -> Result<()> {
        let mut crashes = crashes(self.world.seed, self.case);
        let mut kept = TrainerCheckpoint::default();
        let mut next = 0;
        while next < ROWS {
            let rows = RowRange { start: next, end: (next + self.dice.within(1, 3)).min(ROWS) };
            if crashes.last().is_some_and(|row| rows.end >= *row) {
                crashes.pop();
                let lives = self.dice.millis(0, 150);
                let _cut_short = timeout(lives, self.step(rows)).await;
                next = self.come_back(&mut kept).await?;
            } else {
                self.step(rows).await;
                next = rows.end;
                self.keep(next, &mut kept).await;
            }
            let pause = self.dice.millis(0, 250);
            sleep(pause).await;
        }
        Ok(())
    }

    /// All of the rows with this job's own gradient, or each with whichever it is bound to.
    pub async fn step(&mut self, rows: RowRange) {
        let own: Vec<_> = rows.as_range().map(|row| self.commitment(row, false)).collect();
        if self.fetch(rows, own).await {
            return;
        }
        for row in rows.as_range() {
            let one = RowRange { start: row, end: row + 1 };
            if !self.fetch(one, vec![self.commitment(row, false)]).await
                && !self.fetch(one, vec![self.commitment(row, true)]).await
            {
                let text = format!("{} row {row} is bound to none of its commitments", self.case.job);
                self.world.history().violation(text);
            }
        }
    }

    /// Rows that are from an earlier branch keep the gradients that they had there.
    pub fn commitment(&self, row: u64, is_rival: bool) -> Commitment {
        let branch = self.world.history().branches.of_row(&self.case.job, self.branch, row);
        self.case.commitment(branch, row, is_rival)
    }

    /// Until it works; false where a row is bound to something else.
    async fn fetch(&mut self, rows: RowRange, commitments: Vec<Commitment>) -> bool {
        loop {
            let in_two_steps = self.dice.one_in(2);
            let attempt = self.attempt(rows, &commitments, in_two_steps);
            match timeout(CALL_TIMEOUT + Duration::from_secs(1), attempt).await {
                Ok(Ok(())) => return true,
                Ok(Err(ServiceError::AlreadyBound { row, .. })) => {
                    let at = (row - rows.start) as usize;
                    self.world.history().refused(&self.case.job, self.branch, row, commitments[at]);
                    return false;
                }
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn attempt(&self, rows: RowRange, commitments: &[Commitment], in_two_steps: bool) -> Result<()> {
        let job = &self.case.job;
        let branch = self.branch;
        let request = FetchRequest {
            job: job.clone(),
            branch,
            rows,
            range: WHOLE,
            commitments: commitments.to_vec(),
            deadline: Instant::now() + CALL_TIMEOUT,
        };
        let newest = self.world.history().asked(job, branch, rows, commitments);
        let acked = || {
            let mut history = self.world.history();
            let bound = rows.as_range().zip(commitments);
            bound.for_each(|(row, bound)| history.acked(job, branch, newest, row, *bound));
        };
        let mut out = vec![f32::NAN; (rows.len() * DIMENSION) as usize];
        if in_two_steps {
            let released = self.client.bind(job, branch, rows, commitments).await?;
            acked();
            self.client.fetch(request).of_released(released).into_slice(&mut out).await?;
        } else {
            self.client.fetch(request).into_slice(&mut out).await?;
            acked();
        }
        self.world.history().delivered(self.case, branch, rows, WHOLE, &out);
        Ok(())
    }

    /// No row beyond the plan's is ever bound.
    async fn ask_beyond(&mut self) {
        let rows = RowRange { start: ROWS - 1, end: ROWS + 1 };
        let commitments = [self.commitment(ROWS - 1, false), self.commitment(ROWS, false)];
        let asked = self.client.bind(&self.case.job, self.branch, rows, &commitments);
        if let Ok(Ok(_)) = timeout(CALL_TIMEOUT, asked).await {
            self.world.history().violation(format!("{} row {ROWS} was bound", self.case.job));
        }
    }

    /// Faults of the cluster pass; refusals don't.
    pub fn expect_passing(&self, error: &ServiceError) {
        let passes = error.retry_safe()
            || matches!(
                error,
                ServiceError::RangeUnavailable { .. }
                    | ServiceError::NotBound { .. }
                    | ServiceError::Store { .. }
            );
        let mut history = self.world.history();
        // An old copy answers a cursor that it is behind.
        let is_old = matches!(error, ServiceError::LedgerCopied { .. } | ServiceError::LedgerBehind { .. });
        let is_copied = history.may_be_copied && is_old;
        if passes || is_copied {
            history.event(format!("{}: {}", self.case.job, error.kind()))
        } else {
            history.violation(format!("{}: refused for good: {error}", self.case.job))
        }
    }
}
