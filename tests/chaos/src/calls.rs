//! Calls that end: without an answer in time they fail.

use std::time::Duration;

use client::FetchRequest;
use proto::{Commitment, CoordinateRange, JobId, ReleasedRows, Result, RowRange, ServiceError};
use tokio::time::{Instant, timeout};

use crate::{Session, cases::DIMENSION};

/// Longest time of one call before it is repeated.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// The answer, where it comes in time.
pub async fn in_time<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| ServiceError::Unavailable { what: "an answer in time".into() };
    timeout(CALL_TIMEOUT, call).await.map_err(late)?
}

pub async fn bind(
    session: &Session,
    job: &JobId,
    branch: u64,
    row: u64,
    commitment: Commitment,
) -> Result<ReleasedRows> {
    let binding = [commitment];
    let bound = session.client.bind(job, branch, RowRange { start: row, end: row + 1 }, &binding);
    in_time(bound).await
}

/// The whole row.
pub async fn fetch(
    session: &Session,
    job: &JobId,
    branch: u64,
    row: u64,
    commitment: Commitment,
) -> Result<Vec<f32>> {
    let mut out = vec![f32::NAN; DIMENSION as usize];
    let request = FetchRequest {
        job: job.clone(),
        branch,
        rows: RowRange { start: row, end: row + 1 },
        range: CoordinateRange { start: 0, end: DIMENSION },
        commitments: vec![commitment],
        deadline: Instant::now() + CALL_TIMEOUT,
    };
    in_time(session.client.fetch(request).into_slice(&mut out)).await.map(|()| out)
}
