//! A disk behind a page cache that fails at a chosen operation, and loses then what real ones lose.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dice::Dice;
use redb::StorageBackend;

use super::fault::{Fault, Operation};

/// What the page cache writes back at once.
const PAGE: usize = 4096;

/// What a disk writes whole or not at all: old ones and new ones.
const SECTORS: [usize; 2] = [512, 4096];

/// Clones are the same disk.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// What reads see: the page cache.
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Each page as it was after each write to it since the last sync: any of these may be on the disk by now.
    dirty: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The lengths of the file since the last sync.
    lengths: Vec<usize>,
    /// All operations since the disk was created.
    operations: Vec<Operation>,
    /// Strikes at the first operation it concerns from that one on.
    armed: Option<(usize, Fault)>,
    struck: Option<Fault>,
    /// The number of all faults since the disk was created.
    strikes: usize,
    /// Calls of a process that had met a fault.
    asked_after: usize,
    power_is_out: bool,
    is_full: bool,
    /// Rises when the process that has the disk open ends: its handles are of no use then.
    opened: u64,
    dice: Dice,
}

impl Disk {
    pub(super) fn new(dice: Dice) -> Self {
        Self(Arc::new(Mutex::new(State {
            seen: Vec::new(),
            durable: Vec::new(),
            dirty: BTreeMap::new(),
            lengths: Vec::new(),
            operations: Vec::new(),
            armed: None,
            struck: None,
            strikes: 0,
            asked_after: 0,
            power_is_out: false,
            is_full: false,
            opened: 0,
            dice,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For one process; what the one before had open is closed, and what it wrote is in the page cache.
    pub(super) fn open(&self) -> Handle {
        let mut state = self.state();
        state.opened += 1;
        state.struck = None;
        Handle { disk: self.clone(), opened: state.opened }
    }

    /// For the first operation that it concerns, after so many.
    pub(super) fn arm(&self, after: usize, fault: Fault) {
        let mut state = self.state();
        state.armed = Some((state.operations.len() + after, fault));
    }

    pub(super) fn disarm(&self) {
        self.state().armed = None;
    }

    /// Returns the faults that the process with the disk open has met.
    pub(super) fn struck(&self) -> Option<Fault> {
        self.state().struck
    }

    pub(super) fn strikes(&self) -> usize {
        self.state().strikes
    }

    pub(super) fn asked_after_a_fault(&self) -> usize {
        self.state().asked_after
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    pub(super) fn power_is_out(&self) -> bool {
        self.state().power_is_out
    }

    pub(super) fn is_full(&self) -> bool {
        self.state().is_full
    }

    pub(super) fn make_room(&self) {
        self.state().is_full = false;
    }

    /// Each sector that was not synced has any of its contents since the last sync, or the content before.
    pub(super) fn cut_power(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let sector = *state.dice.pick(&SECTORS);
        let all_is_lost = state.dice.one_in(4);
        let lengths = std::mem::take(&mut state.lengths);
        if let Some(drawn) = drawn(&lengths, all_is_lost, &mut state.dice) {
            state.durable.resize(*drawn, 0);
        }
        for (page, versions) in std::mem::take(&mut state.dirty) {
            for within in (0..PAGE).step_by(sector) {
                let Some(version) = drawn(&versions, all_is_lost, &mut state.dice) else { continue };
                put(&mut state.durable, page * PAGE + within, &version[within..within + sector]);
            }
        }
        state.seen = state.durable.clone();
        state.power_is_out = false;
        state.opened += 1;
    }

    /// A ledger whose making was cut short never got its name.
    pub(super) fn erase(&self) {
        let mut state = self.state();
        (state.seen, state.durable) = Default::default();
        (state.dirty, state.lengths) = Default::default();
        state.power_is_out = false;
    }
}

/// Returns one of the versions, or the content before them.
fn drawn<'a, T>(versions: &'a [T], all_is_lost: bool, dice: &mut Dice) -> Option<&'a T> {
    if all_is_lost {
        return None;
    }
    let drawn = dice.below(versions.len() as u64 + 1) as usize;
    drawn.checked_sub(1).map(|drawn| &versions[drawn])
}

/// Copies `bytes` to `offset`; what lies beyond the end of `to` is lost.
fn put(to: &mut [u8], offset: usize, bytes: &[u8]) {
    let end = to.len().min(offset + bytes.len());
    if offset < end {
        to[offset..end].copy_from_slice(&bytes[..end - offset]);
    }
}

impl State {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        assert!(end <= self.seen.len(), "a write beyond the end of the file");
        self.seen[offset..end].copy_from_slice(bytes);
        for page in offset / PAGE..end.div_ceil(PAGE) {
            let mut now = self.seen[page * PAGE..self.seen.len().min((page + 1) * PAGE)].to_vec();
            now.resize(PAGE, 0);
            self.dirty.entry(page).or_default().push(now);
        }
    }

    fn sync(&mut self) {
        if let Some(length) = std::mem::take(&mut self.lengths).last() {
            self.durable.resize(*length, 0);
        }
        for (page, versions) in std::mem::take(&mut self.dirty) {
            put(&mut self.durable, page * PAGE, versions.last().unwrap());
        }
    }

    /// Some pages may have been written before the one that could not be. The length is the file system's own, and is
    /// written with the next sync that works.
    fn fail_to_sync(&mut self) {
        let all_is_lost = self.dice.one_in(2);
        for (page, versions) in std::mem::take(&mut self.dirty) {
            if !all_is_lost && self.dice.one_in(2) {
                put(&mut self.durable, page * PAGE, versions.last().unwrap());
            }
        }
    }

    fn strike(&mut self, operation: Operation) -> Option<Fault> {
        self.asked_after += usize::from(self.struck.is_some());
        let at = self.operations.len();
        self.operations.push(operation);
        let fault = self.armed.take_if(|(from, fault)| *from <= at && fault.concerns(operation))?.1;
        self.struck = Some(fault);
        self.strikes += 1;
        self.is_full |= matches!(fault, Fault::Full { lasts: true });
        self.power_is_out |= matches!(fault, Fault::PowerCut);
        Some(fault)
    }
}

#[derive(Debug)]
pub(super) struct Handle {
    disk: Disk,
    opened: u64,
}

impl Handle {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.opened == self.opened && !state.power_is_out {
            Ok(state)
        } else {
            Err(io::Error::other("the process or the machine is gone"))
        }
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state()?;
        let from = offset as usize;
        let bytes = state.seen.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        match state.strike(Operation::SetLen) {
            Some(Fault::PowerCut) => return Err(io::Error::other("the power went")),
            None if !state.is_full => {}
            _ => return Err(io::ErrorKind::StorageFull.into()),
        }
        state.seen.resize(len as usize, 0);
        state.lengths.push(len as usize);
        Ok(())
    }

    /// Copy-on-write file systems need room for any write.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        let struck = state.strike(Operation::Write);
        if struck.is_none() && !state.is_full {
            state.write(offset as usize, data);
            return Ok(());
        }
        let done = state.dice.below(data.len() as u64 + 1) as usize;
        state.write(offset as usize, &data[..done]);
        match struck {
            Some(Fault::PowerCut) => Err(io::Error::other("the power went")),
            _ => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        match state.strike(Operation::Sync) {
            None => state.sync(),
            Some(Fault::PowerCut) => return Err(io::Error::other("the power went")),
            Some(_) => {
                state.fail_to_sync();
                return Err(io::Error::other("the disk failed to write"));
            }
        }
        Ok(())
    }
}
