//! Where a fetch learns who serves what: a trait, so that the coordinator's proxy need not call itself over gRPC.

use futures::future::BoxFuture;
use proto::{ReleaseToken, Result};

use crate::Routing;

/// What a running fetch asks again when a worker is lost or the coordinator has started anew.
pub trait Source: Send + Sync + 'static {
    fn routing(&self) -> BoxFuture<'_, Result<Routing>>;

    /// Binds the fetch's rows to the fetch's commitments again; one token a row.
    fn tokens(&self) -> BoxFuture<'_, Result<Vec<ReleaseToken>>>;
}
