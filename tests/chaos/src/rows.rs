//! A job whose rows are taken one by one, whole or in parts, and timed.

use std::time::{Duration, Instant};

use anyhow::ensure;
use client::{Client, FetchRequest};
use dice::Dice;
use node::process::runtime::Runtime;
use noise_kernel::{JobKey, Oracle};
use noise_worker::generation_spec::GenerationSpec;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{Commitment, CoordinateRange, JobId, NoiseId, RowRange, pb};

use crate::KEY;

pub const NO_PROGRESS: Duration = Duration::from_secs(240);
/// A vector is compared with the oracle in so many places.
const SAMPLES: u64 = 64;

pub struct Rows {
    pub client: Client,
    pub runtime: Runtime,
    pub job: JobId,
    pub dimension: u64,
    oracle: Oracle,
    /// The next one.
    row: u64,
    out: Vec<f32>,
}

impl Rows {
    /// Of a job made for it: a BLT of two buffers, so many rows.
    pub fn begin(
        runtime: Runtime,
        client: Client,
        (dimension, shards): (u64, u32),
        rows: u64,
    ) -> anyhow::Result<Self> {
        let plan = Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: rows,
            noise_multiplier: 1.0,
            clip_norm: 1.0,
            participation: Participation { min_sep: 1, max_participations: 1 },
            mechanism: Mechanism::Blt { theta: vec![0.999, 0.9], omega: vec![0.01, 0.2] },
            layout: None,
            grid: None,
        })?;
        let job = JobId::new("rows")?;
        let key = JobKey::from_bytes(&KEY)?;
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string()?,
            dimension,
            shards,
            key_commitment: key.commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
            account: None,
        };
        let created = runtime.block_on(client.jobs().create(request))?;
        let noise_id = NoiseId::try_from(&created)?;
        let oracle = GenerationSpec::new(&plan, &key, dimension, &noise_id)?.oracle()?;
        let out = vec![0.0; dimension as usize];
        Ok(Self { client, runtime, job, dimension, oracle, row: 0, out })
    }

    /// The next row, whole; says when it was here.
    pub fn take(&mut self) -> anyhow::Result<Instant> {
        self.out.fill(f32::NAN);
        let request = self.next(0..self.dimension);
        self.runtime.block_on(self.client.fetch(request).into_slice(&mut self.out))?;
        Ok(Instant::now())
    }

    /// Asks for these coordinates of the next row, and of no others of that row later.
    pub fn next(&mut self, range: std::ops::Range<u64>) -> FetchRequest {
        self.row += 1;
        FetchRequest {
            job: self.job.clone(),
            branch: 0,
            rows: RowRange { start: self.row - 1, end: self.row },
            range: CoordinateRange { start: range.start, end: range.end },
            commitments: vec![Commitment::of_text(&format!("row {}", self.row - 1))],
            deadline: (Instant::now() + NO_PROGRESS).into(),
        }
    }

    /// The row that was taken last, whole, in samples and at both ends.
    pub fn compare(&self, dice: &mut Dice) -> anyhow::Result<()> {
        let row = self.row - 1;
        let random = (0..SAMPLES).map(|_| dice.below(self.dimension));
        for start in random.chain([0, self.dimension.saturating_sub(512)]) {
            let range = start..(start + 512).min(self.dimension);
            let exact = &self.oracle.rows(row..row + 1, range.clone())?[0];
            let got = &self.out[range.start as usize..range.end as usize];
            let is_same = got.iter().zip(exact).all(|(got, exact)| got.to_bits() == exact.to_bits());
            ensure!(is_same, "row {row} differs from the oracle within {range:?}");
        }
        Ok(())
    }
}

/// Nearest rank.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!((percentile(&values, 50.0), percentile(&values, 95.0)), (10.0, 19.0));
        assert_eq!(percentile(&[3.0], 95.0), 3.0);
    }
}
