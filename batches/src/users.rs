//! Records of users: by example-level sampling, and the records of users that were sampled as a whole.

use std::sync::Arc;

use crate::poisson::Poisson;
use crate::population::Users;
use crate::seed::{Key, Keys};
use crate::source::Source;

/// Example-level sampling: G records of each user, chosen once, are Poisson-sampled one by one. It keeps one number for
/// each user.
pub(crate) struct ExampleLevel {
    poisson: Poisson,
    users: Arc<Users>,
    /// The index of each user's first chosen record, in a list of the chosen records of all users.
    chosen_starts: Vec<u64>,
    group_size: u64,
    members: Key,
}

impl ExampleLevel {
    pub fn new(keys: &Keys, q: f64, group_size: u64, users: Arc<Users>) -> Self {
        let mut total = 0;
        let mut chosen_starts = Vec::with_capacity(users.starts().len());
        for user in 0..users.count() {
            chosen_starts.push(total);
            total += users.records_of(user).1.min(group_size);
        }
        let poisson = Poisson::new(keys, q, total);
        Self { poisson, users, chosen_starts, group_size, members: keys.derive("members") }
    }
}

impl Source for ExampleLevel {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        let mut last = None;
        let mut subset = Vec::new();
        let mut batch = Vec::new();
        for index in self.poisson.chosen(round) {
            let user = self.chosen_starts.partition_point(|&start| start <= index) - 1;
            let (first, size) = self.users.records_of(user as u64);
            if last != Some(user) {
                self.members.draws(user as u64).subset(self.group_size, size, &mut subset);
                last = Some(user);
            }
            batch.push(first + subset[(index - self.chosen_starts[user]) as usize]);
        }
        batch
    }
}

/// The records of users that user-level sampling has chosen: G of each, or all that a user has, drawn anew every round.
pub(crate) struct UserRecords {
    users: Arc<Users>,
    group_size: u64,
    key: Key,
}

impl UserRecords {
    pub fn new(keys: &Keys, group_size: u64, users: Arc<Users>) -> Self {
        Self { users, group_size, key: keys.derive("members") }
    }

    /// Returns the records of `users`, which are ascending; so are the records.
    pub fn records(&self, round: u64, users: &[u64]) -> Vec<u64> {
        let mut draws = self.key.draws(round);
        let mut subset = Vec::new();
        let mut batch = Vec::new();
        for &user in users {
            let (first, size) = self.users.records_of(user);
            draws.subset(self.group_size, size, &mut subset);
            batch.extend(subset.iter().map(|index| first + index));
        }
        batch
    }
}
