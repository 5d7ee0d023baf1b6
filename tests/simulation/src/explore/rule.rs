//! What the real ledger answers to a binding, asked once for every state of a job's rows.

use std::path::Path;

use ledger::{Ledger, LedgerError};
use proto::{Commitment, Nonce, RowRange};
use redb::backends::InMemoryBackend;

use super::state::{COMMITMENTS, ROWS};
use crate::cases::{self, Case};

/// Rows 0, 1, 2: unbound, or bound to one of two commitments.
type Bound = [u8; ROWS];

/// For each state of the rows and each requested row and commitment, whether the binding is granted.
#[derive(Debug)]
pub struct BindRule(Vec<[[bool; COMMITMENTS]; ROWS]>);

fn index(bound: &Bound) -> usize {
    bound.iter().fold(0, |index, row| index * (COMMITMENTS + 1) + *row as usize)
}

/// Returns the states of the rows in the order of their indices.
fn each_bound() -> impl Iterator<Item = Bound> {
    let each = || 0..=COMMITMENTS as u8;
    each().flat_map(move |a| each().flat_map(move |b| each().map(move |c| [a, b, c])))
}

fn commitment(number: u8) -> Commitment {
    Commitment::of_text(&number.to_string())
}

impl BindRule {
    /// Asks a ledger of its own for every state of the rows.
    pub fn of_the_ledger() -> anyhow::Result<Self> {
        let case = cases::case(0, 0);
        let mut answers = Vec::new();
        for bound in each_bound() {
            let mut answer = [[false; COMMITMENTS]; ROWS];
            for (row, answer) in answer.iter_mut().enumerate() {
                for (asked, answer) in answer.iter_mut().enumerate() {
                    let ledger = ledger_with(case, &bound)?;
                    *answer = match bind(&ledger, case, row, asked as u8 + 1) {
                        Ok(_) => true,
                        Err(LedgerError::AlreadyBound { .. }) => false,
                        Err(error) => return Err(error.into()),
                    };
                }
            }
            answers.push(answer);
        }
        let rule = Self(answers);
        rule.check_that_names_do_not_matter()?;
        Ok(rule)
    }

    /// All rows and commitments get the same answer where they are unbound, bound to what is asked, or to another:
    /// the exploration takes those that differ in names for one.
    fn check_that_names_do_not_matter(&self) -> anyhow::Result<()> {
        let mut answers = [None; 3];
        for bound in each_bound() {
            for (row, asked) in
                (0..ROWS).flat_map(|row| (1..=COMMITMENTS as u8).map(move |asked| (row, asked)))
            {
                let is_granted = self.grants(&bound, row, asked);
                let case = if bound[row] == 0 { 0 } else { 1 + usize::from(bound[row] != asked) };
                let expected = *answers[case].get_or_insert(is_granted);
                anyhow::ensure!(
                    is_granted == expected,
                    "rows {bound:?}: row {row} for {asked} is no like others"
                );
            }
        }
        Ok(())
    }

    /// Commitments are 1 and 2; 0 is unbound.
    pub fn grants(&self, bound: &Bound, row: usize, asked: u8) -> bool {
        self.0[index(bound)][row][asked as usize - 1]
    }
}

fn ledger_with(case: &Case, bound: &Bound) -> anyhow::Result<Ledger> {
    let ledger = Ledger::open_on(InMemoryBackend::new(), Path::new("explored"), Nonce::from_bytes([0; 32]))?;
    let (record, shards) = case.records();
    ledger.create_job(&record, &shards)?;
    for (row, bound) in bound.iter().enumerate().filter(|(_, bound)| **bound > 0) {
        bind(&ledger, case, row, *bound)?;
    }
    Ok(ledger)
}

fn bind(ledger: &Ledger, case: &Case, row: usize, asked: u8) -> Result<ledger::BindOutcome, LedgerError> {
    let rows = RowRange { start: row as u64, end: row as u64 + 1 };
    ledger.bind(&case.job, 0, rows, &[commitment(asked)])
}
