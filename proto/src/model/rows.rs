//! Requests to bind and to fetch rows.

use crate::{
    Commitment, CoordinateRange, ElementType, JobId, ReleaseToken, Result, RowRange, ServiceError, pb,
};

fn one_each<T>(field: &str, items: Vec<T>, rows: RowRange) -> Result<Vec<T>> {
    if items.len() as u64 == rows.len() {
        Ok(items)
    } else {
        let allowed = format!("one for each of the {} rows {rows}", rows.len());
        Err(ServiceError::invalid(field, format!("{} entries", items.len()), allowed))
    }
}

/// A request to bind rows to commitments.
#[derive(Clone, Debug)]
pub struct Bind {
    /// The job.
    pub job: JobId,
    /// The branch that the caller believes to be the current one.
    pub branch: u64,
    /// The rows.
    pub rows: RowRange,
    /// One commitment for each row.
    pub commitments: Vec<Commitment>,
    /// The coordinates that the caller's grant will be valid for; `None` for all.
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

/// A request for rows of one range, through the coordinator.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The rows, and the commitments to bind them to.
    pub bind: Bind,
    /// The coordinates.
    pub range: CoordinateRange,
    /// The type that values are sent as.
    pub element: ElementType,
    /// The time that the caller waits, in milliseconds; `None` for the service's own limit.
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

/// A request for rows of a part of one shard, from the worker that has it.
#[derive(Clone, Debug)]
pub struct FetchSlice {
    /// The job.
    pub job: JobId,
    /// The current branch.
    pub branch: u64,
    /// The shard's number.
    pub shard: u32,
    /// The epoch of the worker's lease.
    pub lease_epoch: u64,
    /// The rows.
    pub rows: RowRange,
    /// The coordinates, within the shard.
    pub range: CoordinateRange,
    /// The proof that the rows are bound.
    pub token: ReleaseToken,
    /// The time that the caller waits, in milliseconds; `None` for the service's own limit.
    pub deadline_ms: Option<u64>,
    /// The type that values are sent as.
    pub element: ElementType,
    /// A region to write the rows to, instead of sending them.
    pub target: Option<Target>,
}

/// A place in a shared-memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The region's id.
    pub region: [u8; 16],
    /// The slot of the first row; the other rows follow it.
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
        let mut token = request.token.ok_or_else(|| ServiceError::missing("token"))?;
        token.commitments = one_each("token.commitments", token.commitments, rows)?;
        Ok(Self {
            job: JobId::new(request.job)?,
            branch: request.branch,
            shard: request.shard,
            lease_epoch: request.lease_epoch,
            rows,
            range: request.range.try_into()?,
            token: token.try_into()?,
            deadline_ms: (request.deadline_ms > 0).then_some(request.deadline_ms),
            element: request.element_type.try_into()?,
            target: Target::of(&request.region, request.slot)?,
        })
    }
}
