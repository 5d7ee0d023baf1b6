//! The second half of authorisation: whether the caller may act on the job or worker that a request names. Handlers get
//! at a request's message only through this module.

use std::ops::Range;

use node::auth::{Access, CallerRole, ClientKey, Refusal};
use proto::{CoordinateRange, PROTOCOL_HEADER, check_protocol, pb};
use tonic::{Request, Status};

use super::{error_to_status, refusal_to_status};
use crate::quotas::Requester;

/// A request that names a job or a worker.
pub trait NamedRequest {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the coordinates that the request reads; `None` if it reads no row.
    fn coordinates(&self) -> Option<Range<u64>> {
        None
    }
}

/// Returns the message. Fails if the caller may not send it.
pub fn authorize<M: NamedRequest>(request: Request<M>) -> Result<M, Status> {
    let (admitted, message) = caller_and_message(request)?;
    admitted.check_name(message.name()).map_err(refusal_to_status)?;
    if let Some(coordinates) = message.coordinates() {
        admitted.check_range(message.name(), &coordinates).map_err(refusal_to_status)?;
    }
    Ok(message)
}

/// Returns who makes the request, as quotas count it.
pub fn requester_of<M>(request: &Request<M>) -> Requester {
    let extensions = request.extensions();
    Requester {
        client: extensions.get::<ClientKey>().cloned(),
        is_operator: extensions.get::<Access>().is_some_and(|access| access.has_role(CallerRole::Operator)),
    }
}

/// Returns a binding and the coordinates that its grant will be valid for; `None` means all. Fails if the caller may
/// not bind them.
pub fn authorize_bind(
    request: Request<pb::BindRequest>,
) -> Result<(pb::BindRequest, Option<CoordinateRange>), Status> {
    let (admitted, message) = caller_and_message(request)?;
    let requested = message.range.as_ref().map(|range| range.start..range.end);
    let extent = admitted.allowed_extent(&message.job, requested).map_err(refusal_to_status)?;
    Ok((message, extent.map(Into::into)))
}

/// Returns the caller and the message, for answers that differ by caller.
pub fn caller_and_message<M>(request: Request<M>) -> Result<(Access, M), Status> {
    let admitted = request.extensions().get::<Access>().cloned();
    // Without the guard in front no caller has been authenticated, so none is let in.
    let admitted = admitted.ok_or_else(|| refusal_to_status(Refusal::Unauthenticated))?;
    let version = request.metadata().get(PROTOCOL_HEADER).map(|version| version.as_bytes());
    check_protocol(version).map_err(error_to_status)?;
    Ok((admitted, request.into_inner()))
}

macro_rules! named {
    ($field:ident: $($message:ident),*) => {
        $(impl NamedRequest for pb::$message {
            fn name(&self) -> &str {
                &self.$field
            }
        })*
    };
}

named!(job: CreateJobRequest, GetJobRequest, FinishJobRequest, DestroyJobRequest, ReshardJobRequest);
named!(job: CheckpointJobRequest, GetReportRequest, GetRoutingRequest, OpenBranchRequest, ListEntriesRequest);
named!(job: GetHeadRequest, GetCursorRequest, CheckCursorRequest, ResumeJobRequest);
named!(job: SetPlacementHintsRequest);
named!(worker: RegisterRequest, HeartbeatRequest, DeregisterRequest);

impl NamedRequest for pb::FetchRequest {
    fn name(&self) -> &str {
        &self.job
    }

    fn coordinates(&self) -> Option<Range<u64>> {
        // Without a range the request is refused later; until then it counts as reading everything.
        Some(self.range.as_ref().map_or(0..u64::MAX, |range| range.start..range.end))
    }
}
