//! The jobs of a session, one after the other, each with all of its rows by the oracle once it was created: the ledger
//! draws a nonce then.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use noise_kernel::JobKey;
use noise_worker::generation_spec::GenerationSpec;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{JobId, NoiseId, pb};

use crate::KEY;

pub const ROWS: u64 = 200;
/// Coordinates of every job. Not a multiple of 512, so that the last block is short.
pub const DIMENSION: u64 = 5_000;
const SHARDS: u32 = 6;
/// Jobs that stay open beside the newest; older ones are destroyed.
const KEPT: usize = 3;

pub struct Case {
    pub job: JobId,
    pub request: pb::CreateJobRequest,
    /// `rows[t][i]`, by the oracle; empty until [`Case::created`].
    pub rows: Vec<Vec<f32>>,
    plan: Plan,
}

#[derive(Default)]
pub struct Cases(Mutex<Vec<Arc<Case>>>);

fn mechanism(number: usize) -> Mechanism {
    match number % 4 {
        0 => Mechanism::Blt { theta: vec![0.999, 0.9, 0.3], omega: vec![0.01, 0.2, 0.3] },
        1 => Mechanism::BandInverse { coefficients: vec![1.0, -0.4, -0.1] },
        2 => Mechanism::Tree { restarts: vec![13, 30], completion: true },
        _ => Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5, 0.25], column_normalised: false },
    }
}

impl Case {
    pub fn new(number: usize) -> anyhow::Result<Self> {
        Self::named(&format!("chaos-{number}"), number)
    }

    /// Returns the case of a job with the mechanism of that number.
    pub fn named(name: &str, number: usize) -> anyhow::Result<Self> {
        let spec = PlanSpec {
            chacha_rounds: 20,
            iterations: ROWS,
            noise_multiplier: 1.5,
            clip_norm: 0.5,
            participation: Participation { min_sep: 10, max_participations: 4 },
            mechanism: mechanism(number),
            layout: None,
            grid: None,
        };
        let plan = Plan::new(spec)?;
        let job = JobId::new(name)?;
        let key = JobKey::from_bytes(&KEY)?;
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string()?,
            dimension: DIMENSION,
            shards: SHARDS,
            key_commitment: key.commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
            account: None,
        };
        Ok(Self { job, request, rows: Vec::new(), plan })
    }

    /// Computes the rows, from the answer to the job's creation.
    pub fn created(self, answer: &pb::Job) -> anyhow::Result<Self> {
        let rows = self.rows_of(&NoiseId::try_from(answer)?, 0..ROWS)?;
        Ok(Self { rows, ..self })
    }

    /// Returns the rows that the oracle computes for a branch of the job.
    pub fn rows_of(&self, noise_id: &NoiseId, rows: Range<u64>) -> anyhow::Result<Vec<Vec<f32>>> {
        let key = JobKey::from_bytes(&KEY)?;
        let oracle = GenerationSpec::new(&self.plan, &key, DIMENSION, noise_id)?.oracle()?;
        Ok(oracle.rows(rows, 0..DIMENSION)?)
    }
}

impl Cases {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Case>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.list().len()
    }

    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    pub fn add(&self, case: Case) {
        self.list().push(Arc::new(case));
    }

    pub fn get(&self, number: usize) -> Option<Arc<Case>> {
        self.list().get(number).cloned()
    }

    /// Those that are not destroyed.
    pub fn open(&self) -> Vec<Arc<Case>> {
        let list = self.list();
        list[list.len().saturating_sub(KEPT + 1)..].to_vec()
    }

    /// Those that the next job does not destroy either. Not empty once a job has begun.
    pub fn lasting(&self) -> Vec<Arc<Case>> {
        let list = self.list();
        list[list.len().saturating_sub(KEPT)..].to_vec()
    }

    /// What has to go where one more job is added.
    pub fn outdated(&self) -> Option<Arc<Case>> {
        let list = self.list();
        list.len().checked_sub(KEPT + 1).and_then(|number| list.get(number).cloned())
    }
}
