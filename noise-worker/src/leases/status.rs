//! Reports on the shards: to the coordinator with each heartbeat, and to Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use noise_kernel::JobKey;
use proto::{Incarnation, JobId, KeyProof, Nonce, PossessionChallenge, WorkerId, pb};

use super::Leases;
use crate::{
    metric_definitions as metric,
    shard::{Phase, Shard},
};

/// What proofs of keys are signatures over, beside the job.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    pub worker: &'a WorkerId,
    pub incarnation: &'a Incarnation,
    /// The bytes that the coordinator drew for it.
    pub challenge: &'a [u8; 32],
}

impl Registration<'_> {
    fn prove(&self, key: &JobKey, job: &JobId, job_nonce: &Nonce) -> [u8; 64] {
        let Self { worker, incarnation, challenge } = *self;
        let asked = PossessionChallenge { challenge, worker, incarnation, job, job_nonce };
        key.prove_possession(asked.signed_text().as_bytes())
    }
}

impl Leases {
    /// Returns the status of the leases.
    pub fn status(&self) -> Vec<pb::LeaseStatus> {
        let shards: Vec<_> = self.table().shards.values().cloned().collect();
        shards.iter().map(|shard| self.status_of(shard)).collect()
    }

    /// Returns the status of the standbys. One is READY once the rows that its job will soon request are generated.
    pub fn standby_status(&self) -> Vec<pb::LeaseStatus> {
        let shards: Vec<_> = self.table().standbys.values().cloned().collect();
        let status = |shard: &Arc<Shard>| {
            let mut status = self.status_of(shard);
            let ahead_rows = self.limits.ahead_rows(shard.grant().range.len());
            if status.state() == pb::LeaseState::Ready && !shard.is_ahead(ahead_rows) {
                status.set_state(pb::LeaseState::Restoring);
            }
            status
        };
        shards.iter().map(status).collect()
    }

    /// Returns the proofs that this worker has the keys of the jobs whose shards it reports on. Of a job whose key it does
    /// not have there is none: the status says why.
    pub fn key_proofs(&self, registration: &Registration<'_>) -> Vec<pb::KeyProof> {
        let table = self.table();
        let shards = table.shards.values().chain(table.standbys.values());
        let jobs: BTreeMap<JobId, (Nonce, [u8; 32])> = shards
            .map(|shard| (shard.job().clone(), (shard.grant().job_nonce, shard.grant().key_commitment)))
            .collect();
        drop(table);
        let mut proofs = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        // Signed once for a registration; a job that comes back later may have another key.
        proofs.retain(|(challenge, job), _| challenge == registration.challenge && jobs.contains_key(job));
        let sign = |job: &JobId, nonce: &Nonce, commitment: &[u8; 32]| {
            let key = self.keyring.key(job).ok().filter(|key| key.commitment() == *commitment)?;
            Some(registration.prove(&key, job, nonce))
        };
        let prove = |(job, (nonce, commitment)): (&JobId, &(Nonce, [u8; 32]))| {
            let of = (*registration.challenge, job.clone());
            let known = proofs.get(&of).copied();
            let signature = known.or_else(|| sign(job, nonce, commitment))?;
            proofs.insert(of, signature);
            Some(KeyProof { job: job.clone(), signature }.into())
        };
        jobs.iter().filter_map(prove).collect()
    }

    fn status_of(&self, shard: &Shard) -> pb::LeaseStatus {
        let (state, message) = match shard.phase() {
            Phase::Restoring => (pb::LeaseState::Restoring, String::new()),
            Phase::Ready => (pb::LeaseState::Ready, String::new()),
            Phase::Failed(error) => (pb::LeaseState::Failed, error.to_string()),
        };
        // The key of a ready shard was checked against its grant when the shard was begun.
        let commitment = match state {
            pb::LeaseState::Ready => Ok(shard.grant().key_commitment.to_vec()),
            _ => self.keyring.key(shard.job()).map(|key| key.commitment().to_vec()),
        };
        pb::LeaseStatus {
            job: shard.job().to_string(),
            shard: shard.grant().shard,
            epoch: shard.epoch(),
            state: state.into(),
            next_row: shard.next_row(),
            state_bytes: shard.state_bytes(),
            ahead_bytes: shard.ahead_bytes(),
            key_commitment: commitment.unwrap_or_default(),
            message,
            released: shard.released(),
            row_seconds: shard.row_time().as_secs_f64(),
            stalled_seconds: shard.stalled().as_secs_f64(),
        }
    }

    /// Returns the bytes of state and of rows.
    pub fn memory(&self) -> (u64, u64) {
        let table = self.table();
        let shards = table.shards.values().chain(table.standbys.values());
        shards.fold((0, 0), |(state, ahead), s| (state + s.state_bytes(), ahead + s.ahead_bytes()))
    }

    /// Returns the number of leases that can't be served yet.
    pub fn restoring(&self) -> usize {
        self.table().shards.values().filter(|shard| shard.phase() == Phase::Restoring).count()
    }

    /// Sets the gauges of the shards.
    pub fn record_gauges(&self) {
        let shards: Vec<_> = self.table().shards.values().cloned().collect();
        let mut restoring = 0.0;
        let mut ready = 0.0;
        let mut failed = 0.0;
        for shard in &shards {
            match shard.phase() {
                Phase::Restoring => restoring += 1.0,
                Phase::Ready => ready += 1.0,
                Phase::Failed(_) => failed += 1.0,
            }
        }
        for (state, count) in [("restoring", restoring), ("ready", ready), ("failed", failed)] {
            metrics::gauge!(metric::SHARDS, "state" => state).set(count);
        }
        let (state, ahead) = self.memory();
        metrics::gauge!(metric::STATE_BYTES).set(state as f64);
        metrics::gauge!(metric::AHEAD_BYTES).set(ahead as f64);
        let fewest = shards.iter().map(|shard| shard.rows_ahead()).min().unwrap_or(0);
        let furthest = shards.iter().map(|shard| shard.rows_behind()).max().unwrap_or(0);
        let epoch = shards.iter().map(|shard| shard.epoch()).max().unwrap_or(0);
        metrics::gauge!(metric::AHEAD_ROWS).set(fewest as f64);
        metrics::gauge!(metric::BEHIND_ROWS).set(furthest as f64);
        metrics::gauge!(metric::LEASE_EPOCH).set(epoch as f64);
    }
}
