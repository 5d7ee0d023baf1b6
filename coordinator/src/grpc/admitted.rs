//! The second half of authorisation: is what the request names the caller's own? Handlers get at a request's message
//! through here alone.

use std::ops::Range;

use node::auth::{Admitted, Refusal};
use proto::pb;
use tonic::{Request, Status};

use super::worded;

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
    admitted.named(message.name()).map_err(worded)?;
    if let Some(coordinates) = message.coordinates() {
        admitted.range(message.name(), &coordinates).map_err(worded)?;
    }
    Ok(message)
}

/// Who asks, and the message, for answers that differ by who asks.
pub fn parts<M>(request: Request<M>) -> Result<(Admitted, M), Status> {
    let admitted = request.extensions().get::<Admitted>().cloned();
    // Without the guard in front nobody has been looked at: nobody gets in.
    Ok((admitted.ok_or_else(|| worded(Refusal::Unauthenticated))?, request.into_inner()))
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

impl Named for pb::BindRequest {
    fn name(&self) -> &str {
        &self.job
    }

    /// Release tokens are good for every coordinate.
    fn coordinates(&self) -> Option<Range<u64>> {
        Some(0..u64::MAX)
    }
}

impl Named for pb::FetchRequest {
    fn name(&self) -> &str {
        &self.job
    }

    fn coordinates(&self) -> Option<Range<u64>> {
        // Without a range the request is refused later; until then it is for everything.
        Some(self.range.as_ref().map_or(0..u64::MAX, |range| range.start..range.end))
    }
}
