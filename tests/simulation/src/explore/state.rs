//! One state of the small cluster.

pub const JOBS: usize = 2;
pub const WORKERS: usize = 2;
pub const ROWS: usize = 3;
pub const COMMITMENTS: usize = 2;
pub const BRANCHES: usize = 2;
/// Epochs of a shard: the first, and that after a change of owner.
pub const EPOCHS: usize = 2;
/// A rewind opens a new branch from this row.
pub const REWOUND_TO: usize = 1;

/// A row of a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// Durably: 0 is not, else a commitment.
    pub bound: u8,
    /// For each commitment, the coordinators (a bit each) that have signed tokens for it.
    pub tokens: [u8; COMMITMENTS],
}

/// Whether the process that holds the lease is the running one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// The coordinator has started anew since.
    #[default]
    Unknown,
    Running,
    Gone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job {
    pub branch: u8,
    pub rows: [[Row; ROWS]; BRANCHES],
    pub epoch: u8,
    /// Owner of each epoch: 0 for none, else one more than the worker.
    pub owners: [u8; EPOCHS],
    pub holder: Holder,
    /// Epochs (a bit each) that ended with the owner's lease: no worker may serve under them any more.
    pub fenced: u8,
}

impl Job {
    pub fn owner(&self) -> Option<usize> {
        (self.owners[self.epoch as usize] as usize).checked_sub(1)
    }
}

/// What a heartbeat's answer grants: for each job the branch and epoch, where there is one; and who signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grants {
    pub jobs: [Option<(u8, u8)>; JOBS],
    pub key: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    pub is_up: bool,
    /// Its lease has not ended by its own clock.
    pub is_fresh: bool,
    pub held: Grants,
    /// An answer under way to it.
    pub answer: Option<Grants>,
    /// Its lease has not ended by the coordinator's clock.
    pub is_live: bool,
}

/// A binding that is written and not yet synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pending {
    pub job: u8,
    pub row: u8,
    pub commitment: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub is_up: bool,
    /// Of the coordinator: how often it has started anew. Each start signs with another key.
    pub starts: u8,
    pub jobs: [Job; JOBS],
    pub workers: [Worker; WORKERS],
    pub pending: Option<Pending>,
    /// The worker that the coordinator can't reach, nor it the coordinator.
    pub cut: Option<u8>,
    pub crashes_left: u8,
    pub partitions_left: u8,
    pub rewinds_left: u8,
}

impl State {
    /// The jobs are created; the first worker owns the first, the second the second.
    pub fn first(jobs: usize) -> Self {
        let job = |number| match number {
            _ if number >= jobs => Job::default(),
            _ => Job { owners: [number as u8 + 1, 0], holder: Holder::Running, ..Job::default() },
        };
        let worker =
            Worker { is_up: true, is_fresh: false, held: Grants::default(), answer: None, is_live: true };
        Self {
            is_up: true,
            starts: 0,
            jobs: std::array::from_fn(job),
            workers: [worker; WORKERS],
            pending: None,
            cut: None,
            crashes_left: 1,
            partitions_left: 1,
            rewinds_left: 1,
        }
    }
}
