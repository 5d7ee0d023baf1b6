//! Binding a listening socket, on loopback unless the operator said otherwise.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// The reason why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Other hosts could reach the address.
    #[error(
        "{address} is reachable from other hosts; allowed without TLS (--tls-dir): 127.0.0.0/8 and ::1, or \
         anything with --insecure-listen"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// Another process has bound the address.
    #[error("{address} is in use by another process; choose another port, or 0 to let the system choose")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The system refuses the address.
    #[error("{address} cannot be bound: {source}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Binds `address`. One that other hosts can reach is refused unless `may_leave_host`: there is TLS, or the operator
/// does without. Port 0 lets the system choose: read it back with `local_addr`.
pub async fn bind_loopback_checked(
    address: SocketAddr,
    may_leave_host: bool,
) -> Result<TcpListener, BindError> {
    // `to_canonical` sees through ::ffff:127.0.0.1, which is loopback too.
    if !may_leave_host && !address.ip().to_canonical().is_loopback() {
        return Err(BindError::NotLoopback { address });
    }
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        _ => BindError::Other { address, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn public_addresses_need_the_flag() {
        for text in ["0.0.0.0:0", "[::]:0", "10.1.2.3:0"] {
            let error = bind_loopback_checked(text.parse().unwrap(), false).await.unwrap_err();
            assert!(matches!(error, BindError::NotLoopback { .. }), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
        bind_loopback_checked("0.0.0.0:0".parse().unwrap(), true).await.unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let held = bind_loopback_checked("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = held.local_addr().unwrap();
        let error = bind_loopback_checked(address, false).await.unwrap_err();
        assert!(matches!(error, BindError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
