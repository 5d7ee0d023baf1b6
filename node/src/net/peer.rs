//! The other end of a connection.

use std::net::IpAddr;

use crate::admission::ReadThrottle;
use crate::auth::Identity;

/// A connection's knowledge of its peer, among the extensions of each request.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// The way in which the caller reached this process.
    pub peer: Peer,
    /// The throttle of the connection: handlers spend from it for what a call cost.
    pub throttle: ReadThrottle,
}

/// The way in which a caller reached this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over a Unix socket, as the user that this process runs as.
    Local,
    /// Over TCP without TLS.
    Plain(IpAddr),
    /// Over TLS with a certificate of our authority, which may still name no identity of ours.
    Certified(IpAddr, Option<Identity>),
}

/// Returns the address whose limits `address` shares: an IPv6 address counts as its whole /64, which belongs to one
/// subscriber.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(own) => IpAddr::V6((own.to_bits() & (u128::MAX << 64)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
