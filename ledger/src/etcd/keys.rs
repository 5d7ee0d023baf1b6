//! The names of the keys in etcd.

/// The keys of one ledger.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// Names keys under `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Returns the key of the ledger's identity.
    pub fn ledger(&self) -> String {
        format!("{}/ledger", self.prefix)
    }

    /// Returns the key that the leader owns.
    pub fn leader(&self) -> String {
        format!("{}/leader", self.prefix)
    }

    /// Returns the key of one record. It has all 20 digits of a number, so that etcd's order is that of the numbers.
    pub fn log(&self, number: u64) -> String {
        format!("{}/log/{number:020}", self.prefix)
    }

    /// Returns the first key after all of the log.
    pub fn log_end(&self) -> String {
        format!("{}/log0", self.prefix)
    }

    /// Returns the number of the record under `key`; `None` for any other key.
    pub fn number_of(&self, key: &[u8]) -> Option<u64> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("/log/")?;
        rest.parse().ok()
    }

    /// Returns the key of one piece of a record, written by the leader `by`.
    pub fn part(&self, number: u64, by: i64, index: usize) -> String {
        format!("{}/part/{number:020}/{by}/{index:06}", self.prefix)
    }

    /// Returns the range of keys, start and end, with all pieces of records from `number` on.
    pub fn parts_from(&self, number: u64) -> (String, String) {
        (format!("{}/part/{number:020}", self.prefix), format!("{}/part0", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let keys = Keys::new("r/p");
        assert!(keys.log(9) < keys.log(10) && keys.log(u64::MAX) < keys.log_end());
        assert_eq!(keys.number_of(keys.log(77).as_bytes()), Some(77));
        assert_eq!(keys.number_of(keys.leader().as_bytes()), None);
        let (first, end) = keys.parts_from(5);
        let within = |key: String| first <= key && key < end;
        assert!(within(keys.part(5, 3, 0)) && within(keys.part(6, 1, 2)) && !within(keys.part(4, 9, 9)));
    }
}
