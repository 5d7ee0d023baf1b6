//! The second half of authorisation: is what the request names the caller's own? Handlers get at a request's message
//! through here alone.

use std::ops::Range;

use node::auth::{Admitted, Refusal};
use proto::{CoordinateRange, PROTOCOL_HEADER, check_protocol, pb};
use tonic::{Request, Status};

use super::{error_to_status, refusal_to_status};

/// The job or worker that a request is about.
pub trait Named {
    fn name(&self) -> &str;

    /// What of a job it would lead to; none where it leads to no row.
    fn coordinates(&self) -> Option<Range<u64>> {
        None
    }
}

/// The message, if the caller may ask for it.
pub fn authorize<M: Named>(request: Request<M>) -> Result<M, Status> {
    let (admitted, message) = caller_and_message(request)?;
    admitted.named(message.name()).map_err(refusal_to_status)?;
    if let Some(coordinates) = message.coordinates() {
        admitted.range(message.name(), &coordinates).map_err(refusal_to_status)?;
    }
    Ok(message)
}

/// A binding, and the coordinates that its tokens are to be good for; `None` for all.
pub fn authorize_bind(
    request: Request<pb::BindRequest>,
) -> Result<(pb::BindRequest, Option<CoordinateRange>), Status> {
    let (admitted, message) = caller_and_message(request)?;
    let asked = message.range.as_ref().map(|range| range.start..range.end);
    let extent = admitted.extent(&message.job, asked).map_err(refusal_to_status)?;
    Ok((message, extent.map(Into::into)))
}

/// Who asks, and the message, for answers that differ by who asks.
pub fn caller_and_message<M>(request: Request<M>) -> Result<(Admitted, M), Status> {
    let admitted = request.extensions().get::<Admitted>().cloned();
    // Without the guard in front nobody has been looked at: nobody gets in.
    let admitted = admitted.ok_or_else(|| refusal_to_status(Refusal::Unauthenticated))?;
    let version = request.metadata().get(PROTOCOL_HEADER).map(|version| version.as_bytes());
    check_protocol(version).map_err(error_to_status)?;
    Ok((admitted, request.into_inner()))
}

macro_rules! named {
    ($field:ident: $($message:ident),*) => {
        $(impl Named for pb::$message {
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

impl Named for pb::FetchRequest {
    fn name(&self) -> &str {
        &self.job
    }

    fn coordinates(&self) -> Option<Range<u64>> {
        // Without a range the request is refused later; until then it is for everything.
        Some(self.range.as_ref().map_or(0..u64::MAX, |range| range.start..range.end))
    }
}
