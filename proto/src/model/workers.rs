//! Reports of workers about themselves.

use super::WorkerRecord;
use crate::{Incarnation, Result, ServiceError, WorkerId, pb};

/// The ways in which processes on the worker's own host reach it.
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

/// The beginnings that an endpoint may have.
const ENDPOINT_SCHEMES: [&str; 3] = ["http://", "https://", "unix:///"];

/// A worker's registration with the coordinator.
#[derive(Clone, Debug)]
pub struct Register {
    /// The worker's name.
    pub worker: WorkerId,
    /// The URL where the worker serves slices.
    pub endpoint: String,
    /// Access from the worker's own host; `None` where it offers none.
    pub local: Option<LocalAccess>,
    /// The version of the protocol that the worker speaks.
    pub protocol_version: u32,
    /// The version of the noise stream that the worker computes.
    pub stream_version: u32,
    /// The id of this start of the worker.
    pub incarnation: Incarnation,
    /// What the worker has on record.
    pub record: WorkerRecord,
    /// True where an earlier coordinator ordered the worker to drain.
    pub draining: bool,
    /// Facts that placement uses.
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
            record: WorkerRecord::read(&request.ledger_id, request.highest_epoch, request.marks)?,
            draining: request.draining,
            place: WorkerPlace {
                host: request.host,
                labels: request.labels,
                memory_bytes: (request.memory_bytes > 0).then_some(request.memory_bytes),
            },
        })
    }
}

/// Facts about a worker that placement uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Boot id of its host; empty where the system has none.
    pub host: String,
    /// Labels `key=value`.
    pub labels: Vec<String>,
    /// Memory for the state and four rows of each shard, of all shards together, in bytes; `None` for no limit.
    pub memory_bytes: Option<u64>,
}
