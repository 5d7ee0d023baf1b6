//! What a bound on owners leaves of a graph, counted from the batches themselves.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::owners::Owners;

/// Records kept and dropped under a bound on owners, and the largest participation of an owner in a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnerStatistics {
    /// Records of the graph.
    pub records: u64,
    /// Records that take part: in some round of the run, or, where rounds are Poisson-sampled, as those sampled from.
    pub kept: u64,
    /// Owners who have a record that takes part.
    pub owners: u64,
    /// The most records that take part of one owner.
    pub most_records: u64,
    /// Records by how many owners they have.
    pub by_degree: Vec<DegreeCount>,
    /// The participation that was drawn, where the bound is on rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<DrawnParticipation>,
}

/// Records with one number of owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DegreeCount {
    /// The owners of each of these records.
    pub owners: u64,
    /// These records.
    pub records: u64,
    /// Those of them that take part.
    pub kept: u64,
}

/// The largest participation of any owner that was drawn; a plan has to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DrawnParticipation {
    /// The most rounds of one owner.
    pub max_participations: u64,
    /// The least distance of two rounds of one owner; none where no owner has two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sep: Option<u64>,
    /// The most records of one owner in one batch.
    pub records_per_batch: u64,
}

impl OwnerStatistics {
    /// Counts what takes part, given by its number.
    pub(crate) fn of_kept(graph: &Owners, kept: impl IntoIterator<Item = u64>) -> Self {
        let places: HashMap<u64, &[u32]> = graph.iter().collect();
        let mut by_degree = BTreeMap::<u64, DegreeCount>::new();
        for owners in places.values() {
            let owners = owners.len() as u64;
            by_degree.entry(owners).or_insert(DegreeCount { owners, ..DegreeCount::default() }).records += 1;
        }
        let mut of_owner = HashMap::<u32, u64>::new();
        let mut all = 0;
        for record in kept {
            let owners = places.get(&record).copied().unwrap_or_default();
            all += 1;
            by_degree.entry(owners.len() as u64).or_default().kept += 1;
            owners.iter().for_each(|owner| *of_owner.entry(*owner).or_default() += 1);
        }
        Self {
            records: graph.records(),
            kept: all,
            owners: of_owner.len() as u64,
            most_records: of_owner.values().copied().max().unwrap_or(0),
            by_degree: by_degree.into_values().collect(),
            drawn: None,
        }
    }

    /// Counts what takes part in the batches of a whole run.
    pub(crate) fn of_batches(graph: &Owners, batches: impl Iterator<Item = (u64, Vec<u64>)>) -> Self {
        let places: HashMap<u64, &[u32]> = graph.iter().collect();
        let mut kept = std::collections::BTreeSet::new();
        let mut drawn = DrawnParticipation::default();
        // Each owner's rounds, the last of them, and its records there.
        let mut past = HashMap::<u32, [u64; 3]>::new();
        for (round, ids) in batches {
            for record in ids {
                kept.insert(record);
                for owner in places.get(&record).copied().unwrap_or_default() {
                    let [rounds, last, records] = past.entry(*owner).or_insert([0, round, 0]);
                    if *rounds == 0 || *last != round {
                        if *rounds > 0 {
                            let apart = round - *last;
                            drawn.min_sep = Some(drawn.min_sep.map_or(apart, |least| least.min(apart)));
                        }
                        (*rounds, *last, *records) = (*rounds + 1, round, 0);
                    }
                    *records += 1;
                    drawn.max_participations = drawn.max_participations.max(*rounds);
                    drawn.records_per_batch = drawn.records_per_batch.max(*records);
                }
            }
        }
        Self { drawn: Some(drawn), ..Self::of_kept(graph, kept) }
    }
}
