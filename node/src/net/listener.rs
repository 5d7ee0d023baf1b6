//! The address that a server listens at: TCP or a Unix socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::TcpListener;

use crate::net::listen::{BindError, bind_loopback_checked};
use crate::net::local_socket::{LocalSocket, SocketError};

/// An address to listen at: `ip:port`, or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:"));
        match path {
            Some("") => Err("a path is missing; allowed: ip:port or unix:/path".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|error| format!("{error}; allowed: ip:port or unix:/path")),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The reason why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The TCP address cannot be bound.
    #[error(transparent)]
    Tcp(#[from] BindError),
    /// The Unix socket cannot be bound.
    #[error(transparent)]
    Unix(#[from] SocketError),
}

impl ListenAddress {
    /// Returns whether other hosts can reach the address.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().to_canonical().is_loopback())
    }

    /// Binds the address. Call it inside a tokio runtime.
    pub async fn bind(&self, may_leave_host: bool) -> Result<Listener, ListenError> {
        Ok(match self {
            Self::Tcp(address) => Listener::Tcp(bind_loopback_checked(*address, may_leave_host).await?),
            Self::Unix(path) => Listener::Unix(LocalSocket::bind(path)?),
        })
    }
}

/// A bound address: connections made from now on are served.
#[derive(Debug)]
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(LocalSocket),
}

impl Listener {
    /// Returns the URL for gRPC clients; `is_tls` matters for TCP alone.
    pub fn endpoint(&self, is_tls: bool) -> io::Result<String> {
        let scheme = if is_tls { "https" } else { "http" };
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}", listener.local_addr()?)),
            Self::Unix(socket) => Ok(socket.endpoint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished() {
        let parse = |text: &str| text.parse::<ListenAddress>();
        assert_eq!(parse("unix:/run/x.sock"), Ok(ListenAddress::Unix("/run/x.sock".into())));
        assert_eq!(parse("unix:///run/x.sock"), parse("unix:/run/x.sock"));
        assert!(parse("10.0.0.1:7").unwrap().is_public());
        assert!(!parse("127.0.0.1:7").unwrap().is_public() && !parse("unix:/x").unwrap().is_public());
        for bad in ["", "here", "unix:", "/run/x.sock"] {
            assert!(parse(bad).unwrap_err().contains("unix:/path"), "{bad}");
        }
    }
}
