//! A job as its events make it, one after another.

use std::collections::BTreeMap;

use proto::Lineage;

use crate::{JobRecord, JobState, ShardRecord, tables::branch_cursor::BranchCursor};

use super::event::{BoundRow, Event};

/// What events have come to.
#[derive(Default)]
pub struct ReplayedJob {
    created: Option<Event>,
    state: Option<JobState>,
    lineages: BTreeMap<u64, Lineage>,
    layout_epoch: u64,
    shards: BTreeMap<u32, ShardRecord>,
    /// Parent and first row of each branch but 0.
    pub branches: BTreeMap<u64, (u64, u64)>,
    pub cursors: BTreeMap<u64, BranchCursor>,
    /// Digest of each checkpoint's record.
    pub checkpoints: BTreeMap<u64, [u8; 32]>,
}

impl ReplayedJob {
    /// Error: an event that can't follow those before.
    pub fn play(&mut self, job: &str, event: Event) -> Result<(), &'static str> {
        if self.created.is_none() != matches!(event, Event::Created { .. }) {
            return Err("a job is created once, and first");
        }
        match event {
            Event::Created { layout_epoch, ref shards, .. } => {
                self.layout_epoch = layout_epoch;
                self.state = Some(JobState::Running);
                self.lineages.insert(0, Lineage::default());
                self.take(shards.clone())?;
                self.created = Some(event);
            }
            Event::Bound { branch, rows } => {
                let cursor = self.cursors.entry(branch).or_default();
                for BoundRow { row, commitment } in rows {
                    cursor.add(job, branch, row, &commitment.to_bytes());
                }
            }
            Event::BranchOpened { branch, parent, from_row, shards } => {
                let next = self.lineages.last_key_value().map(|(last, _)| last + 1);
                let lineage = self.lineages.get(&parent).ok_or("a branch without its parent")?;
                if next != Some(branch) {
                    return Err("branches are numbered one after another");
                }
                self.lineages.insert(branch, lineage.rewound(from_row, branch));
                self.branches.insert(branch, (parent, from_row));
                self.take(shards)?;
            }
            Event::StateChanged { state } => {
                if self.state.is_none_or(|before| before as u8 >= state as u8) {
                    return Err("a job's state never goes back");
                }
                self.state = Some(state);
            }
            Event::Leased { shards } => self.take(shards)?,
            Event::Resharded { layout_epoch, shards } => {
                let highest = self.shards.values().map(|shard| shard.epoch).max().unwrap_or(0);
                if shards.iter().any(|shard| shard.epoch <= highest) {
                    return Err("an epoch fell");
                }
                self.layout_epoch = layout_epoch;
                self.shards.clear();
                self.take(shards)?;
            }
            Event::CheckpointAdded { id, sha256 } => {
                self.checkpoints.insert(id, sha256);
            }
            Event::CheckpointRemoved { id } => {
                self.checkpoints.remove(&id);
            }
        }
        Ok(())
    }

    fn take(&mut self, shards: Vec<ShardRecord>) -> Result<(), &'static str> {
        for shard in shards {
            if self.shards.get(&shard.shard).is_some_and(|before| before.epoch >= shard.epoch) {
                return Err("an epoch fell");
            }
            self.shards.insert(shard.shard, shard);
        }
        Ok(())
    }

    /// Error: what of the job's records differs.
    pub fn check(
        &self,
        name: &str,
        record: &JobRecord,
        shards: &[ShardRecord],
        plan_sha256: [u8; 32],
    ) -> Result<(), &'static str> {
        let Some(Event::Created { shards: first, layout_epoch, plan_sha256: plan_then, .. }) = &self.created
        else {
            return Err("beginning");
        };
        let as_then = JobRecord { layout_epoch: *layout_epoch, ..record.clone() };
        let created = Event::created(&as_then, *plan_then, first);
        let lineage = self.lineages.last_key_value();
        match () {
            () if record.job.as_str() != name => Err("name"),
            () if self.created.as_ref() != Some(&created) => Err("definition"),
            () if plan_sha256 != *plan_then => Err("plan"),
            () if self.state != Some(record.state) => Err("state"),
            () if lineage != Some((&record.branch, &record.lineage)) => Err("lineage"),
            () if self.layout_epoch != record.layout_epoch => Err("layout epoch"),
            () if !self.shards.values().eq(shards) => Err("list of shards"),
            () => Ok(()),
        }
    }
}
