//! The rows that this rank may generate: those that are durably bound on the branch that its shard is on. Another branch
//! has other noise under the same row number, and its bindings do not count here.

use std::collections::BTreeMap;

use proto::{Commitment, CoordinateRange};

use crate::{
    Rank,
    wire::{ANY_BRANCH, Get},
};

/// A request that lies within the shard.
#[derive(Debug)]
pub struct RowRequest {
    pub from: Rank,
    pub get: Get,
    pub range: CoordinateRange,
    pub commitment: Commitment,
}

/// The next action for a request.
#[derive(Debug)]
pub enum Decision {
    /// Generate its row, which is bound to the request's commitment on the shard's branch.
    Generate(RowRequest),
    /// Refuse it: its row is bound to another commitment.
    AlreadyBound(RowRequest),
    /// Refuse it: it is of another branch, or of one that the rank is leaving.
    Superseded(RowRequest),
    /// The request waits, and the caller must request that the row be bound.
    Bind { branch: u64, row: u64, commitment: Commitment },
    /// The request waits for a binding that is already requested.
    Wait,
}

/// The bindings of one branch that this rank knows of, and the requests that wait for more of them.
pub struct Bindings {
    /// The branch of the shard.
    branch: u64,
    /// True while the job is on another branch and the shard is not yet.
    is_leaving: bool,
    /// Rows that are durably bound.
    bound: BTreeMap<u64, Commitment>,
    /// Requests whose rows are not bound yet.
    waiting: Vec<RowRequest>,
}

impl Bindings {
    /// Returns no bindings, for a shard that is on this branch.
    pub fn for_branch(branch: u64) -> Self {
        Self { branch, is_leaving: false, bound: BTreeMap::new(), waiting: Vec::new() }
    }

    /// Returns whether no request waits for a binding.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn is_on(&self, branch: u64) -> bool {
        !self.is_leaving && branch == self.branch
    }

    /// Takes a request and decides about it.
    pub fn request(&mut self, request: RowRequest) -> Decision {
        let row = request.get.row;
        let commitment = request.commitment;
        let branch = if request.get.branch == ANY_BRANCH { self.branch } else { request.get.branch };
        if !self.is_on(branch) {
            return Decision::Superseded(request);
        }
        match self.bound.get(&row) {
            Some(bound) if *bound == commitment => Decision::Generate(request),
            Some(_) => Decision::AlreadyBound(request),
            None => {
                let same = |other: &RowRequest| other.get.row == row && other.commitment == commitment;
                let is_requested = self.waiting.iter().any(same);
                self.waiting.push(request);
                if is_requested { Decision::Wait } else { Decision::Bind { branch, row, commitment } }
            }
        }
    }

    /// Notes that the row is durably bound on `branch`, and decides about the requests that wait for it. A binding of the
    /// branch that the rank is about to switch to may be dropped: no request waits for it yet, and one that comes after
    /// the switch has it bound again.
    pub fn bound(&mut self, branch: u64, row: u64, commitment: Commitment) -> Vec<Decision> {
        if !self.is_on(branch) {
            return Vec::new();
        }
        self.bound.insert(row, commitment);
        let waiting = std::mem::take(&mut self.waiting);
        let (now, later) = waiting.into_iter().partition::<Vec<_>, _>(|request| request.get.row == row);
        self.waiting = later;
        now.into_iter().map(|request| self.request(request)).collect()
    }

    /// Removes and returns the requests that waited for a binding on `branch` that was refused. An answer that outlived
    /// its branch concerns none.
    pub fn not_bound(&mut self, branch: u64, row: u64, commitment: Commitment) -> Vec<RowRequest> {
        if !self.is_on(branch) {
            return Vec::new();
        }
        let is_refused = |request: &RowRequest| request.get.row == row && request.commitment == commitment;
        let (refused, later) = std::mem::take(&mut self.waiting).into_iter().partition(is_refused);
        self.waiting = later;
        refused
    }

    /// Notes that the job is on another branch. Waiting requests are refused at once: bindings reported from now on are of
    /// that branch, and the shard still has the noise of this one. Nothing is accepted until the switch.
    pub fn leave(&mut self) -> Vec<Decision> {
        self.is_leaving = true;
        std::mem::take(&mut self.waiting).into_iter().map(Decision::Superseded).collect()
    }
}

#[cfg(test)]
mod tests;
