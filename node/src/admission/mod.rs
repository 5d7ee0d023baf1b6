//! How much one caller, and all of them together, may ask of a process. Whatever is over a limit is refused at once
//! and may be asked again, or not read before there is time for it; nothing waits in a queue that has no end.

mod body_limit;
mod budget;
mod call_rate;
mod client_connections;
mod connection_limit;
mod fair_share;
pub mod guard;
mod handshake_rate;
mod handshakes;
mod http2_cost;
mod inflight_bytes;
mod methods;
mod read_throttle;

pub use inflight_bytes::{Arrival, Arriving};
pub use budget::{Budget, Hold};
pub use body_limit::{CappedBody, HeldRoom};
pub use client_connections::Clients;
pub use http2_cost::{FRAME_BYTES, Frames, HEAD_BYTES, PREFACE_BYTES};
pub use handshakes::{Handshake, Handshakes};
pub use methods::{is_endless, request_bytes, time};
pub use read_throttle::{Pace, Paces, TOO_LARGE};
pub use call_rate::Rates;
pub use fair_share::{Claim, Share, Shares};
pub use connection_limit::{Slot, Slots};
pub use handshake_rate::Turns;

use std::time::Duration;

/// Per process. docs/security.md says what is refused by each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections, of all callers and of one IP address. An eighth is for workers and coordinators alone, and of
    /// one other certificate there are half at most. A quarter as many shake hands beside them.
    pub connections: usize,
    pub connections_per_address: usize,
    /// TLS handshakes a second of one IP address, with four seconds' worth at once. Whoever comes faster waits for up to
    /// a second, and is refused where that is not enough.
    pub handshakes_per_second: u32,
    /// Calls under way on one connection. Clients suppose 100 until they are told (RFC 9113, section 6.5.2): with
    /// fewer, the first calls of a busy client would be refused.
    pub streams: u32,
    /// Calls under way, of all callers; a client has no more of them than are left for other clients.
    pub calls: usize,
    /// Calls a second of one caller, with ten seconds' worth at once. Its connections together are read no faster, with
    /// a quarter of a second's worth at once, but as fast as one connection may be.
    pub calls_per_second: u32,
    /// Calls a second of one connection, pings and the like among them: it is read no faster, with a quarter of a
    /// second's worth at once, and a tenth of that where it is new.
    pub connection_calls_per_second: u32,
    /// Bytes of rows on the way to one caller.
    pub slice_bytes: u64,
    /// A connection is asked to close after this, and closed a while later: who is behind it is then checked anew.
    pub connection_age: Duration,
}

/// Streams under way may end within this time after the connection's age is up.
pub const CLOSING_GRACE: Duration = Duration::from_secs(300);
/// Names and values of the headers of one request.
pub const HEADER_BYTES: u32 = 16 << 10;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 1024,
            handshakes_per_second: 50,
            streams: 128,
            calls: 4096,
            calls_per_second: 20_000,
            connection_calls_per_second: 4_000,
            slice_bytes: 16 << 30,
            connection_age: Duration::from_secs(3600),
        }
    }
}
