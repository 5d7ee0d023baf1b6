//! What an archive must agree with: itself, and the entries that it stands for, where they are there.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{
    archive::{ArchivedBindings, ArchivedOpening, JobArchive, Opened},
    event::{BoundRow, Event},
    stamp::{Principal, Stamp},
};

/// What the entries of a job said that its state does not hold, and an archive does.
#[derive(Default)]
pub struct SeenEntries {
    first: String,
    openings: Vec<ArchivedOpening>,
    bound: BTreeMap<u64, SeenBindings>,
}

impl SeenEntries {
    /// Takes the job's entry of this index, whose event is `event`. Error: it can't follow those before.
    pub fn take(&mut self, index: u64, entry: &[u8], event: &Event) -> Result<(), &'static str> {
        let began = match event {
            Event::Created { .. } => {
                self.first = String::from_utf8_lossy(entry).into_owned();
                return Ok(());
            }
            Event::Bound { branch, rows } => {
                let bound = self.bound.entry(*branch).or_default();
                return rows.iter().try_for_each(|row| bound.add(row));
            }
            Event::BranchOpened { branch, from_row, .. } => {
                self.bound.insert(*branch, SeenBindings::from_row(*from_row));
                Opened::BranchOpened { branch: *branch }
            }
            Event::Adopted { ledger } => Opened::Adopted { ledger: *ledger },
            _ => return Ok(()),
        };
        let (Stamp { by, at_ms }, _) =
            Stamp::split_stored(entry).map_err(|_| "an entry says neither who made it nor when")?;
        self.openings.push(ArchivedOpening { entry: index, by: by.to_string(), at_ms, began });
        Ok(())
    }

    /// Compares an archive with all of these entries.
    pub fn check(self, archive: &JobArchive) -> Result<(), &'static str> {
        let seen = self.bound.into_iter().filter(|(_, bound)| !bound.is_empty());
        let seen = seen.map(|(branch, bound)| (branch, bound.end()));
        let archived = archive
            .bound
            .iter()
            .map(|ArchivedBindings { branch, released, root, .. }| (*branch, (released.clone(), *root)));
        let is_same = self.first == archive.first && self.openings == archive.openings && seen.eq(archived);
        if is_same { Ok(()) } else { Err("an archive that says something else than the entries before") }
    }
}

/// The bindings of one branch, in any order: those from its first row on without a gap are hashed at once.
struct SeenBindings {
    first: u64,
    next: u64,
    root: Sha256,
    /// What comes after a gap.
    later: BTreeMap<u64, [u8; 33]>,
}

impl Default for SeenBindings {
    fn default() -> Self {
        Self::from_row(0)
    }
}

impl SeenBindings {
    fn from_row(first: u64) -> Self {
        let root = Sha256::new().chain_update(b"rustle bindings v1");
        Self { first, next: first, root, later: BTreeMap::new() }
    }

    fn is_empty(&self) -> bool {
        self.first == self.next && self.later.is_empty()
    }

    fn add(&mut self, BoundRow { row, commitment }: &BoundRow) -> Result<(), &'static str> {
        if *row < self.next || self.later.insert(*row, commitment.to_bytes()).is_some() {
            return Err("a row that is bound twice, or is before its branch");
        }
        while let Some(commitment) = self.later.remove(&self.next) {
            self.root.update(self.next.to_le_bytes());
            self.root.update(commitment);
            self.next += 1;
        }
        Ok(())
    }

    /// Returns the ranges of bound rows, and the root of the bindings.
    fn end(mut self) -> (Vec<(u64, u64)>, [u8; 32]) {
        let mut ranges = Vec::new();
        if self.first < self.next {
            ranges.push((self.first, self.next));
        }
        for (row, commitment) in self.later {
            self.root.update(row.to_le_bytes());
            self.root.update(commitment);
            match ranges.last_mut() {
                Some((_, end)) if *end == row => *end = row + 1,
                _ => ranges.push((row, row + 1)),
            }
        }
        (ranges, self.root.finalize().into())
    }
}

/// Checks what an archive of a job of so many rows says against itself: all that can be checked without the entries.
pub fn check_consistent(archive: &JobArchive, iterations: u64) -> Result<(), &'static str> {
    let branches = &archive.branches;
    let are_numbered = branches.iter().map(|opened| opened.branch).eq(1..=branches.len() as u64);
    let have_parents = branches.iter().all(|opened| opened.parent < opened.branch);
    let named = archive.openings.iter().filter_map(|opening| match opening.began {
        Opened::BranchOpened { branch } => Some(branch),
        Opened::Created | Opened::Adopted { .. } => None,
    });
    let are_named = named.eq(branches.iter().map(|opened| opened.branch));
    let entries = 1..archive.entries;
    let is_opening = |ArchivedOpening { entry, by, began, .. }: &ArchivedOpening| {
        entries.contains(entry) && *began != Opened::Created && Principal::new(by).as_str() == by
    };
    let are_openings = archive.openings.iter().all(is_opening)
        && archive.openings.is_sorted_by(|one, next| one.entry < next.entry);
    let first_row = |branch: u64| match branch.checked_sub(1) {
        None => Some(0),
        Some(before) => branches.get(usize::try_from(before).ok()?).map(|opened| opened.from_row),
    };
    let is_bound = |bound: &ArchivedBindings| {
        let first = bound.released.first().zip(first_row(bound.branch));
        let is_of_branch = first.is_some_and(|((start, _), first)| *start >= first);
        is_of_branch && bound.is_consistent() && bound.next_row <= iterations
    };
    let are_bound = archive.bound.iter().all(is_bound)
        && archive.bound.is_sorted_by(|one, next| one.branch < next.branch);
    let are_once = archive.shards.is_sorted_by(|one, next| one.shard < next.shard)
        && archive.checkpoints.is_sorted_by(|one, next| one.0 < next.0);
    let checks = [
        (are_numbered && have_parents, "an archive whose branches are not numbered one after another"),
        (are_named, "an archive that does not say once of every branch who opened it"),
        (are_openings, "an archive with openings that its entries can't have"),
        (are_bound, "an archive whose rows are not those that it counts"),
        (are_once, "an archive whose shards or checkpoints are not in order"),
    ];
    checks.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
}
