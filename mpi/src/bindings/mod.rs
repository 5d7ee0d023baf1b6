//! Which rows this rank may make: those that are durably bound on the branch that its shard is on. Another branch has other
//! noise under the same number, and its bindings say nothing here.

use std::collections::BTreeMap;

use mpi::Rank;
use proto::{Commitment, CoordinateRange};

use super::message::{ANY_BRANCH, Message};

/// A request that lies within the shard.
#[derive(Debug)]
pub struct Asked {
    pub from: Rank,
    pub get: Message,
    pub range: CoordinateRange,
    pub commitment: Commitment,
}

/// What becomes of a request now.
#[derive(Debug)]
pub enum Fate {
    /// Its row is bound so, on the shard's branch.
    Make(Asked),
    /// Its row is bound to another commitment.
    Taken(Asked),
    /// It is of another branch, or of one that the rank is leaving.
    Superseded(Asked),
    /// It waits; the row is to be bound.
    Bind { branch: u64, row: u64, commitment: Commitment },
    /// It waits for a binding that is asked for already.
    Wait,
}

/// What this rank has heard of the bindings of one branch, and the requests that wait for more of them.
pub struct Bindings {
    /// The shard's.
    branch: u64,
    /// The job is on another branch, and the shard not yet.
    is_leaving: bool,
    /// Rows that are durably bound.
    bound: BTreeMap<u64, Commitment>,
    /// Requests whose rows are not.
    unbound: Vec<Asked>,
}

impl Bindings {
    /// Of a shard that is on this branch.
    pub fn of_branch(branch: u64) -> Self {
        Self { branch, is_leaving: false, bound: BTreeMap::new(), unbound: Vec::new() }
    }

    /// Whether nobody waits for a binding.
    pub fn is_idle(&self) -> bool {
        self.unbound.is_empty()
    }

    fn is_on(&self, branch: u64) -> bool {
        !self.is_leaving && branch == self.branch
    }

    pub fn ask(&mut self, asked: Asked) -> Fate {
        let row = asked.get.row;
        let commitment = asked.commitment;
        let branch = if asked.get.id == ANY_BRANCH { self.branch } else { asked.get.id };
        match self.bound.get(&row) {
            _ if !self.is_on(branch) => Fate::Superseded(asked),
            Some(bound) if *bound == commitment => Fate::Make(asked),
            Some(_) => Fate::Taken(asked),
            None => {
                let same = |other: &Asked| other.get.row == row && other.commitment == commitment;
                let is_asked_for = self.unbound.iter().any(same);
                self.unbound.push(asked);
                if is_asked_for { Fate::Wait } else { Fate::Bind { branch, row, commitment } }
            }
        }
    }

    /// The row is durably bound on `branch`; what becomes of those who wait for it. A binding of the branch that the rank
    /// is about to turn to may be dropped: nobody waits for it yet, and who asks after the turn has it bound again.
    pub fn bound(&mut self, branch: u64, row: u64, commitment: Commitment) -> Vec<Fate> {
        if !self.is_on(branch) {
            return Vec::new();
        }
        self.bound.insert(row, commitment);
        let waiting = std::mem::take(&mut self.unbound);
        let (now, later) = waiting.into_iter().partition::<Vec<_>, _>(|asked| asked.get.row == row);
        self.unbound = later;
        now.into_iter().map(|asked| self.ask(asked)).collect()
    }

    /// The row may not be bound so on `branch`: who waited for it. An answer that outlived its branch is nobody's.
    pub fn not_bound(&mut self, branch: u64, row: u64, commitment: Commitment) -> Vec<Asked> {
        if !self.is_on(branch) {
            return Vec::new();
        }
        let is_refused = |asked: &Asked| asked.get.row == row && asked.commitment == commitment;
        let (refused, later) = std::mem::take(&mut self.unbound).into_iter().partition(is_refused);
        self.unbound = later;
        refused
    }

    /// The job is on another branch. Who waits is refused at once: what is heard of bindings from now on is of that
    /// branch, and the shard still has the noise of this one. Until the turn nothing is taken.
    pub fn leave(&mut self) -> Vec<Fate> {
        self.is_leaving = true;
        std::mem::take(&mut self.unbound).into_iter().map(Fate::Superseded).collect()
    }
}

#[cfg(test)]
mod tests;
