//! Requests and grants after the boundary has checked them.

use crate::{
    Commitment, CoordinateRange, ElementType, Incarnation, JobId, Lineage, ReleaseToken, Result, RowRange,
    ServiceError, WorkerId, pb,
};

fn digest(field: &str, bytes: &[u8]) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| ServiceError::invalid(field, format!("{} bytes", bytes.len()), "32 bytes"))
}

fn one_each<T>(field: &str, items: Vec<T>, rows: RowRange) -> Result<Vec<T>> {
    if items.len() as u64 == rows.len() {
        Ok(items)
    } else {
        let allowed = format!("one for each of the {} rows {rows}", rows.len());
        Err(ServiceError::invalid(field, format!("{} entries", items.len()), allowed))
    }
}

/// A job as it is asked for. The plan's text is checked by `plan`.
#[derive(Clone, Debug)]
pub struct CreateJob {
    pub job: JobId,
    pub plan_toml: String,
    /// `None` where the plan's layout says it.
    pub dimension: Option<u64>,
    /// `None` lets the coordinator choose.
    pub shards: Option<u32>,
    pub key_commitment: [u8; 32],
    pub plan_digest: Option<[u8; 32]>,
}

impl TryFrom<pb::CreateJobRequest> for CreateJob {
    type Error = ServiceError;
    fn try_from(request: pb::CreateJobRequest) -> Result<Self> {
        Ok(Self {
            job: JobId::new(request.job)?,
            plan_toml: request.plan_toml,
            dimension: (request.dimension > 0).then_some(request.dimension),
            shards: (request.shards > 0).then_some(request.shards),
            key_commitment: digest("key_commitment", &request.key_commitment)?,
            plan_digest: match request.plan_digest.is_empty() {
                true => None,
                false => Some(digest("plan_digest", &request.plan_digest)?),
            },
        })
    }
}

#[derive(Clone, Debug)]
pub struct Bind {
    pub job: JobId,
    pub branch: u64,
    pub rows: RowRange,
    /// One for each row.
    pub commitments: Vec<Commitment>,
    /// What the caller may fetch: its tokens are good for that much. `None`: for all.
    pub extent: Option<CoordinateRange>,
}

impl TryFrom<pb::BindRequest> for Bind {
    type Error = ServiceError;
    fn try_from(request: pb::BindRequest) -> Result<Self> {
        let rows = RowRange::try_from(request.rows)?;
        request.range.map(|range| CoordinateRange::try_from(Some(range))).transpose()?;
        let commitments = one_each("commitments", request.commitments, rows)?;
        let commitments = commitments.iter().map(|c| Commitment::try_from(c.as_slice()));
        Ok(Self {
            job: JobId::new(request.job)?,
            branch: request.branch,
            rows,
            commitments: commitments.collect::<Result<_>>()?,
            extent: None,
        })
    }
}

/// Rows of one range, through the coordinator.
#[derive(Clone, Debug)]
pub struct Fetch {
    pub bind: Bind,
    pub range: CoordinateRange,
    pub element: ElementType,
    pub deadline_ms: Option<u64>,
}

impl TryFrom<pb::FetchRequest> for Fetch {
    type Error = ServiceError;
    fn try_from(request: pb::FetchRequest) -> Result<Self> {
        let pb::FetchRequest { job, branch, rows, range, commitments, deadline_ms, element_type } = request;
        Ok(Self {
            bind: pb::BindRequest { job, branch, rows, commitments, range }.try_into()?,
            range: range.try_into()?,
            element: element_type.try_into()?,
            deadline_ms: (deadline_ms > 0).then_some(deadline_ms),
        })
    }
}

/// Rows of a part of one shard, from the worker that holds it.
#[derive(Clone, Debug)]
pub struct FetchSlice {
    pub job: JobId,
    pub branch: u64,
    pub shard: u32,
    pub lease_epoch: u64,
    pub rows: RowRange,
    pub range: CoordinateRange,
    /// One for each row.
    pub tokens: Vec<ReleaseToken>,
    pub deadline_ms: Option<u64>,
    pub element: ElementType,
    /// Where to write the rows instead of sending them.
    pub target: Option<Target>,
}

/// A place in a lent region: `slot` is the first row's, the others follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub region: [u8; 16],
    pub slot: u32,
}

impl Target {
    fn of(region: &[u8], slot: u32) -> Result<Option<Self>> {
        if region.is_empty() {
            return Ok(None);
        }
        let allowed = "16 bytes, or none";
        let region = region
            .try_into()
            .map_err(|_| ServiceError::invalid("region", format!("{} bytes", region.len()), allowed))?;
        Ok(Some(Self { region, slot }))
    }
}

impl TryFrom<pb::FetchSliceRequest> for FetchSlice {
    type Error = ServiceError;
    fn try_from(request: pb::FetchSliceRequest) -> Result<Self> {
        let rows = RowRange::try_from(request.rows)?;
        let tokens = one_each("tokens", request.tokens, rows)?;
        Ok(Self {
            job: JobId::new(request.job)?,
            branch: request.branch,
            shard: request.shard,
            lease_epoch: request.lease_epoch,
            rows,
            range: request.range.try_into()?,
            tokens: tokens.iter().map(|t| ReleaseToken::try_from(t.as_slice())).collect::<Result<_>>()?,
            deadline_ms: (request.deadline_ms > 0).then_some(request.deadline_ms),
            element: request.element_type.try_into()?,
            target: Target::of(&request.region, request.slot)?,
        })
    }
}

/// How processes on the worker's own host reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAccess {
    /// Boot id of the host.
    pub host: String,
    /// `unix:///path` where Shards is served too.
    pub endpoint: Option<String>,
    /// Path of the socket that takes shared-memory regions.
    pub lending: Option<String>,
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl From<pb::LocalAccess> for LocalAccess {
    fn from(local: pb::LocalAccess) -> Self {
        Self { host: local.host, endpoint: given(local.endpoint), lending: given(local.lending) }
    }
}

impl From<LocalAccess> for pb::LocalAccess {
    fn from(local: LocalAccess) -> Self {
        let LocalAccess { host, endpoint, lending } = local;
        Self { host, endpoint: endpoint.unwrap_or_default(), lending: lending.unwrap_or_default() }
    }
}

/// What an endpoint may look like.
const ENDPOINT_SCHEMES: [&str; 3] = ["http://", "https://", "unix:///"];

#[derive(Clone, Debug)]
pub struct Register {
    pub worker: WorkerId,
    pub endpoint: String,
    pub local: Option<LocalAccess>,
    pub protocol_version: u32,
    pub stream_version: u32,
    pub incarnation: Incarnation,
    /// All that the worker knows to have released.
    pub marks: Vec<JobMark>,
    /// An earlier coordinator told it to drain.
    pub draining: bool,
    pub place: WorkerPlace,
}

/// What placement knows of a worker before it has made anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Boot id of its host; empty where the system doesn't tell.
    pub host: String,
    /// `key=value`.
    pub labels: Vec<String>,
    /// For state and one row of each shard, of all shards together; `None` for no limit.
    pub memory_bytes: Option<u64>,
}

/// How far a job's rows were released, as a worker has it on its own disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMark {
    pub job: JobId,
    /// The highest branch seen.
    pub branch: u64,
    /// One more than the highest row released on it, whatever branch its Z is from; 0 for none.
    pub next_row: u64,
}

impl TryFrom<pb::JobMark> for JobMark {
    type Error = ServiceError;
    fn try_from(mark: pb::JobMark) -> Result<Self> {
        Ok(Self { job: JobId::new(mark.job)?, branch: mark.branch, next_row: mark.next_row })
    }
}

impl From<JobMark> for pb::JobMark {
    fn from(mark: JobMark) -> Self {
        Self { job: mark.job.into(), branch: mark.branch, next_row: mark.next_row }
    }
}

/// Which workers should be near a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementHint {
    pub range: CoordinateRange,
    /// A worker's name, a label of workers, or the boot id of a host.
    pub near: String,
}

impl TryFrom<pb::PlacementHint> for PlacementHint {
    type Error = ServiceError;
    fn try_from(hint: pb::PlacementHint) -> Result<Self> {
        let pb::PlacementHint { range, near } = hint;
        if !(1..=128).contains(&near.len()) {
            let allowed = "1 to 128 bytes: a worker's name, a label (key=value) or a host's boot id";
            return Err(ServiceError::invalid("hints.near", format!("{} bytes", near.len()), allowed));
        }
        Ok(Self { range: range.try_into()?, near })
    }
}

/// Asks for fresh Z from a row on.
#[derive(Clone, Debug)]
pub struct OpenBranch {
    pub job: JobId,
    pub from_row: u64,
    /// The branch that the caller takes for the current one.
    pub expected_branch: u64,
    /// Whose rows before `from_row` are kept; the current branch where not given.
    pub parent: Option<u64>,
}

impl TryFrom<pb::OpenBranchRequest> for OpenBranch {
    type Error = ServiceError;
    fn try_from(request: pb::OpenBranchRequest) -> Result<Self> {
        let pb::OpenBranchRequest { job, from_row, expected_branch, parent } = request;
        Ok(Self { job: JobId::new(job)?, from_row, expected_branch, parent })
    }
}

impl TryFrom<pb::RegisterRequest> for Register {
    type Error = ServiceError;
    fn try_from(request: pb::RegisterRequest) -> Result<Self> {
        if !ENDPOINT_SCHEMES.iter().any(|scheme| request.endpoint.starts_with(scheme)) {
            return Err(ServiceError::invalid(
                "endpoint",
                format!("{:?}", request.endpoint),
                "http://host:port or unix:///path",
            ));
        }
        Ok(Self {
            worker: WorkerId::new(request.worker)?,
            endpoint: request.endpoint,
            local: request.local.map(Into::into),
            protocol_version: request.protocol_version,
            stream_version: request.stream_version,
            incarnation: request.incarnation.as_slice().try_into()?,
            marks: request.marks.into_iter().map(JobMark::try_from).collect::<Result<_>>()?,
            draining: request.draining,
            place: WorkerPlace {
                host: request.host,
                labels: request.labels,
                memory_bytes: (request.memory_bytes > 0).then_some(request.memory_bytes),
            },
        })
    }
}

/// A stored shard state that overlaps a granted range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPiece {
    pub object: String,
    pub range: CoordinateRange,
    pub next_row: u64,
    pub sha256: [u8; 32],
}

impl TryFrom<pb::CheckpointPiece> for CheckpointPiece {
    type Error = ServiceError;
    fn try_from(piece: pb::CheckpointPiece) -> Result<Self> {
        Ok(Self {
            object: piece.object,
            range: piece.range.try_into()?,
            next_row: piece.next_row,
            sha256: digest("sha256", &piece.sha256)?,
        })
    }
}

impl From<CheckpointPiece> for pb::CheckpointPiece {
    fn from(piece: CheckpointPiece) -> Self {
        let CheckpointPiece { object, range, next_row, sha256 } = piece;
        Self { object, range: Some(range.into()), next_row, sha256: sha256.to_vec() }
    }
}

/// The right to make and serve one shard of one job, under an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    pub job: JobId,
    /// Whose Z each row has; its last branch is the one to serve.
    pub lineage: Lineage,
    pub shard: u32,
    pub range: CoordinateRange,
    pub epoch: u64,
    pub dimension: u64,
    pub plan_digest: [u8; 32],
    pub key_commitment: [u8; 32],
    pub next_row: u64,
    pub store_url: String,
    pub pieces: Vec<CheckpointPiece>,
}

impl LeaseGrant {
    /// The branch to serve.
    pub fn branch(&self) -> u64 {
        self.lineage.branch()
    }
}

impl TryFrom<pb::LeaseGrant> for LeaseGrant {
    type Error = ServiceError;
    fn try_from(grant: pb::LeaseGrant) -> Result<Self> {
        Ok(Self {
            job: JobId::new(grant.job)?,
            lineage: grant.lineage.try_into()?,
            shard: grant.shard,
            range: grant.range.try_into()?,
            epoch: grant.epoch,
            dimension: grant.dimension,
            plan_digest: digest("plan_digest", &grant.plan_digest)?,
            key_commitment: digest("key_commitment", &grant.key_commitment)?,
            next_row: grant.next_row,
            store_url: grant.store_url,
            pieces: grant.pieces.into_iter().map(CheckpointPiece::try_from).collect::<Result<_>>()?,
        })
    }
}

impl From<LeaseGrant> for pb::LeaseGrant {
    fn from(grant: LeaseGrant) -> Self {
        Self {
            job: grant.job.into(),
            lineage: (&grant.lineage).into(),
            shard: grant.shard,
            range: Some(grant.range.into()),
            epoch: grant.epoch,
            dimension: grant.dimension,
            plan_digest: grant.plan_digest.to_vec(),
            key_commitment: grant.key_commitment.to_vec(),
            next_row: grant.next_row,
            store_url: grant.store_url,
            pieces: grant.pieces.into_iter().map(Into::into).collect(),
        }
    }
}
