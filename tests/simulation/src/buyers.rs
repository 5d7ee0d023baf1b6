//! Buyers of a privacy budget: in every other seed two of them race for one data set, which is too small for all that they want.
//! They create jobs in it, bind rows, rewind, end jobs or leave them, and change the budget. An answer may be lost, as any; then
//! they ask again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use dice::Dice;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::model::PrivacyBudget;
use proto::{Commitment, JobId, Result, RowRange, ServiceError, pb};
use tokio::time::{sleep, timeout};

use crate::cases;
use crate::charges::{DELTA, data_set};
use crate::mishaps::Mishap;
use crate::trainer::connect;
use crate::world::World;

pub const BUYERS: usize = 2;
const ROWS: u64 = 4;
const DIMENSION: u64 = 64;
const CALL_TIMEOUT: Duration = Duration::from_secs(4);
/// Attempts of one request, after which a buyer gives up: it wants other jobs too.
const ATTEMPTS: u32 = 40;

/// The first budget of the seed's data set; `None` where it has no buyers. An old copy of a ledger in its place knows nothing of
/// what was bought since, and says so by stopping.
pub fn budget(seed: u64) -> Option<f64> {
    let mut dice = Dice::named(seed, "budget");
    let has_buyers = dice.one_in(2) && !Mishap::of(seed).is_some_and(Mishap::stops_original);
    has_buyers.then(|| *dice.pick(&[0.5, 1.0, 2.0, 4.0]))
}

pub async fn buy(world: Arc<World>, at: usize, epsilon: f64) -> turmoil::Result {
    let dice = Dice::named(world.seed, &format!("buyer {at}"));
    let mut buyer = Buyer { client: connect()?, dice, world, at };
    if !buyer.open(epsilon).await {
        return Ok(());
    }
    for number in 0..buyer.dice.within(2, 5) {
        let pause = buyer.dice.millis(0, 900);
        sleep(pause).await;
        if buyer.dice.one_in(4) {
            buyer.grant(epsilon).await;
        }
        // A job that both want exists once, by whichever request is first.
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

    /// Makes the data set, unless the other buyer has. Returns whether it is there.
    async fn open(&mut self, epsilon: f64) -> bool {
        let budgets = self.client.budgets();
        let request = pb::CreateDataSetRequest {
            data_set: data_set().to_string(),
            unit: "user".to_owned(),
            neighbouring: "zero-out".to_owned(),
            budget: Some(pb::PrivacyAmount { epsilon, delta: DELTA }),
            per_block: false,
            approval_rule: None,
        };
        let is_open = match self.repeat("data set", || budgets.create(request.clone())).await {
            Outcome::Done(_) => true,
            // The other one's, whose budget may be another by now.
            Outcome::Refused(ServiceError::AlreadyExists { .. }) => true,
            Outcome::Refused(error) => self.unexpected("the data set", &error),
            Outcome::Unknown => false,
        };
        self.world.history().purchases.is_open |= is_open;
        is_open
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

    async fn grant(&mut self, epsilon: f64) {
        let part = *self.dice.pick(&[0.25, 0.5, 1.0, 1.5, 2.0]);
        let Ok(budget) = PrivacyBudget::new(epsilon * part, DELTA) else { return };
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
        // Its definition is the same from both buyers.
        let noise = *Dice::named(self.world.seed, job.as_str()).pick(&[2.0, 4.0, 8.0, 16.0]);
        let request = request(job, noise);
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
                // One that both want may be admitted later, by the other's request.
                if !job.as_str().starts_with("shared") {
                    history.purchases.refused.insert(job.clone());
                }
                false
            }
            // The other buyer has ended it already.
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

fn request(job: &JobId, noise_multiplier: f64) -> pb::CreateJobRequest {
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: ROWS,
        noise_multiplier,
        clip_norm: 1.0,
        participation: Participation { min_sep: 2, max_participations: 2 },
        mechanism: Mechanism::Identity,
        layout: None,
        grid: None,
    })
    .expect("a valid plan");
    pb::CreateJobRequest {
        job: job.to_string(),
        plan_toml: plan.to_toml_string().expect("a plan has a text"),
        dimension: DIMENSION,
        shards: 1,
        key_commitment: cases::key().commitment().to_vec(),
        plan_digest: plan.digest().to_vec(),
        account: Some(pb::BudgetedAccount {
            data_set: data_set().to_string(),
            unit: "user".to_owned(),
            neighbouring: "zero-out".to_owned(),
            ..pb::BudgetedAccount::default()
        }),
    }
}
