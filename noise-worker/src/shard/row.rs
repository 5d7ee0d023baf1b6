//! Rows made and kept until they are released.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use noise_kernel::{Buffer, KernelError};

// The wire is little-endian f32; rows are served from the memory they were made in.
#[cfg(target_endian = "big")]
compile_error!("rows are served as little-endian bytes without a copy; this target is big-endian");

/// One row of one shard. As secret as the key until it is released.
#[derive(Clone)]
pub struct Row(Arc<Values>);

enum Values {
    Owned(Vec<f32>),
    /// Gives its memory back when the last reader is gone.
    Spare {
        memory: Option<Buffer>,
        home: Weak<Spares>,
    },
}

impl Row {
    pub fn new(values: Vec<f32>) -> Self {
        Self(Arc::new(Values::Owned(values)))
    }

    pub fn values(&self) -> &[f32] {
        match &*self.0 {
            Values::Owned(values) => values,
            Values::Spare { memory, .. } => memory.as_deref().unwrap_or_default(),
        }
    }

    /// The row's bytes, without copying them.
    pub fn bytes(&self) -> Bytes {
        struct Owner(Row);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(self.0.values())
            }
        }
        Bytes::from_owner(Owner(self.clone()))
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        if let Values::Spare { memory, home } = self
            && let (Some(memory), Some(home)) = (memory.take(), home.upgrade())
        {
            home.give_back(memory);
        }
    }
}

/// Memory of rows that are gone, for rows to come: new memory costs a page fault every few thousand coordinates, which
/// is a good part of what making them costs.
pub struct Spares {
    len: usize,
    /// More are let go.
    most: AtomicUsize,
    memory: Mutex<Vec<Buffer>>,
}

impl Spares {
    /// For rows of `len` coordinates.
    pub fn new(len: usize) -> Arc<Self> {
        Arc::new(Self { len, most: AtomicUsize::new(0), memory: Mutex::new(Vec::new()) })
    }

    pub fn keep_at_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.memory().truncate(most);
    }

    pub fn count(&self) -> usize {
        self.memory().len()
    }

    fn memory(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, memory: Buffer) {
        let mut spares = self.memory();
        if spares.len() < self.most.load(Ordering::Relaxed) {
            spares.push(memory);
        }
    }

    /// Memory for one row, with any contents. Error: the system has no more.
    pub fn take(&self) -> Result<Buffer, KernelError> {
        let spare = self.memory().pop();
        spare.map_or_else(|| Buffer::zeroed("a row made ahead", self.len), Ok)
    }

    /// A row in memory that was taken here.
    pub fn row(self: &Arc<Self>, memory: Buffer) -> Row {
        Row(Arc::new(Values::Spare { memory: Some(memory), home: Arc::downgrade(self) }))
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} coordinates, [secret])", self.values().len())
    }
}

/// Consecutive rows start..end, oldest first.
#[derive(Debug, Default)]
pub struct Window {
    start: u64,
    rows: VecDeque<Row>,
}

impl Window {
    pub fn new(start: u64, rows: Vec<Row>) -> Self {
        Self { start, rows: rows.into() }
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn end(&self) -> u64 {
        self.start + self.rows.len() as u64
    }

    pub fn get(&self, row: u64) -> Option<&Row> {
        self.rows.get(usize::try_from(row.checked_sub(self.start)?).ok()?)
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push_back(row);
    }

    /// Forgets rows below `row`; an emptied window goes on from `row`.
    pub fn forget_below(&mut self, row: u64) {
        while self.start < row && self.rows.pop_front().is_some() {
            self.start += 1;
        }
        if self.rows.is_empty() {
            self.start = self.start.max(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f32) -> Row {
        Row::new(vec![value; 3])
    }

    #[test]
    fn a_window_keeps_consecutive_rows() {
        let mut window = Window::new(5, vec![row(5.0), row(6.0)]);
        window.push(row(7.0));
        assert_eq!((window.start(), window.end()), (5, 8));
        assert!(window.get(4).is_none() && window.get(8).is_none());
        assert_eq!(window.get(6).unwrap().values()[0], 6.0);
        window.forget_below(7);
        assert_eq!((window.start(), window.end()), (7, 8));
        window.forget_below(11);
        assert_eq!((window.start(), window.end(), window.len()), (11, 11, 0));
    }

    #[test]
    fn memory_comes_back_when_the_last_reader_is_gone() {
        let spares = Spares::new(1_000);
        spares.keep_at_most(1);
        let rows: Vec<Row> = (0..2).map(|_| spares.row(spares.take().unwrap())).collect();
        let bytes = rows[0].bytes();
        drop(rows);
        assert_eq!(spares.memory().len(), 1, "one is still read");
        assert_eq!(bytes.len(), 4_000);
        drop(bytes);
        assert_eq!(spares.memory().len(), 1, "no more than the most");
        let row = spares.row(spares.take().unwrap());
        assert!(spares.memory().is_empty());
        drop(spares);
        assert_eq!(row.values().len(), 1_000);
    }

    #[test]
    fn bytes_are_little_endian_and_debug_is_silent() {
        let row = Row::new(vec![1.0, -2.5]);
        assert_eq!(row.bytes(), [1.0f32.to_le_bytes(), (-2.5f32).to_le_bytes()].concat());
        assert!(!format!("{row:?}").contains('5'));
    }
}
