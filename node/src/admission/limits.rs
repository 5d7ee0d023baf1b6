//! The limits of a process, as settings.

use std::time::Duration;

/// Limits of one process. docs/security.md describes what each refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of all callers. An eighth is for workers and coordinators alone, and one other certificate has
    /// half at most. A quarter as many TLS handshakes may run beside them.
    pub connections: usize,
    /// Open connections of one IP address.
    pub connections_per_address: usize,
    /// TLS handshakes a second of one IP address, with four seconds' worth at once. A faster one waits for up to a
    /// second, and is refused where that is not enough.
    pub handshakes_per_second: u32,
    /// Calls in flight on one connection. Clients assume 100 until the server's settings arrive (RFC 9113, section
    /// 6.5.2): with fewer, the first calls of a busy client would be refused.
    pub streams: u32,
    /// Calls in flight of all callers; a client has no more of them than are left for other clients.
    pub calls: usize,
    /// Calls a second of one caller, with ten seconds' worth at once. Its connections together are read no faster, with
    /// a quarter of a second's worth at once, but as fast as one connection may be.
    pub calls_per_second: u32,
    /// Calls a second of one connection, pings and the like among them: it is read no faster, with a quarter of a
    /// second's worth at once, and a tenth of that where it is new.
    pub connection_calls_per_second: u32,
    /// Bytes of rows in flight to one caller.
    pub slice_bytes: u64,
    /// Age at which a connection is asked to close; it is closed [`CLOSING_GRACE`] later, so that its peer is
    /// authenticated anew.
    pub connection_age: Duration,
}

/// Time that open streams have to end after their connection's age is up.
pub const CLOSING_GRACE: Duration = Duration::from_secs(300);
/// Names and values of the headers of one request, in bytes.
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
