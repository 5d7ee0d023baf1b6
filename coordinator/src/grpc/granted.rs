//! Grants in the answer to a heartbeat, within the size that a message may have: those of one job never take away those of
//! the others.

use std::collections::BTreeMap;

use prost::Message;
use proto::model::GrantedLeases;
use proto::pb::LeaseGrant;

/// Bytes that each grant takes in its answer besides itself.
const FIELD_BYTES: usize = 8;

/// The grants of an answer, as messages.
#[derive(Debug, Default)]
pub struct GrantMessages {
    pub leases: Vec<LeaseGrant>,
    pub standbys: Vec<LeaseGrant>,
    /// The jobs whose grants would not fit, with their bytes.
    pub left_out: Vec<(String, usize)>,
}

impl GrantMessages {
    /// Returns messages of at most `limit` bytes together. Where that is too little, the job with the most bytes is left out
    /// whole, and so on.
    pub fn within(limit: usize, granted: GrantedLeases) -> Self {
        let (leases, standbys) = granted.into_messages();
        let mut bytes: BTreeMap<&str, usize> = BTreeMap::new();
        for grant in leases.iter().chain(&standbys) {
            *bytes.entry(&grant.job).or_default() += grant.encoded_len() + FIELD_BYTES;
        }
        let mut total: usize = bytes.values().sum();
        let mut left_out = Vec::new();
        while total > limit
            && let Some((job, largest)) =
                bytes.iter().max_by_key(|(_, bytes)| **bytes).map(|(job, it)| (*job, *it))
        {
            bytes.remove(job);
            total -= largest;
            left_out.push((job.to_owned(), largest));
        }
        let kept = |grants: Vec<LeaseGrant>| {
            let is_kept = |grant: &LeaseGrant| left_out.iter().all(|(job, _)| *job != grant.job);
            grants.into_iter().filter(is_kept).collect()
        };
        Self { leases: kept(leases), standbys: kept(standbys), left_out }
    }
}

#[cfg(test)]
mod tests {
    use proto::model::LeaseGrant;
    use proto::{CoordinateRange, JobId, Lineage, Nonce};

    use super::*;

    fn grants(job: &str, shards: u32, segments: u64) -> Vec<LeaseGrant> {
        let nonce = Nonce::from_bytes([1; 32]);
        let root = Lineage::of_job(nonce);
        let lineage = (1..segments).fold(root, |lineage, branch| lineage.rewound(branch, branch, nonce));
        let grant = |shard| LeaseGrant {
            job: JobId::new(job).unwrap(),
            job_nonce: nonce,
            ledger: nonce,
            lineage: lineage.clone(),
            shard,
            range: CoordinateRange { start: 0, end: 512 },
            epoch: 1,
            dimension: 512,
            plan_digest: [2; 32],
            layout_digest: [3; 32],
            key_commitment: [4; 32],
            next_row: 5,
            store_url: String::new(),
            pieces: Vec::new(),
        };
        (0..shards).map(grant).collect()
    }

    #[test]
    fn the_largest_job_is_left_out_and_no_other() {
        let granted = GrantedLeases {
            leases: [grants("large", 600, 900), grants("small", 3, 1), grants("middle", 40, 1)].concat(),
            standbys: grants("small", 1, 1),
        };
        let all = GrantMessages::within(1 << 20, granted.clone());
        assert_eq!((all.leases.len(), all.standbys.len(), all.left_out.len()), (643, 1, 0));
        let some = GrantMessages::within(20_000, granted);
        assert_eq!(some.left_out.iter().map(|(job, _)| job.as_str()).collect::<Vec<_>>(), ["large"]);
        let (read, unreadable) = GrantedLeases::read(some.leases, some.standbys);
        assert_eq!((read.leases.len(), read.standbys.len(), unreadable.len()), (43, 1, 0));
    }

    /// The attack of a trainer that binds a row and rewinds, again and again, with the most shards that a job has.
    #[test]
    fn the_longest_lineage_on_the_most_shards_is_a_small_answer() {
        let granted = GrantedLeases {
            leases: grants("attacker", proto::tiling::MAX_SHARDS as u32, Lineage::MAX_SEGMENTS as u64),
            standbys: Vec::new(),
        };
        let (messages, _) = granted.into_messages();
        let bytes: usize = messages.iter().map(Message::encoded_len).sum();
        assert!(bytes < 2 << 20, "{bytes}");
    }
}
