//! The second half of authorisation: is what the request names the caller's own? Handlers get at a request's message
//! through here alone.

use std::ops::Range;

use node::auth::{Access, Refusal};
use proto::{CoordinateRange, PROTOCOL_HEADER, check_protocol, pb};
use tonic::{Request, Status};

use super::{refused, worded};

/// The job or worker that a request is about.
pub trait Named {
    fn name(&self) -> &str;

    /// What of a job it would lead to; none where it leads to no row.
    fn coordinates(&self) -> Option<Range<u64>> {
        None
    }
}

/// The message, if the caller may ask for it.
pub fn own<M: Named>(request: Request<M>) -> Result<M, Status> {
    let (admitted, message) = parts(request)?;
    admitted.check_name(message.name()).map_err(worded)?;
    if let Some(coordinates) = message.coordinates() {
        admitted.check_range(message.name(), &coordinates).map_err(worded)?;
    }
    Ok(message)
}

/// A binding, and the coordinates that its tokens are to be good for; `None` for all.
pub fn binding(
    request: Request<pb::BindRequest>,
) -> Result<(pb::BindRequest, Option<CoordinateRange>), Status> {
    let (admitted, message) = parts(request)?;
    let asked = message.range.as_ref().map(|range| range.start..range.end);
    let extent = admitted.allowed_extent(&message.job, asked).map_err(worded)?;
    Ok((message, extent.map(Into::into)))
}

/// Who asks, and the message, for answers that differ by who asks.
pub fn parts<M>(request: Request<M>) -> Result<(Access, M), Status> {
    let admitted = request.extensions().get::<Access>().cloned();
    // Without the guard in front nobody has been looked at: nobody gets in.
    let admitted = admitted.ok_or_else(|| worded(Refusal::Unauthenticated))?;
    let version = request.metadata().get(PROTOCOL_HEADER).map(|version| version.as_bytes());
    check_protocol(version).map_err(refused)?;
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
