//! Which workers have proved that they have a job's key. Nothing that another worker says of the job's shards counts.

use std::collections::{BTreeMap, BTreeSet};

use proto::{Incarnation, JobId, KeyProof, Nonce, PossessionChallenge, Result, ServiceError, WorkerId};

use super::Cluster;

/// The heartbeats with proofs for another challenge that a process may send, one after the other. A heartbeat may be
/// overtaken by a new registration; one that always has wrong proofs comes from a worker without the key.
const MOST_DOUBTFUL: u32 = 3;

/// The processes whose last heartbeats had proofs that were not good, and how many of them.
pub type Doubts = BTreeMap<WorkerId, (Incarnation, u32)>;

/// A heartbeat's proofs, and what is needed to check them without the cluster.
#[derive(Debug)]
pub struct OpenProofs {
    challenge: [u8; 32],
    /// The job's nonce, the commitment to its key, and the proof; those that were good before are left out.
    proofs: BTreeMap<JobId, (Nonce, [u8; 32], KeyProof)>,
}

/// A heartbeat's proofs, checked.
#[derive(Debug)]
pub struct CheckedProofs {
    challenge: [u8; 32],
    good: BTreeSet<JobId>,
    has_bad: bool,
}

impl OpenProofs {
    /// Checks the proofs. Each takes some sixty microseconds.
    pub fn check(&self, worker: &WorkerId, incarnation: &Incarnation) -> CheckedProofs {
        let challenge = &self.challenge;
        let is_good = |job: &JobId, job_nonce: &Nonce, commitment: &[u8; 32], proof: &KeyProof| {
            let asked = PossessionChallenge { challenge, worker, incarnation, job, job_nonce };
            asked.is_met_by(commitment, &proof.signature)
        };
        let good = self.proofs.iter().filter(|(job, (nonce, key, it))| is_good(job, nonce, key, it));
        let good: BTreeSet<_> = good.map(|(job, _)| job.clone()).collect();
        CheckedProofs { challenge: self.challenge, has_bad: good.len() < self.proofs.len(), good }
    }
}

impl Cluster {
    /// Returns those of a worker's proofs that were not found good since it registered, one for each job that exists;
    /// `None` for an unknown worker.
    pub fn open_proofs(&self, worker: &WorkerId, proofs: &[KeyProof]) -> Option<OpenProofs> {
        let member = self.members.member(worker)?;
        let is_new = |proof: &&KeyProof| !member.proved.contains(&proof.job);
        let of_job = |proof: &KeyProof| {
            let record = &self.jobs.get(&proof.job)?.record;
            Some((proof.job.clone(), (record.nonce, record.key_commitment, proof.clone())))
        };
        let proofs = proofs.iter().filter(is_new).filter_map(of_job).collect();
        Some(OpenProofs { challenge: member.challenge, proofs })
    }

    /// Takes in what was checked. Fails where the heartbeat may belong to an earlier registration of the process:
    /// nothing that it says counts.
    pub fn settle_proofs(
        &mut self,
        worker: &WorkerId,
        incarnation: Incarnation,
        checked: CheckedProofs,
    ) -> Result<()> {
        let member = self.members.member_mut(worker).filter(|member| member.incarnation == incarnation);
        let Some(member) = member else { return Ok(()) };
        let is_of_this_registration = member.challenge == checked.challenge;
        if is_of_this_registration {
            member.proved.extend(checked.good);
        }
        if is_of_this_registration && !checked.has_bad {
            self.doubts.remove(worker);
            return Ok(());
        }
        let doubts = self.doubts.entry(worker.clone()).or_insert((incarnation, 0));
        if doubts.0 != incarnation {
            *doubts = (incarnation, 0);
        }
        doubts.1 += 1;
        if doubts.1 > MOST_DOUBTFUL && is_of_this_registration {
            return Ok(());
        }
        let reason = "its proofs of keys are not for the challenge of this registration".to_owned();
        Err(ServiceError::MustRegister { worker: worker.to_string(), reason })
    }

    /// Returns the jobs whose keys the process has proved to have.
    pub(super) fn proved_by(&self, worker: &WorkerId, incarnation: Incarnation) -> BTreeSet<JobId> {
        let member = self.members.member(worker).filter(|member| member.incarnation == incarnation);
        member.map(|member| member.proved.clone()).unwrap_or_default()
    }
}
