//! What workers say of themselves.

use crate::{Incarnation, JobId, Result, ServiceError, WorkerId, pb};

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

/// What placement knows of a worker before it has made anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Boot id of its host; empty where the system doesn't tell.
    pub host: String,
    /// `key=value`.
    pub labels: Vec<String>,
    /// For the state and four rows of each shard, of all shards together; `None` for no limit.
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
