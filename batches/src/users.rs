//! Records of users: by example-level sampling, and those that a sampled user brings along.

use std::sync::Arc;

use crate::poisson::Poisson;
use crate::population::Users;
use crate::seed::{Key, Keys};
use crate::source::Source;

/// G records of each user, chosen once, Poisson-sampled one by one. Memory: one number a user.
pub(crate) struct ExampleLevel {
    poisson: Poisson,
    users: Arc<Users>,
    /// Where each user's chosen records begin, all users' put in a row.
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
            total += users.of(user).1.min(group_size);
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
            let (first, size) = self.users.of(user as u64);
            if last != Some(user) {
                self.members.draws(user as u64).subset(self.group_size, size, &mut subset);
                last = Some(user);
            }
            batch.push(first + subset[(index - self.chosen_starts[user]) as usize]);
        }
        batch
    }
}

/// What users of user-level sampling user_records: G records each, or all they have, drawn anew every round.
pub(crate) struct UserRecords {
    users: Arc<Users>,
    group_size: u64,
    key: Key,
}

impl UserRecords {
    pub fn new(keys: &Keys, group_size: u64, users: Arc<Users>) -> Self {
        Self { users, group_size, key: keys.derive("members") }
    }

    /// The records of `users`, ascending as they are.
    pub fn records(&self, round: u64, users: &[u64]) -> Vec<u64> {
        let mut draws = self.key.draws(round);
        let mut subset = Vec::new();
        let mut batch = Vec::new();
        for &user in users {
            let (first, size) = self.users.of(user);
            draws.subset(self.group_size, size, &mut subset);
            batch.extend(subset.iter().map(|index| first + index));
        }
        batch
    }
}
