//! Buyers of a privacy budget: in half of the seeds three of them race for one data set, with or without shares and blocks, which is
//! too small for all that they want. They create jobs in it, bind rows, rewind, end jobs or leave them, and change the budget. An
//! answer may be lost, as any; then they ask again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use dice::Dice;
use proto::model::PrivacyBudget;
use proto::{Commitment, JobId, Result, RowRange, ServiceError, TenantId, pb};
use tokio::time::{sleep, timeout};

use crate::charges::{DELTA, data_set};
use crate::pool::{BLOCKS, Pool, ROWS, TENANTS, request};
use crate::trainer::connect;
use crate::world::World;

pub const BUYERS: usize = 3;
const CALL_TIMEOUT: Duration = Duration::from_secs(4);
/// Attempts of one request, after which a buyer turns to its next job.
const ATTEMPTS: u32 = 40;

pub async fn buy(world: Arc<World>, at: usize, pool: Pool) -> turmoil::Result {
    let dice = Dice::named(world.seed, &format!("buyer {at}"));
    let mut buyer = Buyer { client: connect()?, dice, world, at, pool };
    if at == 0 {
        let is_open = buyer.open().await;
        buyer.world.history().purchases.is_open = Some(is_open);
    }
    if !buyer.is_open().await {
        return Ok(());
    }
    for number in 0..buyer.dice.within(2, 4) {
        let pause = buyer.dice.millis(0, 900);
        sleep(pause).await;
        if buyer.dice.one_in(4) {
            buyer.grant().await;
        }
        // A job that several want exists once, by the request that is first.
        let name =
            if buyer.dice.one_in(4) { format!("shared-{number}") } else { format!("of-{at}-{number}") };
        let job = JobId::new(name).expect("a name");
        if buyer.create(&job).await {
            buyer.use_up(&job).await;
        }
    }
    Ok(())
}

/// The outcome of a request that was repeated until an answer said what became of it.
enum Outcome<T> {
    Done(T),
    Refused(ServiceError),
    /// No answer in all attempts: it may be done.
    Unknown,
}

struct Buyer {
    client: Client,
    dice: Dice,
    world: Arc<World>,
    at: usize,
    pool: Pool,
}

impl Buyer {
    async fn repeat<T, F>(&mut self, what: &str, request: impl Fn() -> F) -> Outcome<T>
    where
        F: Future<Output = Result<T>>,
    {
        for _ in 0..ATTEMPTS {
            // One that is impatient hears nothing of what it has done.
            let patience = if self.dice.one_in(4) { self.dice.millis(1, 80) } else { CALL_TIMEOUT };
            match timeout(patience, request()).await {
                Ok(Ok(done)) => return Outcome::Done(done),
                Ok(Err(error)) if error.retry_safe() || matches!(error, ServiceError::Store { .. }) => {
                    self.world.history().event(format!("buyer {}: {what}: {}", self.at, error.kind()));
                }
                Ok(Err(error)) => {
                    self.world.history().event(format!("buyer {}: {what}: {}", self.at, error.kind()));
                    return Outcome::Refused(error);
                }
                Err(_) => self.world.history().event(format!("buyer {}: {what}: no answer", self.at)),
            }
            sleep(Duration::from_millis(150)).await;
        }
        Outcome::Unknown
    }

    /// Makes the data set with its blocks and shares. Returns whether all of it is there.
    async fn open(&mut self) -> bool {
        let Pool { epsilon, has_shares, has_blocks, is_per_block } = self.pool;
        let budgets = self.client.budgets();
        let request = pb::CreateDataSetRequest {
            data_set: data_set().to_string(),
            unit: "user".to_owned(),
            neighbouring: "zero-out".to_owned(),
            budget: Some(pb::PrivacyAmount { epsilon, delta: DELTA }),
            per_block: is_per_block,
            approval_rule: None,
        };
        let mut made = vec![self.repeat("data set", || budgets.create(request.clone())).await];
        for (block, from, until) in BLOCKS.into_iter().filter(|_| has_blocks) {
            let request = pb::AddBlockRequest {
                data_set: data_set().to_string(),
                block: block.to_owned(),
                from: from.to_owned(),
                until: until.to_owned(),
                budget: None,
            };
            made.push(self.repeat("block", || budgets.add_block(request.clone())).await);
        }
        for name in TENANTS.into_iter().filter(|_| has_shares) {
            let share = PrivacyBudget::new(epsilon * 0.7, DELTA).ok();
            let tenant = TenantId::new(name).expect("a name");
            let data_set = data_set();
            made.push(self.repeat("share", || budgets.set_share(&data_set, &tenant, share)).await);
        }
        made.into_iter().all(|outcome| match outcome {
            Outcome::Done(_) => true,
            Outcome::Refused(error) => self.unexpected("the data set", &error),
            Outcome::Unknown => false,
        })
    }

    async fn is_open(&self) -> bool {
        loop {
            let is_open = self.world.history().purchases.is_open;
            match is_open {
                Some(is_open) => return is_open,
                None => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Records an answer that is none of the expected ones. Returns false.
    fn unexpected(&self, what: &str, error: &ServiceError) -> bool {
        let mut history = self.world.history();
        // A ledger that was deleted, or is known as a copy, takes nothing.
        if self.world.mishap.is_some() {
            history.event(format!("{what}: {}", error.kind()));
        } else {
            history.violation(format!("{what}: refused for good: {error}"));
        }
        false
    }

    async fn grant(&mut self) {
        let part = *self.dice.pick(&[0.25, 0.5, 1.0, 1.5, 2.0]);
        let Ok(budget) = PrivacyBudget::new(self.pool.epsilon * part, DELTA) else { return };
        let budgets = self.client.budgets();
        let data_set = data_set();
        match self.repeat("grant", || budgets.grant(&data_set, budget)).await {
            Outcome::Done(_) => self.world.history().tally.budgets_granted += 1,
            // It is below what is charged.
            Outcome::Refused(ServiceError::InvalidArgument { .. }) | Outcome::Unknown => {}
            Outcome::Refused(error) => drop(self.unexpected("a budget", &error)),
        }
    }

    /// Creates a job; returns whether it exists.
    async fn create(&mut self, job: &JobId) -> bool {
        let request = request(job, self.pool, Dice::named(self.world.seed, job.as_str()));
        let jobs = self.client.jobs();
        let outcome = self.repeat(job.as_str(), || jobs.create(request.clone())).await;
        let mut history = self.world.history();
        match outcome {
            Outcome::Done(_) => {
                history.tally.jobs_admitted += 1;
                history.purchases.refused.remove(job);
                history.purchases.admitted.insert(job.clone());
                true
            }
            Outcome::Refused(ServiceError::BudgetExceeded(_)) => {
                history.tally.jobs_refused += 1;
                // One that several want may be admitted later, by the request of another.
                if !job.as_str().starts_with("shared") {
                    history.purchases.refused.insert(job.clone());
                }
                false
            }
            // Another buyer has ended it already.
            Outcome::Refused(ServiceError::JobState { .. }) | Outcome::Unknown => false,
            Outcome::Refused(error) => {
                drop(history);
                self.unexpected(job.as_str(), &error)
            }
        }
    }

    async fn use_up(&mut self, job: &JobId) {
        match self.dice.below(5) {
            // Its reservation stays.
            0 => {}
            1 => self.end(job).await,
            2 => {
                self.bind(job, 0).await;
            }
            3 => {
                self.bind(job, 0).await;
                self.end(job).await;
            }
            _ => {
                let branch = self.bind_and_rewind(job).await;
                self.bind(job, branch).await;
            }
        }
    }

    async fn bind(&mut self, job: &JobId, branch: u64) {
        let rows = RowRange { start: 0, end: self.dice.within(1, ROWS) };
        let commitments: Vec<_> =
            rows.as_range().map(|row| Commitment::of_text(&format!("{job} {branch} {row}"))).collect();
        let client = self.client.clone();
        self.world.history().purchases.asked.insert(job.clone());
        let outcome = self.repeat("bind", || client.bind(job, branch, rows, &commitments)).await;
        if let Outcome::Done(_) = outcome {
            self.world.history().purchases.bound.insert(job.clone());
        }
    }

    /// Returns the branch that the job is on then.
    async fn bind_and_rewind(&mut self, job: &JobId) -> u64 {
        self.bind(job, 0).await;
        let jobs = self.client.jobs();
        let outcome = self.repeat("rewind", || jobs.rewind(job, 0, 0)).await;
        let mut history = self.world.history();
        let opened = match outcome {
            Outcome::Done(opened) => opened.branch,
            Outcome::Refused(ServiceError::BranchSuperseded { current, .. }) => current,
            Outcome::Refused(ServiceError::BudgetExceeded(_)) => {
                history.tally.rewinds_refused += 1;
                return 0;
            }
            _ => return 0,
        };
        history.purchases.rewound.insert((job.clone(), opened));
        opened
    }

    async fn end(&mut self, job: &JobId) {
        let jobs = self.client.jobs();
        let is_ended = if self.dice.one_in(2) {
            matches!(self.repeat("finish", || jobs.finish(job)).await, Outcome::Done(_))
        } else {
            matches!(self.repeat("destroy", || jobs.destroy(job)).await, Outcome::Done(_))
        };
        if is_ended {
            self.world.history().purchases.ended.insert(job.clone());
        }
    }
}
