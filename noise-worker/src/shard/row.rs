//! Rows that are kept until they are released, and the memory they are generated in.

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

// The wire is little-endian; rows are served from the memory they were generated in.
#[cfg(target_endian = "big")]
compile_error!("rows are served as little-endian bytes without a copy; this target is big-endian");

/// One row of one shard. As secret as the key until it is released.
#[derive(Clone)]
pub struct Row(Arc<Values>);

enum Values {
    Owned(Vec<f32>),
    /// Returns its memory to the pool when the last reader is gone.
    Pooled {
        memory: Option<Buffer>,
        pool: Weak<BufferPool>,
    },
}

impl Row {
    /// Returns a row that owns these values, which on a grid are words that hold the bits of integers.
    pub fn new(values: Vec<f32>) -> Self {
        Self(Arc::new(Values::Owned(values)))
    }

    /// Returns the values, one per coordinate of the shard.
    pub fn values(&self) -> &[f32] {
        match &*self.0 {
            Values::Owned(values) => values,
            Values::Pooled { memory, .. } => memory.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the row as little-endian bytes, without a copy.
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
        if let Values::Pooled { memory, pool } = self
            && let (Some(memory), Some(pool)) = (memory.take(), pool.upgrade())
        {
            pool.put_back(memory);
        }
    }
}

/// Memory of rows that are gone, reused for rows to come. New memory costs a page fault every few thousand coordinates,
/// a good part of the cost of generating them.
pub struct BufferPool {
    len: usize,
    /// The number of buffers that are kept; more are freed.
    capacity: AtomicUsize,
    memory: Mutex<Vec<Buffer>>,
}

impl BufferPool {
    /// Returns an empty pool for rows of `len` coordinates, which keeps none yet.
    pub fn new(len: usize) -> Arc<Self> {
        Arc::new(Self { len, capacity: AtomicUsize::new(0), memory: Mutex::new(Vec::new()) })
    }

    /// Sets the number of buffers that are kept.
    pub fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.memory().truncate(capacity);
    }

    /// Returns the number of buffers that are kept now.
    pub fn count(&self) -> usize {
        self.memory().len()
    }

    fn memory(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_back(&self, memory: Buffer) {
        let mut kept = self.memory();
        if kept.len() < self.capacity.load(Ordering::Relaxed) {
            kept.push(memory);
        }
    }

    /// Returns memory for one row, with any contents. Fails where the system has no more.
    pub fn take(&self) -> Result<Buffer, KernelError> {
        let spare = self.memory().pop();
        spare.map_or_else(|| Buffer::zeroed("a row made ahead", self.len), Ok)
    }

    /// Returns a row in memory that was taken from this pool.
    pub fn row(self: &Arc<Self>, memory: Buffer) -> Row {
        Row(Arc::new(Values::Pooled { memory: Some(memory), pool: Arc::downgrade(self) }))
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
    /// Returns the window of `rows`, the first of which has the number `start`.
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

    /// Forgets rows below `row`. A window that becomes empty continues at `row`.
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
        let pool = BufferPool::new(1_000);
        pool.set_capacity(1);
        let rows: Vec<Row> = (0..2).map(|_| pool.row(pool.take().unwrap())).collect();
        let bytes = rows[0].bytes();
        drop(rows);
        assert_eq!(pool.memory().len(), 1, "one is still read");
        assert_eq!(bytes.len(), 4_000);
        drop(bytes);
        assert_eq!(pool.memory().len(), 1, "no more than the capacity");
        let row = pool.row(pool.take().unwrap());
        assert!(pool.memory().is_empty());
        drop(pool);
        assert_eq!(row.values().len(), 1_000);
    }

    #[test]
    fn bytes_are_little_endian_and_debug_is_silent() {
        let row = Row::new(vec![1.0, -2.5]);
        assert_eq!(row.bytes(), [1.0f32.to_le_bytes(), (-2.5f32).to_le_bytes()].concat());
        assert!(!format!("{row:?}").contains('5'));
    }
}
