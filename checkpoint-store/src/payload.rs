//! The values of a stored shard, in the order in which they are stored.

use crate::shard_file;

/// A shard's state and its rows generated ahead, as words of four bytes, of which f32 is one reading: nothing computes with
/// them here. They must not change while they are written.
pub trait ShardValues: Send + Sync + 'static {
    /// Returns the values of state, of all blocks in order.
    fn state(&self) -> &[f32];
    /// Returns the number of rows in the window.
    fn rows(&self) -> usize;
    /// Returns a row of the window, the oldest at 0. `index` is below [`ShardValues::rows`].
    fn row(&self, index: usize) -> &[f32];
}

impl ShardValues for (Vec<f32>, Vec<Vec<f32>>) {
    fn state(&self) -> &[f32] {
        &self.0
    }

    fn rows(&self) -> usize {
        self.1.len()
    }

    fn row(&self, index: usize) -> &[f32] {
        &self.1[index]
    }
}

/// A position in state and rows, read as one list.
pub struct ValueCursor<V> {
    values: V,
    /// 0 for the state, i + 1 for row i.
    part: usize,
    at: usize,
}

impl<V: ShardValues> ValueCursor<V> {
    /// Begins with the first value of state.
    pub fn new(values: V) -> Self {
        Self { values, part: 0, at: 0 }
    }

    /// Appends the bytes of the next `count` values, or of those that are left.
    pub fn take(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while count > 0 && self.part <= self.values.rows() {
            let whole = match self.part {
                0 => self.values.state(),
                row => self.values.row(row - 1),
            };
            let now = &whole[self.at..(self.at + count).min(whole.len())];
            shard_file::to_bytes(now, out);
            count -= now.len();
            self.at += now.len();
            if self.at == whole.len() {
                (self.part, self.at) = (self.part + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_come_once_and_in_order() {
        let values = (vec![0.0, 1.0, 2.0], vec![vec![3.0, 4.0], vec![5.0, 6.0]]);
        for step in 1..9 {
            let mut cursor = ValueCursor::new(values.clone());
            let mut bytes = Vec::new();
            (0..9).for_each(|_| cursor.take(step, &mut bytes));
            let mut read = Vec::new();
            shard_file::from_bytes(&bytes, &mut read);
            assert_eq!(read, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{step} in each call");
        }
        let nothing = (vec![], Vec::<Vec<f32>>::new());
        let mut bytes = Vec::new();
        ValueCursor::new(nothing).take(5, &mut bytes);
        assert!(bytes.is_empty());
    }
}
