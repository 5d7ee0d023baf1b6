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

    /// Returns the range of keys, start and end, with the records from `first` on and before `end`.
    pub fn log_between(&self, first: u64, end: u64) -> (String, String) {
        (self.log(first), self.log(end))
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

    /// Returns the range of keys, start and end, with all pieces of records before `number`.
    pub fn parts_before(&self, number: u64) -> (String, String) {
        (format!("{}/part/", self.prefix), format!("{}/part/{number:020}", self.prefix))
    }

    /// Returns the key of the state that stands for the log's first records.
    pub fn state(&self) -> String {
        format!("{}/state", self.prefix)
    }

    /// Returns the key of one piece of the state before the record `number`, written by the leader `by`.
    pub fn piece(&self, number: u64, by: i64, index: usize) -> String {
        format!("{}/piece/{number:020}/{by}/{index:08}", self.prefix)
    }

    /// Returns the ranges of keys, start and end, with the pieces of all states but this one.
    pub fn other_pieces(&self, number: u64, by: i64) -> [(String, String); 2] {
        let own = format!("{}/piece/{number:020}/{by}", self.prefix);
        let [first, end] = self.all_pieces();
        [(first, format!("{own}/")), (format!("{own}0"), end)]
    }

    /// Returns the start and the end of the range of keys with the pieces of all states.
    pub fn all_pieces(&self) -> [String; 2] {
        [format!("{}/piece/", self.prefix), format!("{}/piece0", self.prefix)]
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
        let (first, end) = keys.log_between(3, 10);
        let is_between = |number| first <= keys.log(number) && keys.log(number) < end;
        assert!(is_between(3) && is_between(9) && !is_between(2) && !is_between(10));
        let (first, end) = keys.parts_before(10);
        let is_before = |key: String| first <= key && key < end;
        assert!(is_before(keys.part(9, 77, 3)) && !is_before(keys.part(10, 0, 0)));
    }

    #[test]
    fn pieces_of_other_states_are_all_but_those_of_one() {
        let keys = Keys::new("r/p");
        let others = keys.other_pieces(5, 12);
        let is_other = |key: String| others.iter().any(|(first, end)| *first <= key && key < *end);
        for (number, by) in [(4, 12), (5, 1), (5, 11), (5, 13), (5, 120), (5, 123), (6, 12), (50, 12)] {
            assert!(
                is_other(keys.piece(number, by, 0)) && is_other(keys.piece(number, by, 99)),
                "{number} {by}"
            );
        }
        assert!(!is_other(keys.piece(5, 12, 0)) && !is_other(keys.piece(5, 12, 99_999_999)));
        assert!(!is_other(keys.state()) && !is_other(keys.log(5)) && !is_other(keys.part(5, 1, 1)));
    }
}
