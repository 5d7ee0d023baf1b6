//! A ledger's life on a disk that fails: a history is gone through to its end, by as many processes as that takes.

use std::path::Path;

use dice::Dice;
use ledger::{Clock, JobState, Ledger, LedgerError, Result};

use super::{
    disk::Disk,
    fault::{Fault, Operation},
    history::{HISTORY, Picture, Step},
};
use crate::{commitment, id, job, nonce, rows, two_shards};

pub(super) struct Life<'p> {
    disk: Disk,
    /// What the ledger shows before each step, and at the end.
    pictures: &'p [Picture],
    ledger: Option<Ledger>,
    /// Until a ledger was open there is none under its name.
    has_begun: bool,
    /// Steps that were answered.
    done: usize,
    /// The step after those may be done too.
    is_in_doubt: bool,
    /// The highest that was answered.
    epoch: u64,
    dice: Dice,
}

/// Where nothing fails: what the ledger shows before each step and at the end, and what the disk does.
pub(super) fn undisturbed() -> (Vec<Picture>, Vec<Operation>) {
    let disk = Disk::new(Dice::new(0));
    let mut life = Life::new(disk.clone(), &[], Dice::new(0));
    life.open().unwrap();
    let mut pictures = vec![Picture::of(life.ledger())];
    for step in HISTORY {
        life.take(step).unwrap();
        pictures.push(Picture::of(life.ledger()));
    }
    (pictures, disk.operations())
}

impl<'p> Life<'p> {
    pub(super) fn new(disk: Disk, pictures: &'p [Picture], dice: Dice) -> Self {
        Self { disk, pictures, ledger: None, has_begun: false, done: 0, is_in_doubt: false, epoch: 0, dice }
    }

    /// To the end of the history, through faults that come one after the other, each after so many operations more.
    pub(super) fn live(mut self, faults: &[(usize, Fault)]) {
        let mut faults = faults.iter();
        let mut arm =
            |disk: &Disk| faults.next().into_iter().for_each(|(after, fault)| disk.arm(*after, *fault));
        arm(&self.disk);
        while let Err(error) = self.open_and_go_on() {
            self.assert_ended(&error);
            self.ledger = None;
            self.mend();
            arm(&self.disk);
        }
        assert_eq!(self.done, HISTORY.len());
        self.disk.disarm();
        self.open_after_power_cut().unwrap();
        assert_eq!(self.disk.asked_after_a_fault(), 0, "the disk was used on after it had failed");
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    fn open_and_go_on(&mut self) -> Result<()> {
        if self.ledger.is_none() {
            self.open()?;
            self.assert_all_is_there();
            // What was answered from the page cache must be on the disk too.
            if self.dice.one_in(2) {
                self.open_after_power_cut()?;
            }
        }
        while let Some(step) = HISTORY.get(self.done) {
            self.is_in_doubt = true;
            self.take(step)?;
            self.is_in_doubt = false;
            self.done += 1;
        }
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Call(call) => call(self.ledger()),
            Step::Reopen => self.open(),
        }
    }

    /// As a new process does: what the one before had open is closed, and the first thing is an epoch.
    fn open(&mut self) -> Result<()> {
        self.ledger = None;
        if !self.has_begun {
            self.disk.erase();
        }
        let ledger = Ledger::open_on(self.disk.open(), Path::new("simulated"), nonce(99))?;
        self.has_begun = true;
        // Pictures are compared with their heads.
        let ledger = ledger.with_clock(Clock::new(|| 1_790_000_000_000));
        let epoch = self.ledger.insert(ledger).next_coordinator_epoch()?;
        assert!(epoch > self.epoch, "epoch {epoch} was answered after {}", self.epoch);
        self.epoch = epoch;
        Ok(())
    }

    fn open_after_power_cut(&mut self) -> Result<()> {
        self.disk.cut_power();
        self.open()?;
        self.assert_all_is_there();
        Ok(())
    }

    /// What an operator does, which is nothing to the ledger.
    fn mend(&mut self) {
        let goes_too = matches!(self.disk.struck(), Some(Fault::Sync { then_power_goes: true }));
        if self.disk.power_is_out() || goes_too {
            self.disk.cut_power();
        }
        if self.disk.is_full() {
            match self.open() {
                Ok(()) => self.assert_all_is_there(),
                Err(error) => self.assert_ended(&error),
            }
            self.ledger = None;
            self.disk.make_room();
        }
    }

    /// A disk that failed is never reported as a damaged ledger, and a ledger that met it says nothing any more.
    fn assert_ended(&self, error: &LedgerError) {
        let is_plain = matches!(error, LedgerError::Io { .. } | LedgerError::Stopped { .. });
        assert!(is_plain && !error.to_string().contains("panicked"), "{error}");
        let Some(ledger) = &self.ledger else { return };
        let j = id("j");
        let answers = [
            ledger.jobs().map(drop),
            ledger.bindings(&j, 0, 0..100).map(drop),
            ledger.next_coordinator_epoch().map(drop),
            ledger.create_job(&job("j"), &two_shards()).map(drop),
            ledger.bind(&j, 0, rows(0, 1), &[commitment("a")]).map(drop),
            ledger.bind(&j, 1, rows(50, 51), &[commitment("new")]).map(drop),
            ledger.remove_checkpoint(&j, 7),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(LedgerError::Stopped { .. })), "after {error}: {answer:?}");
        }
    }

    /// All that was answered, perhaps the step that was not, and nothing else; and it is held to.
    fn assert_all_is_there(&mut self) {
        let picture = Picture::of(self.ledger());
        let is_next = |next: &Picture| *next == picture && self.pictures[self.done] != picture;
        let is_next = self.is_in_doubt && self.pictures.get(self.done + 1).is_some_and(is_next);
        self.done += usize::from(is_next);
        self.is_in_doubt = false;
        assert!(self.pictures[self.done] == picture, "something else is there than {} steps did", self.done);
        for (record, row, bound) in picture.bound_rows() {
            let bind = |to| self.ledger().bind(&record.job, record.branch, rows(row, row + 1), &[to]);
            let again = bind(bound);
            let other = bind(commitment("another"));
            match record.state {
                JobState::Destroyed => assert!(matches!(other, Err(LedgerError::JobState { .. }))),
                _ => {
                    assert_eq!(again.unwrap().newly, 0);
                    assert!(matches!(other, Err(LedgerError::AlreadyBound { .. })), "{other:?}");
                }
            }
        }
    }
}
