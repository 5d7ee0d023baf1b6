//! Rows that are bound, and fetched.

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
