//! The source of a fetch's routing and grants: a trait, so that the coordinator's proxy need not call itself over gRPC.

use futures::future::BoxFuture;
use proto::{ReleasedRows, Result};

use crate::Routing;

/// The source of routing and grants, which a running fetch uses again after a worker is lost or the coordinator has
/// restarted.
pub trait FetchSource: Send + Sync + 'static {
    /// Returns which worker serves which coordinates now.
    fn routing(&self) -> BoxFuture<'_, Result<Routing>>;

    /// Binds the fetch's rows to its commitments again.
    fn release(&self) -> BoxFuture<'_, Result<ReleasedRows>>;
}
