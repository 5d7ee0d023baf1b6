//! The coordinator's disk: what was synced stays, and of the rest a power cut keeps what it likes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dice::Dice;
use redb::StorageBackend;

/// What a disk writes whole or not at all, in bytes: the one or the other.
pub const SECTORS: [usize; 2] = [512, 4096];

/// Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    sector: usize,
    /// The contents that reads see: the page cache.
    seen: Vec<u8>,
    /// The contents that survive a power cut.
    durable: Vec<u8>,
    /// Since the last sync, in order.
    unsynced: Vec<Change>,
    /// Rises when the process that has the disk open ends: its handles are of no use then.
    opened: u64,
    is_full: bool,
    failing_syncs: u32,
    /// The power goes with the change after so many more.
    changes_left: Option<u32>,
    power_is_out: bool,
    /// The number of changes since the start.
    changes: u64,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::SetLen(len) => to.resize(*len, 0),
            Change::Write { offset, bytes } => put(to, *offset, bytes),
        }
    }

    /// Each sector of a write may have arrived, or not.
    fn apply_in_part(&self, to: &mut Vec<u8>, sector: usize, lost: u64, dice: &mut Dice) {
        let Change::Write { offset, bytes } = self else {
            if !dice.one_in(lost) {
                self.apply(to);
            }
            return;
        };
        let mut at = 0;
        while at < bytes.len() {
            let next = ((offset + at) / sector + 1) * sector - offset;
            let next = next.min(bytes.len());
            if !dice.one_in(lost) {
                put(to, offset + at, &bytes[at..next]);
            }
            at = next;
        }
    }
}

fn put(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if to.len() < offset + bytes.len() {
        to.resize(offset + bytes.len(), 0);
    }
    to[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl Disk {
    pub fn with_sectors_of(sector: usize) -> Self {
        Self(Arc::new(Mutex::new(State { sector, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the disk for one process and closes the handles of the process before.
    pub fn open(&self) -> Handle {
        let mut state = self.state();
        state.opened += 1;
        Handle { disk: self.clone(), opened: state.opened }
    }

    /// The process is gone; what it wrote is in the page cache.
    pub fn process_ended(&self) {
        self.state().opened += 1;
    }

    /// Of the changes since the last sync, each, and each sector of a write, is there or not: one in `lost` is not.
    pub fn power_cut(&self, lost: u64, dice: &mut Dice) {
        let mut state = self.state();
        state.opened += 1;
        let unsynced = std::mem::take(&mut state.unsynced);
        let sector = state.sector;
        unsynced.iter().for_each(|change| change.apply_in_part(&mut state.durable, sector, lost, dice));
        state.seen = state.durable.clone();
        state.power_is_out = false;
        state.changes_left = None;
        state.failing_syncs = 0;
    }

    /// Returns whether the power failed within a change, which the process must not survive.
    pub fn power_is_out(&self) -> bool {
        self.state().power_is_out
    }

    /// Returns the number of writes.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    pub fn cut_power_after(&self, changes: u32) {
        self.state().changes_left = Some(changes);
    }

    pub fn set_full(&self, is_full: bool) {
        self.state().is_full = is_full;
    }

    pub fn fail_next_sync(&self) {
        self.state().failing_syncs = 1;
    }

    /// A ledger whose making was cut short never got its name.
    pub fn is_named(&self) -> bool {
        !self.state().seen.is_empty()
    }

    pub fn erase(&self) {
        self.replace(&[]);
    }

    /// Puts other bytes in place, durably, and closes the handles of the process before.
    pub fn replace(&self, bytes: &[u8]) {
        let mut state = self.state();
        let State { sector, opened, is_full, changes, .. } = *state;
        *state = State {
            sector,
            seen: bytes.to_vec(),
            durable: bytes.to_vec(),
            opened: opened + 1,
            is_full,
            changes,
            ..State::default()
        };
    }

    /// Returns the bytes that reads see.
    pub fn contents(&self) -> Vec<u8> {
        self.state().seen.clone()
    }

    /// Returns the bytes that survive a power cut.
    pub fn durable_contents(&self) -> Vec<u8> {
        self.state().durable.clone()
    }
}

#[derive(Debug)]
pub struct Handle {
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

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state()?;
        let grows = match &change {
            Change::SetLen(len) => *len > state.seen.len(),
            Change::Write { offset, bytes } => offset + bytes.len() > state.seen.len(),
        };
        // Copy-on-write file systems need room for any write.
        if state.is_full && (grows || !state.seen.is_empty()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.changes += 1;
        change.apply(&mut state.seen);
        state.unsynced.push(change);
        match state.changes_left.as_mut() {
            Some(0) => state.power_is_out = true,
            Some(left) => *left -= 1,
            None => {}
        }
        if state.power_is_out {
            return Err(io::Error::other("the power went"));
        }
        Ok(())
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
        self.change(Change::SetLen(len as usize))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write { offset: offset as usize, bytes: data.to_vec() })
    }

    /// After one that failed, the changes stay in the page cache, are held for written, and never are: as ext4 and
    /// XFS do it (Rebello et al., ATC'20).
    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        let unsynced = std::mem::take(&mut state.unsynced);
        if state.failing_syncs > 0 {
            state.failing_syncs -= 1;
            return Err(io::Error::other("the disk failed to write"));
        }
        unsynced.iter().for_each(|change| change.apply(&mut state.durable));
        Ok(())
    }
}
