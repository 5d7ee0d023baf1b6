//! A job reconstructed from its events, one after another.

use std::collections::BTreeMap;

use proto::{Lineage, Nonce};

use crate::{
    JobRecord, JobState, ShardRecord,
    tables::{self, branch_cursor::BranchCursor, branches_table::OpenedFrom},
};

use super::{
    Head,
    archive::JobArchive,
    archive_check::check_consistent,
    event::{BoundRow, Event},
    stamp,
};

/// The state that a job has after its events so far.
#[derive(Default, PartialEq)]
pub struct ReplayedJob {
    created: Option<Event>,
    state: Option<JobState>,
    lineages: BTreeMap<u64, Lineage>,
    layout_epoch: u64,
    shards: BTreeMap<u32, ShardRecord>,
    /// Where each branch except 0 was opened.
    pub branches: BTreeMap<u64, OpenedFrom>,
    pub cursors: BTreeMap<u64, BranchCursor>,
    /// Digest of each checkpoint's record.
    pub checkpoints: BTreeMap<u64, [u8; 32]>,
    /// Whether an archive stands for its bindings, which were removed.
    pub is_archived: bool,
}

impl ReplayedJob {
    /// Applies the next event after `head`. Error: it can't follow those before.
    pub fn apply(&mut self, job: &str, head: Head, event: Event) -> Result<(), &'static str> {
        if let Event::Archived(archive) = &event {
            return self.archive(job, head, archive);
        }
        if self.is_archived && matches!(event, Event::Bound { .. } | Event::BranchOpened { .. }) {
            return Err("nothing is bound after the archive of a job");
        }
        if self.created.is_none() != matches!(event, Event::Created { .. }) {
            return Err("a job is created once, and first");
        }
        match event {
            Event::Created { nonce, layout_epoch, ref shards, .. } => {
                self.layout_epoch = layout_epoch;
                self.state = Some(JobState::Running);
                self.lineages.insert(0, Lineage::of_job(nonce));
                self.put_shards(shards.clone())?;
                self.created = Some(event);
            }
            Event::Bound { branch, rows } => {
                let cursor = self.cursors.entry(branch).or_default();
                for BoundRow { row, commitment } in rows {
                    cursor.add(job, branch, row, &commitment.to_bytes());
                }
            }
            Event::BranchOpened { branch, parent, from_row, nonce, shards } => {
                let next = self.lineages.last_key_value().map(|(last, _)| last + 1);
                let lineage = self.lineages.get(&parent).ok_or("a branch without its parent")?;
                if next != Some(branch) {
                    return Err("branches are numbered one after another");
                }
                self.lineages.insert(branch, lineage.rewound(from_row, branch, nonce));
                self.branches.insert(branch, OpenedFrom { parent, from_row, nonce });
                self.put_shards(shards)?;
            }
            Event::StateChanged { state } => {
                if self.state.is_none_or(|before| before as u8 >= state as u8) {
                    return Err("a job's state never goes back");
                }
                self.state = Some(state);
            }
            Event::Leased { shards } => self.put_shards(shards)?,
            Event::Resharded { layout_epoch, shards } => {
                let highest = self.shards.values().map(|shard| shard.epoch).max().unwrap_or(0);
                if shards.iter().any(|shard| shard.epoch <= highest) {
                    return Err("an epoch fell");
                }
                self.layout_epoch = layout_epoch;
                self.shards.clear();
                self.put_shards(shards)?;
            }
            Event::CheckpointAdded { id, sha256 } => {
                self.checkpoints.insert(id, sha256);
            }
            Event::CheckpointRemoved { id } => {
                self.checkpoints.remove(&id);
            }
            // The branch that it came with is an event of its own, and an archive was taken above.
            Event::Adopted { .. } | Event::Archived(_) => {}
        }
        Ok(())
    }

    /// Takes an archive in the place of the events before, which it must agree with where they are there.
    fn archive(&mut self, job: &str, head: Head, archive: &JobArchive) -> Result<(), &'static str> {
        if archive.job != job {
            return Err("an archive of another job");
        }
        if (archive.entries, archive.head) != (head.entries, head.hash) {
            return Err("an archive of other entries than those before");
        }
        let archived = Self::of_archive(archive)?;
        if self.created.is_some() && *self != archived {
            return Err("an archive that says something else than the entries before");
        }
        *self = Self { is_archived: true, ..archived };
        Ok(())
    }

    /// Returns the state that the events before an archive ended in.
    fn of_archive(archive: &JobArchive) -> Result<Self, &'static str> {
        let without_beginning = "an archive without the job's beginning";
        let fields = stamp::fields_of(archive.first.as_bytes()).map_err(|_| without_beginning)?;
        let created: Event = tables::decode(&stamp::event_of(fields)).map_err(|_| without_beginning)?;
        let Event::Created { nonce, iterations, .. } = &created else { return Err(without_beginning) };
        check_consistent(archive, *iterations)?;
        let mut lineages = BTreeMap::from([(0, Lineage::of_job(*nonce))]);
        let mut branches = BTreeMap::new();
        for opened in &archive.branches {
            let lineage = lineages.get(&opened.parent).ok_or("a branch without its parent")?;
            let rewound = lineage.rewound(opened.from_row, opened.branch, opened.nonce);
            if lineages.insert(opened.branch, rewound).is_some() {
                return Err("a branch that is archived twice");
            }
            let from = OpenedFrom { parent: opened.parent, from_row: opened.from_row, nonce: opened.nonce };
            branches.insert(opened.branch, from);
        }
        let mut checkpoints = BTreeMap::new();
        for (id, sha256) in &archive.checkpoints {
            let mut digest = [0; 32];
            hex::decode_to_slice(sha256, &mut digest).map_err(|_| "a checkpoint without a digest")?;
            if hex::encode(digest) != *sha256 {
                return Err("a digest of a checkpoint in other digits than an archive has");
            }
            checkpoints.insert(*id, digest);
        }
        let cursors = archive.bound.iter().map(|bound| {
            let cursor = BranchCursor {
                rows_bound: bound.rows_bound,
                next_row: bound.next_row,
                fingerprint: bound.fingerprint,
            };
            (bound.branch, cursor)
        });
        Ok(Self {
            // Nothing else is archived.
            state: Some(JobState::Destroyed),
            lineages,
            layout_epoch: archive.layout_epoch,
            shards: archive.shards.iter().map(|shard| (shard.shard, shard.clone())).collect(),
            branches,
            cursors: cursors.collect(),
            checkpoints,
            is_archived: false,
            created: Some(created),
        })
    }

    fn put_shards(&mut self, shards: Vec<ShardRecord>) -> Result<(), &'static str> {
        for shard in shards {
            if self.shards.get(&shard.shard).is_some_and(|before| before.epoch >= shard.epoch) {
                return Err("an epoch fell");
            }
            self.shards.insert(shard.shard, shard);
        }
        Ok(())
    }

    /// Compares the state with the job's records. Error: the part of the records that differs.
    pub fn check(
        &self,
        name: &str,
        record: &JobRecord,
        shards: &[ShardRecord],
        plan_sha256: [u8; 32],
        ledger: Nonce,
    ) -> Result<(), &'static str> {
        let Some(Event::Created { shards: first, layout_epoch, plan_sha256: created_plan, .. }) =
            &self.created
        else {
            return Err("beginning");
        };
        let as_created = JobRecord { layout_epoch: *layout_epoch, ..record.clone() };
        let created = Event::created(ledger, &as_created, *created_plan, first);
        let lineage = self.lineages.last_key_value();
        let checks = [
            (record.job.as_str() == name, "name"),
            (self.created.as_ref() == Some(&created), "definition"),
            (plan_sha256 == *created_plan, "plan"),
            (self.state == Some(record.state), "state"),
            (lineage == Some((&record.branch, &record.lineage)), "lineage"),
            (self.layout_epoch == record.layout_epoch, "layout epoch"),
            (self.shards.values().eq(shards), "list of shards"),
        ];
        match checks.iter().find(|(is_equal, _)| !is_equal) {
            Some((_, part)) => Err(part),
            None => Ok(()),
        }
    }
}
