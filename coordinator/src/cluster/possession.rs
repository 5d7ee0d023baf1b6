//! Which workers have proved that they have a job's key. Nothing that another worker says of the job's shards counts.

use std::collections::{BTreeMap, BTreeSet};

use proto::{Incarnation, JobId, KeyProof, Nonce, PossessionChallenge, WorkerId};

use super::Cluster;

/// What is needed to check a worker's new proofs, without the cluster.
#[derive(Debug)]
pub struct OpenProofs {
    challenge: [u8; 32],
    /// The job's nonce, the commitment to its key, and the proof.
    proofs: BTreeMap<JobId, (Nonce, [u8; 32], KeyProof)>,
}

impl OpenProofs {
    /// Returns the jobs whose proofs are good. Each takes some sixty microseconds.
    pub fn good(&self, worker: &WorkerId, incarnation: &Incarnation) -> Vec<JobId> {
        let challenge = &self.challenge;
        let is_good = |job: &JobId, job_nonce: &Nonce, commitment: &[u8; 32], proof: &KeyProof| {
            let asked = PossessionChallenge { challenge, worker, incarnation, job, job_nonce };
            asked.is_met_by(commitment, &proof.signature)
        };
        let proofs = self.proofs.iter();
        proofs
            .filter(|(job, (nonce, key, it))| is_good(job, nonce, key, it))
            .map(|(job, _)| job.clone())
            .collect()
    }
}

impl Cluster {
    /// Returns those of a worker's proofs that were not found good since it registered, one for each job that exists.
    pub fn open_proofs(&self, worker: &WorkerId, proofs: &[KeyProof]) -> Option<OpenProofs> {
        let member = self.members.member(worker)?;
        let is_new = |proof: &&KeyProof| !member.proved.contains(&proof.job);
        let of_job = |proof: &KeyProof| {
            let record = &self.jobs.get(&proof.job)?.record;
            Some((proof.job.clone(), (record.nonce, record.key_commitment, proof.clone())))
        };
        let proofs: BTreeMap<_, _> = proofs.iter().filter(is_new).filter_map(of_job).collect();
        (!proofs.is_empty()).then_some(OpenProofs { challenge: member.challenge, proofs })
    }

    /// Notes that the process has proved to have the keys of these jobs, if `open` is still what it was asked.
    pub fn note_proved(
        &mut self,
        worker: &WorkerId,
        incarnation: Incarnation,
        open: &OpenProofs,
        jobs: Vec<JobId>,
    ) {
        let member = self
            .members
            .member_mut(worker)
            .filter(|member| member.incarnation == incarnation && member.challenge == open.challenge);
        if let Some(member) = member {
            member.proved.extend(jobs);
        }
    }

    /// Returns the jobs whose keys the process has proved to have.
    pub(super) fn proved_by(&self, worker: &WorkerId, incarnation: Incarnation) -> BTreeSet<JobId> {
        let member = self.members.member(worker).filter(|member| member.incarnation == incarnation);
        member.map(|member| member.proved.clone()).unwrap_or_default()
    }
}
