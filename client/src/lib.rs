//! How a training job gets its noise: ask the coordinator to bind rows and where their slices are, fetch the slices
//! from the workers themselves, check every byte, and put them together.
//!
//! Rows may be fetched again and again: the same rows under the same commitments are the same bytes, so every retry
//! here is safe, and a row comes out the same whatever order its slices arrive in.

mod chunks;
mod client;
mod connections;
mod jobs;
mod merge;
mod parts;
mod region;
mod retry;
mod routing;
mod routing_cache;
mod slice;
mod source;
mod stream;

pub use client::{Client, FetchRequest};
pub use connections::{Connections, Led, Tuning, from_status};
pub use jobs::Jobs;
pub use merge::{Assembly, MergeError};
pub use parts::Part;
pub use region::{Placement, Region};
pub use retry::{Delays, Next, after};
pub use routing::{Route, Routing};
pub use source::Source;
pub use stream::{SliceRequest, stream_chunks};
