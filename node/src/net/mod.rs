//! Sockets and connections: listening, accepting, dialling, and following the coordinator that leads.

pub(crate) mod plain_http;
mod transport;

pub mod abort_on_close;
pub mod acceptor;
pub mod backoff;
pub mod connection;
pub mod dial;
pub mod leader_channel;
pub mod listen;
pub mod listener;
pub mod local_socket;
pub mod peer;
