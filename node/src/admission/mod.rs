//! How much one caller, and all of them together, may ask of a process. A request over a limit is refused at once and
//! may be repeated, or is not read before there is time for it; nothing waits in a queue without an end.
//!
//! # Layout
//!
//! * Calls: [`GuardLayer`] stands in front of every handler and applies [`FairShare`] (calls at once), [`CallRates`]
//!   (calls a second), [`LimitedBody`] and [`InflightBytes`] (request messages). [`in_flight`] is the room of the
//!   call that is being handled; [`Budget`] limits bytes to or from each caller, [`KeyedRates`] whatever has a rate for each key; [`ErrorMapping`] words refusals.
//! * Connections: [`ConnectionLimit`], [`ClientConnections`], and for TLS handshakes [`HandshakeRate`] and
//!   [`Handshakes`].
//! * HTTP/2: [`PacedStream`] reads a connection no faster than its [`ReadThrottle`]s allow, by the costs of
//!   [`FrameCosts`].

mod body_limit;
mod budget;
mod call_rate;
mod client_connections;
mod connection_limit;
mod error_mapping;
mod fair_share;
mod guard;
mod handshake_rate;
mod handshakes;
mod http2_cost;
mod in_flight;
mod inflight_bytes;
mod keyed_rate;
mod limits;
mod paced_stream;
mod read_throttle;
mod token_bucket;

pub use body_limit::{LimitedBody, MessageLimit, MessagePermit};
pub use budget::{Budget, Reservation};
pub use call_rate::CallRates;
pub use client_connections::{ClientConnections, NoRoom};
pub use connection_limit::{ConnectionLimit, ConnectionPermit};
pub use error_mapping::ErrorMapping;
pub use fair_share::{CallClass, CallPermit, FairShare};
pub use guard::{GuardLayer, GuardService, ResponseReservation};
pub use handshake_rate::HandshakeRate;
pub use handshakes::{Handshake, Handshakes};
pub use http2_cost::{FRAME_BYTES, FrameCosts, HEAD_BYTES, PREFACE_BYTES};
pub use in_flight::{InFlight, in_flight};
pub use inflight_bytes::{InflightBytes, InflightBytesPermit};
pub use keyed_rate::KeyedRates;
pub use limits::{CLOSING_GRACE, HEADER_BYTES, Limits};
pub use paced_stream::PacedStream;
pub use read_throttle::{CallerThrottles, ReadThrottle, TOO_LARGE_CALLS};
