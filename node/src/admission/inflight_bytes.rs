//! Room for messages that are on their way here: a message that never comes whole takes memory for as long as its call
//! may last, and a caller may have a great many calls.

use super::{Budget, Hold};
use crate::auth::{ClientKey, Refusal};

const MIB: u64 = 1 << 20;
/// Of one caller; what is larger goes alone.
const OF_ONE: u64 = 64 * MIB;
/// Of all clients. The cluster's own messages are not among them.
const OF_ALL: u64 = 256 * MIB;
/// Calls are few enough for messages of this length, which most are, not to be counted.
const SMALL: u64 = 64 << 10;

#[derive(Clone, Debug)]
pub struct Arriving {
    of_one: Budget,
    of_all: Budget,
}

/// What one message takes of both, until it is dropped.
#[derive(Debug)]
pub struct Arrival {
    _holds: [Option<Hold>; 2],
}

impl Default for Arriving {
    fn default() -> Self {
        Self {
            of_one: Budget::of("bytes on their way from this caller", OF_ONE),
            of_all: Budget::of("bytes on their way from all callers", OF_ALL),
        }
    }
}

impl Arriving {
    pub fn take(&self, caller: &ClientKey, is_of_cluster: bool, bytes: u64) -> Result<Arrival, Refusal> {
        if bytes <= SMALL {
            return Ok(Arrival { _holds: [None, None] });
        }
        let own = self.of_one.take(caller, bytes)?;
        let all = if is_of_cluster { None } else { Some(self.of_all.take(&ClientKey("all".into()), bytes)?) };
        Ok(Arrival { _holds: [Some(own), all] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_one_caller_nor_all_take_more_than_there_is() {
        let arriving = Arriving::default();
        let all_that = |name: &str, is_of_cluster| {
            let caller = ClientKey(name.into());
            std::iter::from_fn(|| arriving.take(&caller, is_of_cluster, 4 * MIB).ok()).collect::<Vec<_>>()
        };
        let clients: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| all_that(name, false)).into();
        assert_eq!(clients.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 16, 16, 0]);
        assert_eq!(all_that("worker", true).len(), 16, "the cluster's own are not kept out");
        arriving.take(&ClientKey("a".into()), false, SMALL).unwrap();
        drop(clients);
        assert_eq!(all_that("e", false).len(), 16);
    }
}
