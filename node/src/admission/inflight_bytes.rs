//! The room for request messages in flight: a message that never arrives whole takes memory for as long as its call may
//! last, and a caller may have a great many calls.

use super::{Budget, Reservation};
use crate::auth::{ClientKey, Refusal};

const MIB: u64 = 1 << 20;
/// Bytes of one caller; a larger message is admitted alone.
const PER_CALLER: u64 = 64 * MIB;
/// Bytes of all clients. The cluster's own messages are not among them.
const ALL_CLIENTS: u64 = 256 * MIB;
/// Longest message that is not counted. Most are this short, and the limit on calls limits them too.
const UNCOUNTED_BYTES: u64 = 64 << 10;

/// The bytes of request messages in flight. Clones share the count.
#[derive(Clone, Debug)]
pub struct InflightBytes {
    per_caller: Budget,
    all_clients: Budget,
}

/// The room of one message, until it is dropped.
#[derive(Debug)]
pub struct InflightBytesPermit {
    _reservations: [Option<Reservation>; 2],
}

impl Default for InflightBytes {
    fn default() -> Self {
        Self {
            per_caller: Budget::bytes("bytes on their way from this caller", PER_CALLER),
            all_clients: Budget::bytes("bytes on their way from all callers", ALL_CLIENTS),
        }
    }
}

impl InflightBytes {
    /// Takes room for a message of `bytes`, or refuses.
    pub fn take(
        &self,
        caller: &ClientKey,
        is_of_cluster: bool,
        bytes: u64,
    ) -> Result<InflightBytesPermit, Refusal> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(InflightBytesPermit { _reservations: [None, None] });
        }
        let own = self.per_caller.take(caller, bytes)?;
        let all =
            if is_of_cluster { None } else { Some(self.all_clients.take(&ClientKey("all".into()), bytes)?) };
        Ok(InflightBytesPermit { _reservations: [Some(own), all] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_one_caller_nor_all_take_more_than_there_is() {
        let arriving = InflightBytes::default();
        let all_that = |name: &str, is_of_cluster| {
            let caller = ClientKey(name.into());
            std::iter::from_fn(|| arriving.take(&caller, is_of_cluster, 4 * MIB).ok()).collect::<Vec<_>>()
        };
        let clients: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| all_that(name, false)).into();
        assert_eq!(clients.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 16, 16, 0]);
        assert_eq!(all_that("worker", true).len(), 16, "the cluster's own are not kept out");
        arriving.take(&ClientKey("a".into()), false, UNCOUNTED_BYTES).unwrap();
        drop(clients);
        assert_eq!(all_that("e", false).len(), 16);
    }
}
