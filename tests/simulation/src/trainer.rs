//! A training job: binds row after row and fetches it, whatever happens, and checks every byte.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, FetchRequest};
use dice::Dice;
use proto::{Commitment, CoordinateRange, Result, RowRange, ServiceError};
use tokio::time::{Instant, sleep, timeout};

use crate::cases::{Case, DIMENSION, ROWS};
use crate::net;
use crate::software::COORDINATOR;
use crate::world::World;

/// Of one attempt; there is always another.
const PATIENCE: Duration = Duration::from_secs(8);
pub const WHOLE: CoordinateRange = CoordinateRange { start: 0, end: DIMENSION };

pub fn connect() -> Result<Client> {
    Client::with_connections(&net::url(COORDINATOR), net::connections())
}

pub async fn train(world: Arc<World>, at: usize) -> turmoil::Result {
    let case = world.cases[at];
    let mut trainer =
        Trainer { client: connect()?, dice: Dice::named(world.seed, case.job.as_str()), world, case };
    trainer.create().await;
    let mut next = 0;
    while next < ROWS {
        let end = (next + trainer.dice.within(1, 3)).min(ROWS);
        trainer.step(RowRange { start: next, end }).await;
        next = end;
        let pause = trainer.dice.millis(0, 250);
        sleep(pause).await;
    }
    trainer.ask_beyond().await;
    Ok(())
}

struct Trainer {
    client: Client,
    dice: Dice,
    world: Arc<World>,
    case: &'static Case,
}

impl Trainer {
    async fn create(&mut self) {
        let shards = self.dice.within(1, 3) as u32;
        loop {
            match timeout(PATIENCE, self.client.jobs().create(self.case.create(shards))).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => {}
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// All of the rows with this job's own gradient, or each with whichever it is bound to.
    async fn step(&mut self, rows: RowRange) {
        let own: Vec<_> = rows.as_range().map(|row| self.case.commitment(row, false)).collect();
        if self.fetch(rows, own).await {
            return;
        }
        for row in rows.as_range() {
            let one = RowRange { start: row, end: row + 1 };
            if !self.fetch(one, vec![self.case.commitment(row, false)]).await
                && !self.fetch(one, vec![self.case.commitment(row, true)]).await
            {
                let text = format!("{} row {row} is bound to none of its commitments", self.case.job);
                self.world.history().violation(text);
            }
        }
    }

    /// Until it works; false where a row is bound to something else.
    async fn fetch(&mut self, rows: RowRange, commitments: Vec<Commitment>) -> bool {
        loop {
            let in_two_steps = self.dice.one_in(2);
            let attempt = self.attempt(rows, &commitments, in_two_steps);
            match timeout(PATIENCE + Duration::from_secs(1), attempt).await {
                Ok(Ok(())) => return true,
                Ok(Err(ServiceError::AlreadyBound { row, .. })) => {
                    let at = (row - rows.start) as usize;
                    self.world.history().refused(&self.case.job, row, commitments[at]);
                    return false;
                }
                Ok(Err(error)) => self.expect_passing(&error),
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn attempt(&self, rows: RowRange, commitments: &[Commitment], in_two_steps: bool) -> Result<()> {
        let request = FetchRequest {
            job: self.case.job.clone(),
            branch: 0,
            rows,
            range: WHOLE,
            commitments: commitments.to_vec(),
            deadline: Instant::now() + PATIENCE,
        };
        let mut out = vec![f32::NAN; (rows.len() * DIMENSION) as usize];
        if in_two_steps {
            let tokens = self.client.bind(&self.case.job, 0, rows, commitments).await?;
            self.acked(rows, commitments);
            self.client.fetch_bound_into(request, tokens, &mut out).await?;
        } else {
            self.client.fetch_into(request, &mut out).await?;
            self.acked(rows, commitments);
        }
        self.world.history().delivered(self.case, rows, WHOLE, &out);
        Ok(())
    }

    fn acked(&self, rows: RowRange, commitments: &[Commitment]) {
        let mut history = self.world.history();
        rows.as_range().zip(commitments).for_each(|(row, bound)| history.acked(&self.case.job, row, *bound));
    }

    /// No row beyond the plan's is ever bound.
    async fn ask_beyond(&mut self) {
        let rows = RowRange { start: ROWS - 1, end: ROWS + 1 };
        let commitments = [self.case.commitment(ROWS - 1, false), self.case.commitment(ROWS, false)];
        let asked = timeout(PATIENCE, self.client.bind(&self.case.job, 0, rows, &commitments)).await;
        if let Ok(Ok(_)) = asked {
            self.world.history().violation(format!("{} row {ROWS} was bound", self.case.job));
        }
    }

    /// Faults of the cluster pass; refusals don't.
    fn expect_passing(&self, error: &ServiceError) {
        let passes = error.retry_safe()
            || matches!(
                error,
                ServiceError::RangeUnavailable { .. }
                    | ServiceError::NotBound { .. }
                    | ServiceError::Store { .. }
            );
        let mut history = self.world.history();
        match passes {
            true => history.event(format!("{}: {}", self.case.job, error.kind())),
            false => history.violation(format!("{}: refused for good: {error}", self.case.job)),
        }
    }
}
