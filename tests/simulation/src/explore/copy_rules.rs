//! What the real ledger answers to an anchor in a store, and from which row an adoption draws fresh noise: asked once for every
//! case.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use ledger::{AnchorPlace, Draws, Ledger, StoreAnchor};
use proto::{Commitment, Nonce, RowRange};
use redb::backends::InMemoryBackend;

use super::state::{COMMITMENTS, ROWS};
use crate::cases::{self, Case};

const LEASE: Duration = Duration::from_secs(5);

/// Which opening a ledger has, by an anchor's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openings {
    Latest,
    /// The one before the latest.
    Before,
    Other,
}

/// For each of these, whether the anchor is settled, and whether it has seen more than the ledger has: whether they agree.
#[derive(Debug)]
pub struct AnchorRule([[[bool; 2]; 2]; 3]);

/// The first row of fresh noise after an adoption, by the rows that are bound.
#[derive(Debug)]
pub struct FreshRule(Vec<usize>);

fn nonce(number: u8) -> Nonce {
    Nonce::from_bytes([number; 32])
}

fn draws(number: u8) -> Draws {
    Draws { place: nonce(90), opening: nonce(number), written: nonce(number + 1) }
}

/// A ledger with the job, whose rows are bound as `bound` says.
fn ledger_with(case: &Case, bound: &[u8]) -> anyhow::Result<Ledger> {
    let ledger = Ledger::open_on(InMemoryBackend::new(), Path::new("explored"), nonce(0))?;
    let (record, shards) = case.records();
    ledger.create_job(&record, &shards)?;
    for (row, bound) in (0..).zip(bound).filter(|(_, bound)| **bound > 0) {
        let rows = RowRange { start: row, end: row + 1 };
        ledger.bind(&case.job, 0, rows, &[Commitment::of_text(&bound.to_string())])?;
    }
    Ok(ledger)
}

/// The first anchor of a ledger, settled, which the ledger has.
fn first_anchor(ledger: &Ledger) -> anyhow::Result<StoreAnchor> {
    let announced = ledger.announcement(None, draws(1), LEASE)?;
    ledger.note_opening(&announced)?;
    Ok(ledger.renewal(&announced, nonce(3))?)
}

impl AnchorRule {
    /// Asks a ledger for every case.
    pub fn of_the_ledger() -> anyhow::Result<Self> {
        let case = cases::case(0, 0);
        let mut rule = [[[false; 2]; 2]; 3];
        for (is_more, bound) in [&[1][..], &[1, 1]].into_iter().enumerate() {
            // The ledger that is compared has one row; the one whose anchors there are may have another.
            let compared = ledger_with(case, &[1])?;
            let writer = ledger_with(case, bound)?;
            first_anchor(&compared)?;
            let first = first_anchor(&writer)?;
            let announced = writer.announcement(Some(&first), draws(5), LEASE)?;
            let agrees =
                |ledger: &Ledger, anchor: &StoreAnchor| ledger.for_adoption().agrees_with(anchor, "");
            // `compared` has the first opening.
            rule[Openings::Latest as usize][1][is_more] = agrees(&compared, &first)?;
            rule[Openings::Before as usize][0][is_more] = agrees(&compared, &announced)?;
            writer.note_opening(&announced)?;
            let settled = writer.renewal(&announced, nonce(7))?;
            rule[Openings::Before as usize][1][is_more] = agrees(&compared, &settled)?;
            let third = writer.announcement(Some(&settled), draws(9), LEASE)?;
            rule[Openings::Other as usize][0][is_more] = agrees(&compared, &third)?;
            writer.note_opening(&third)?;
            rule[Openings::Other as usize][1][is_more] =
                agrees(&compared, &writer.renewal(&third, nonce(11))?)?;
            compared.note_opening(&announced)?;
            rule[Openings::Latest as usize][0][is_more] = agrees(&compared, &announced)?;
        }
        Ok(Self(rule))
    }

    pub fn agrees(&self, opening: Openings, is_settled: bool, has_seen_more: bool) -> bool {
        self.0[opening as usize][usize::from(is_settled)][usize::from(has_seen_more)]
    }
}

fn index(bound: &[u8; ROWS]) -> usize {
    bound.iter().fold(0, |index, row| index * (COMMITMENTS + 1) + usize::from(*row))
}

impl FreshRule {
    /// Adopts a ledger for every state of the first rows.
    pub fn of_the_program() -> anyhow::Result<Self> {
        let case = cases::case(0, 0);
        let mut fresh = vec![0; (COMMITMENTS + 1).pow(ROWS as u32)];
        let each = || 0..=COMMITMENTS as u8;
        for bound in each().flat_map(|a| each().flat_map(move |b| each().map(move |c| [a, b, c]))) {
            let ledger = ledger_with(case, &bound)?;
            let folder = tempfile::tempdir()?;
            let place = AnchorPlace::of_ledger(&folder.path().join("ledger.redb"));
            let mut drawn = 20;
            let draw = || {
                drawn += 1;
                Ok::<_, anyhow::Error>(nonce(drawn))
            };
            let before = ledger.lineage(&case.job, 0)?;
            let (adopted, jobs) = release::adoption::adopt(&ledger, &place, draw)?;
            let [job] = &jobs[..] else { anyhow::bail!("{jobs:?} were adopted") };
            let record = adopted.job(&case.job)?.ok_or_else(|| anyhow::anyhow!("no job"))?;
            let last = record.lineage.segments().last();
            let is_fresh = last.is_some_and(|last| {
                last.from_row == job.from_row && before.segments().iter().all(|old| old.nonce != last.nonce)
            });
            ensure!(is_fresh, "rows {bound:?}: adopted as {}", record.lineage);
            fresh[index(&bound)] = job.from_row as usize;
        }
        Ok(Self(fresh))
    }

    pub fn from(&self, bound: &[u8; ROWS]) -> usize {
        self.0[index(bound)]
    }
}
