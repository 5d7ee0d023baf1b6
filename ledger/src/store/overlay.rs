//! A store in front of another one: what is written stays in memory, and the store behind stays as it is. So a ledger of
//! any size can be checked and repaired for trial without a copy of all of it.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redb::StorageBackend;

/// The bytes of a page: what one small write keeps in memory.
const PAGE: u64 = 4096;

type Page = Box<[u8; PAGE as usize]>;

/// Reads bytes of the store behind, from an offset.
pub type ReadBehind = dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync;

/// A store of which the pages that were written are in memory.
pub struct Overlay {
    behind: Box<ReadBehind>,
    state: Mutex<State>,
}

struct State {
    length: u64,
    /// Up to where the store behind still counts: bytes that were cut off are 0 when the store grows again.
    visible: u64,
    written: BTreeMap<u64, Page>,
}

impl Overlay {
    /// Returns the store in front of one of `length` bytes, which `behind` reads and nothing may change meanwhile.
    pub fn new(
        length: u64,
        behind: impl Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let state = State { length, visible: length, written: BTreeMap::new() };
        Self { behind: Box::new(behind), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the store behind has of a range, and zeros beyond.
    fn read_behind(&self, visible: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = visible.saturating_sub(offset).min(out.len() as u64) as usize;
        let (known, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        if known.is_empty() { Ok(()) } else { (self.behind)(offset, known) }
    }
}

impl State {
    fn check_range(&self, offset: u64, bytes: usize) -> io::Result<u64> {
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.length);
        end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }
}

/// Returns the part of a page that lies in a range, as places in the page and in the range.
fn overlap(page: u64, offset: u64, end: u64) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let start = page * PAGE;
    let from = start.max(offset);
    let to = (start + PAGE).min(end);
    ((from - start) as usize..(to - start) as usize, (from - offset) as usize..(to - offset) as usize)
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let end = state.check_range(offset, out.len())?;
        self.read_behind(state.visible, offset, out)?;
        for (page, bytes) in state.written.range(offset / PAGE..end.div_ceil(PAGE)) {
            let (of_page, of_range) = overlap(*page, offset, end);
            out[of_range].copy_from_slice(&bytes[of_page]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        state.length = length;
        state.visible = state.visible.min(length);
        state.written.split_off(&length.div_ceil(PAGE));
        if let Some(last) = state.written.get_mut(&(length / PAGE)) {
            last[(length % PAGE) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let end = state.check_range(offset, data.len())?;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            if !state.written.contains_key(&page) {
                let mut bytes = Box::new([0; PAGE as usize]);
                self.read_behind(state.visible, page * PAGE, &mut bytes[..])?;
                state.written.insert(page, bytes);
            }
            let (of_page, of_range) = overlap(page, offset, end);
            if let Some(bytes) = state.written.get_mut(&page) {
                bytes[of_page].copy_from_slice(&data[of_range]);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let pages = state.written.len();
        f.debug_struct("Overlay").field("length", &state.length).field("written_pages", &pages).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
        Read(u64, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..20_000u64, vec(any::<u8>(), 0..9_000)).prop_map(|(at, data)| Step::Write(at, data)),
            (0..20_000u64).prop_map(Step::SetLen),
            (0..20_000u64, 0..9_000usize).prop_map(|(at, length)| Step::Read(at, length)),
        ]
    }

    proptest! {
        /// The oracle is a plain vector of all bytes.
        #[test]
        fn it_reads_as_a_whole_copy_would(behind in vec(any::<u8>(), 0..20_000), steps in vec(step(), 1..30)) {
            let mut copy = behind.clone();
            let overlay = Overlay::new(behind.len() as u64, move |at, out: &mut [u8]| {
                out.copy_from_slice(&behind[at as usize..at as usize + out.len()]);
                Ok(())
            });
            for step in steps {
                match step {
                    Step::Write(at, data) => {
                        let place = copy.get_mut(at as usize..at as usize + data.len());
                        prop_assert_eq!(overlay.write(at, &data).is_ok(), place.is_some());
                        if let Some(place) = place {
                            place.copy_from_slice(&data);
                        }
                    }
                    Step::SetLen(length) => {
                        copy.resize(length as usize, 0);
                        overlay.set_len(length).unwrap();
                    }
                    Step::Read(at, length) => {
                        let mut out = vec![7; length];
                        let place = copy.get(at as usize..at as usize + length);
                        prop_assert_eq!(overlay.read(at, &mut out).is_ok(), place.is_some());
                        prop_assert!(place.is_none_or(|place| place == out));
                    }
                }
                prop_assert_eq!(overlay.len().unwrap(), copy.len() as u64);
            }
            let mut all = vec![0; copy.len()];
            overlay.read(0, &mut all).unwrap();
            prop_assert_eq!(all, copy);
        }
    }
}
