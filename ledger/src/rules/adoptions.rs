//! Adoptions: what the other copy of a ledger may have released of a job since this one was adopted.

use proto::{JobId, Lineage, Nonce, RowRange};
use redb::ReadableTable;

use crate::{
    JobRecord, Ledger, Result,
    chain::{
        self,
        archive::{JobArchive, Opened},
        entries::{Entries, archive_of},
        event::Event,
        stamp::{Stamp, event_of},
    },
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{ADOPTED_ID, ENTRIES, IDENTITY, branches_table::OpenedFrom, decode},
};

use super::branches::BranchReleases;

/// The beginning of the event's fields, whose tag comes first.
const ADOPTED: &[u8] = br#""event":"adopted""#;
/// The same of an opened branch.
const BRANCH_OPENED: &[u8] = br#""event":"branch_opened""#;

/// The rows that were unbound when a ledger was adopted: those of a branch from a row on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnboundRows {
    branch: u64,
    from_row: u64,
}

/// An adoption of the ledger, as the chain of a job has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The id that the ledger has from then on.
    ledger: Nonce,
    /// None where all rows of the job were bound, or the job had ended. Several where an adoption was interrupted and
    /// began again, or where the job had been rewound just before.
    unbound: Vec<UnboundRows>,
}

/// The adoptions in a job's chain.
#[derive(Default)]
struct Adoptions {
    whole: Vec<Adoption>,
    /// The branches that were opened last, with nothing after them: those of an adoption that was interrupted, if it was.
    begun: Vec<UnboundRows>,
}

/// Reads the adoptions from a job's chain, where the ledger was adopted.
pub fn adoptions_in(
    identity: &impl ReadableTable<&'static str, [u8; 32]>,
    entries: &impl Entries,
    job: &JobId,
) -> Result<Vec<Adoption>, Fail> {
    // Chains are long, and most ledgers were never adopted.
    match identity.get(ADOPTED_ID)? {
        None => Ok(Vec::new()),
        Some(_) => Ok(read_adoptions(entries, job)?.whole),
    }
}

fn read_adoptions(entries: &impl Entries, job: &JobId) -> Result<Adoptions, Fail> {
    if let Some(archive) = archive_of(entries, job)? {
        return Ok(Adoptions { whole: archived_adoptions(&archive), begun: Vec::new() });
    }
    let Adoptions { whole: mut found, begun: mut opened } = Adoptions::default();
    for entry in entries.range((job.as_str(), 0)..=(job.as_str(), u64::MAX))? {
        let stored = entry?.1;
        let fields = Stamp::split_stored(chain::split(stored.value())?.1)?.1;
        if fields.starts_with(BRANCH_OPENED) {
            if let Event::BranchOpened { parent, from_row, .. } = decode(&event_of(fields))? {
                opened.push(UnboundRows { branch: parent, from_row });
            }
            continue;
        }
        // Nothing comes between the branches of an adoption and the adoption itself.
        let unbound = std::mem::take(&mut opened);
        if fields.starts_with(ADOPTED)
            && let Event::Adopted { ledger } = decode(&event_of(fields))?
        {
            found.push(Adoption { ledger, unbound });
        }
    }
    Ok(Adoptions { whole: found, begun: opened })
}

/// Returns whether an adoption of the ledger, or one that was begun, opened a branch of the job as `opened` says.
pub fn is_of_adoption(entries: &impl Entries, job: &JobId, opened: &OpenedFrom) -> Result<bool, Fail> {
    let Adoptions { whole, begun } = read_adoptions(entries, job)?;
    let unbound = UnboundRows { branch: opened.parent, from_row: opened.from_row };
    Ok(whole.iter().flat_map(|adoption| &adoption.unbound).chain(&begun).any(|own| *own == unbound))
}

/// Returns the adoptions that an archive has kept.
fn archived_adoptions(archive: &JobArchive) -> Vec<Adoption> {
    let mut found = Vec::new();
    let mut opened = Vec::new();
    let mut next = 0;
    for opening in &archive.openings {
        // Nothing comes between the branches of an adoption and the adoption itself.
        if opening.entry != next {
            opened.clear();
        }
        next = opening.entry + 1;
        match opening.began {
            Opened::Created => {}
            Opened::BranchOpened { branch } => {
                let of_branch = archive.branches.iter().filter(|archived| archived.branch == branch);
                opened.extend(
                    of_branch.map(|from| UnboundRows { branch: from.parent, from_row: from.from_row }),
                );
            }
            Opened::Adopted { ledger } => {
                found.push(Adoption { ledger, unbound: std::mem::take(&mut opened) });
            }
        }
    }
    found
}

/// Returns whether another copy of the ledger may have released rows of the job since this one was adopted.
pub fn is_adopted(transaction: &RecordingTransaction<'_>, job: &JobId) -> Result<bool, Fail> {
    let identity = transaction.redb().open_table(IDENTITY)?;
    let entries = transaction.open_table(ENTRIES)?;
    Ok(!adoptions_in(&identity, &entries, job)?.is_empty())
}

impl Ledger {
    fn adoptions(&self, job: &JobId) -> Result<Vec<Adoption>> {
        self.store.read(|transaction| {
            adoptions_in(&transaction.open_table(IDENTITY)?, &transaction.open_table(ENTRIES)?, job)
        })
    }

    /// Returns every branch of the job with the rows that an accountant charges for: those of [`Ledger::released`], and
    /// for every adoption of the ledger all rows that were unbound then, as if the other copy had released them.
    pub fn charged(&self, job: &JobId) -> Result<Vec<BranchReleases>> {
        let mut branches = self.released(job)?;
        let Some(record) = self.job(job)? else { return Ok(branches) };
        for unbound in self.adoptions(job)?.iter().flat_map(|adoption| &adoption.unbound) {
            let lineage = self.lineage(job, unbound.branch)?;
            assume_released(&mut branches, &lineage, unbound.from_row, record.iterations);
        }
        Ok(branches)
    }

    /// Returns what [`Ledger::charged`] returns once the ledger is adopted, where all rows of the job's current branch from
    /// `from_row` on count as released by the other copy.
    pub fn charged_once_adopted(&self, record: &JobRecord, from_row: u64) -> Result<Vec<BranchReleases>> {
        let mut branches = self.charged(&record.job)?;
        assume_released(&mut branches, &record.lineage, from_row, record.iterations);
        let begun = self
            .store
            .read(|transaction| Ok(read_adoptions(&transaction.open_table(ENTRIES)?, &record.job)?.begun))?;
        for unbound in begun {
            let lineage = self.lineage(&record.job, unbound.branch)?;
            assume_released(&mut branches, &lineage, unbound.from_row, record.iterations);
        }
        Ok(branches)
    }

    /// Returns why more of the job may have been released than this ledger has in any account; `None` where nothing says so.
    /// The doubt of a copy ends with its adoption. That of an adopted one never does.
    pub fn doubt(&self, job: &JobId) -> Result<Option<String>> {
        if let Some(copied) = self.copied() {
            return Ok(Some(copied.to_string()));
        }
        let Some(record) = self.job(job)? else { return Ok(None) };
        let adoptions = self.adoptions(job)?;
        let said: Vec<_> = adoptions.iter().map(|adoption| adoption.doubt(record.iterations)).collect();
        Ok((!said.is_empty()).then(|| said.join("; ")))
    }
}

impl Adoption {
    fn doubt(&self, iterations: u64) -> String {
        let ledger = self.ledger;
        match self.unbound.first() {
            Some(UnboundRows { branch, from_row }) => format!(
                "this ledger is a copy that was adopted at row {from_row} of branch {branch}, as ledger {ledger}. Rows \
                 {from_row}..{iterations} of that branch are charged as if the other copy had released them all. What else it \
                 released since (after a rewind, or of other jobs) is charged nowhere: add up both"
            ),
            None => format!(
                "this ledger is a copy that was adopted, as ledger {ledger}, when no row of this job was left to bind. What the \
                 other copy released since (after a rewind, or of other jobs) is charged nowhere: add up both"
            ),
        }
    }
}

/// Counts the lineage's rows from `from_row` on as released, each on the branch whose Z it has.
fn assume_released(branches: &mut [BranchReleases], lineage: &Lineage, from_row: u64, iterations: u64) {
    for (branch, rows) in lineage.cut(RowRange { start: from_row, end: iterations }) {
        if let Some(releases) = branches.iter_mut().find(|releases| releases.branch == branch) {
            add(&mut releases.released, rows);
        }
    }
}

/// Adds rows to ranges that are in order and apart.
fn add(ranges: &mut Vec<RowRange>, rows: RowRange) {
    let touches = |range: &RowRange| range.start <= rows.end && rows.start <= range.end;
    let whole = ranges.iter().filter(|range| touches(range)).fold(rows, |whole, range| RowRange {
        start: whole.start.min(range.start),
        end: whole.end.max(range.end),
    });
    ranges.retain(|range| !touches(range));
    ranges.push(whole);
    ranges.sort_unstable_by_key(|range| range.start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_as_a_set_has_them() {
        let bound = [2, 3, 5, 8, 9];
        for start in 0..12 {
            for end in start + 1..12 {
                let mut ranges =
                    [(2, 4), (5, 6), (8, 10)].map(|(start, end)| RowRange { start, end }).to_vec();
                add(&mut ranges, RowRange { start, end });
                let rows: Vec<_> = ranges.iter().flat_map(|range| range.start..range.end).collect();
                let is_in = |row: &u64| bound.contains(row) || (start..end).contains(row);
                let expected: Vec<_> = (0..12).filter(is_in).collect();
                assert_eq!(rows, expected, "{start}..{end}");
            }
        }
    }
}
