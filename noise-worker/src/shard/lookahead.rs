//! The rows to generate next, and how many there are ahead of demand.

use proto::RELEASED_ROWS_KEPT;

use super::{Shard, row::Row};

/// Rows that are passed over at once at least. Few, so that the lease and the position are looked at often.
const MIN_SKIP: u64 = 16;

/// The next batch of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextBatch {
    /// Pass over so many rows without keeping them.
    Skip(u64),
    /// Generate so many rows and keep them.
    Keep(u64),
}

/// Returns the number of rows of a batch: as many as share a pass over the state, but at most half of the window.
pub fn batch_rows(ahead_rows: u64, at_once: u64) -> u64 {
    at_once.min(ahead_rows / 2).max(1)
}

impl Shard {
    /// Returns the batch to generate next; `None` where there is no room in the window for one. Batches are as large as half
    /// the window allows: rows generated together share each pass over the state, and the other half serves meanwhile.
    pub fn next_batch(&self, ahead_rows: u64, iterations: u64, at_once: u64) -> Option<NextBatch> {
        let mut rows = self.rows();
        let keep_from = rows.wanted.saturating_sub(RELEASED_ROWS_KEPT);
        let next = rows.window.end();
        rows.window.forget_below(keep_from.min(next));
        if next < keep_from {
            // Without state, passing over rows costs nothing.
            let stateless = self.spec().is_some_and(|spec| spec.slots == 0);
            let limit = if stateless { u64::MAX } else { at_once.max(MIN_SKIP) };
            return Some(NextBatch::Skip((keep_from - next).min(limit)));
        }
        let end = (rows.wanted + ahead_rows.max(1)).min(iterations);
        let room = end.saturating_sub(next);
        let batch = batch_rows(ahead_rows, at_once);
        let waited_for = next < rows.wanted;
        let enough = room >= batch || end == iterations || waited_for;
        (room > 0 && enough).then(|| NextBatch::Keep(room.min(batch)))
    }

    /// Waits until more rows are wanted.
    pub async fn wait_for_demand(&self) {
        self.demand.notified().await;
    }

    /// Adds generated rows to the window.
    pub fn push(&self, made: Vec<Row>) {
        let mut rows = self.rows();
        made.into_iter().for_each(|row| rows.window.push(row));
        rows.starved_since = None;
        drop(rows);
        self.changed.notify_waiters();
    }

    /// Moves an empty window on, after rows were passed over.
    pub fn skip_to(&self, to: u64) {
        let mut rows = self.rows();
        rows.window.forget_below(to);
        rows.starved_since = None;
    }

    /// Returns whether half of the rows that may be generated ahead are there, or all rows of the job.
    pub fn is_ahead(&self, ahead_rows: u64) -> bool {
        let Some(iterations) = self.spec().map(|spec| spec.iterations) else { return false };
        let rows = self.rows();
        rows.window.end() >= (rows.wanted + (ahead_rows / 2).max(1)).min(iterations)
    }

    /// Returns the number of rows beyond the highest that was requested.
    pub fn rows_ahead(&self) -> u64 {
        let rows = self.rows();
        rows.window.end().saturating_sub(rows.wanted)
    }

    /// Returns the number of rows to pass over before those that are wanted.
    pub fn rows_behind(&self) -> u64 {
        let rows = self.rows();
        rows.wanted.saturating_sub(RELEASED_ROWS_KEPT).saturating_sub(rows.window.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::tests::shard;

    /// Generates the next batch and returns its number of rows.
    fn make(shard: &Shard, ahead: u64, iterations: u64) -> u64 {
        match shard.next_batch(ahead, iterations, 8) {
            Some(NextBatch::Keep(rows)) => {
                shard.push((0..rows).map(|_| Row::new(vec![0.0; 4])).collect());
                rows
            }
            None => 0,
            skip => panic!("{skip:?}"),
        }
    }

    #[test]
    fn half_a_window_is_made_at_once() {
        let shard = shard();
        assert_eq!([make(&shard, 8, 100), make(&shard, 8, 100), make(&shard, 8, 100)], [4, 4, 0]);
        // Nothing is worth making until four rows are gone.
        for row in 0..3 {
            shard.rows().wanted = row + 1;
            assert_eq!(make(&shard, 8, 100), 0, "after row {row}");
        }
        shard.rows().wanted = 4;
        assert_eq!(make(&shard, 8, 100), 4);
    }

    #[test]
    fn a_row_that_is_waited_for_is_made_with_any_room() {
        for ahead in [1, 2, 3] {
            let shard = shard();
            for row in 0..20 {
                shard.rows().wanted = row + 1;
                while shard.rows().window.end() <= row {
                    assert!(make(&shard, ahead, 20) > 0, "{ahead} ahead, row {row}");
                }
            }
            assert_eq!(make(&shard, ahead, 20), 0);
        }
        // The last rows are fewer than a batch.
        let shard = shard();
        assert_eq!([make(&shard, 16, 11), make(&shard, 16, 11), make(&shard, 16, 11)], [8, 3, 0]);
    }
}
