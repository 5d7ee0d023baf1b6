//! The client of a training job: it asks the coordinator to bind rows and where their slices are, fetches the slices from
//! the workers themselves, checks every byte, and puts them together.
//!
//! Rows may be fetched any number of times: the same rows under the same commitments are the same bytes. So every retry
//! here is safe, and a row is the same whatever order its slices arrive in.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use client::{Client, FetchRequest};
//! use proto::{Commitment, CoordinateRange, JobId, RowRange};
//!
//! # async fn fetch() -> proto::Result<()> {
//! let client = Client::connect("http://127.0.0.1:7000")?;
//! let request = FetchRequest {
//!     job: JobId::new("mnist").expect("a valid name"),
//!     branch: 0,
//!     rows: RowRange::new(0, 1)?,
//!     range: CoordinateRange::new(0, 1024)?,
//!     commitments: vec![Commitment::of_text("step 0")],
//!     deadline: tokio::time::Instant::now() + Duration::from_secs(60),
//! };
//! let mut row = vec![0.0; 1024];
//! client.fetch(request).into_slice(&mut row).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! * [`Client`] binds rows; [`Jobs`] creates, inspects and ends jobs; [`Budgets`] does so with data sets; [`Fetch`] is one fetch, as a builder.
//! * [`stream_chunks`] is the loop of a fetch: it splits a [`Tile`] by the [`Routing`], runs one `FetchSlice` call for
//!   each [`Route`], and repeats what is missing from the [`Assembly`]. [`FetchSource`] is where it gets routing and
//!   tokens, [`classify`] what it does after an error.
//! * [`Region`] is memory that workers of the same host write to.
//! * [`Connections`] holds one connection for each server.

#![deny(missing_docs)]

mod bound_rows;
mod budgets;
mod chunks;
mod client;
mod connections;
mod fetch;
mod jobs;
mod leader;
mod merge;
mod region;
mod retry;
mod routing;
mod routing_cache;
mod slice;
mod source;
mod stream;
mod tile;

pub use budgets::Budgets;
pub use client::{Client, FetchRequest};
pub use connections::{Connections, CoordinatorChannel, Tuning, WorkerChannel, from_status};
pub use fetch::Fetch;
pub use jobs::Jobs;
pub use merge::{Assembly, MergeError};
pub use region::{Placement, Region};
pub use retry::{RetryAction, classify};
pub use routing::{Route, Routing};
pub use source::FetchSource;
pub use stream::{SliceRequest, stream_chunks};
pub use tile::Tile;
