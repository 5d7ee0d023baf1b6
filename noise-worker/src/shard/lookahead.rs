//! Which rows to make next, and how many are there.

use super::{KEPT_BEHIND, Shard};
use crate::row::Row;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    Skip(u64),
    Keep(u64),
}

/// Rows of a batch: as many as share a pass over the state, but at most half of the window.
pub fn batch_rows(ahead_rows: u64, at_once: u64) -> u64 {
    at_once.min(ahead_rows / 2).max(1)
}

impl Shard {
    /// What to make next: rows to pass over without keeping them, or rows to keep; `None` where there is no room in
    /// the window for a batch. Batches are as large as half the window allows: rows made together share each pass over
    /// the state, and meanwhile the other half serves.
    pub fn next_batch(&self, ahead_rows: u64, iterations: u64, at_once: u64) -> Option<Batch> {
        let mut rows = self.rows();
        let keep_from = rows.wanted.saturating_sub(KEPT_BEHIND);
        let next = rows.window.end();
        rows.window.forget_below(keep_from.min(next));
        if next < keep_from {
            // Without state there is nothing to go through.
            let stateless = self.recipe().is_some_and(|recipe| recipe.slots == 0);
            let most = if stateless { u64::MAX } else { at_once.max(16) };
            return Some(Batch::Skip((keep_from - next).min(most)));
        }
        let end = (rows.wanted + ahead_rows.max(1)).min(iterations);
        let room = end.saturating_sub(next);
        let batch = batch_rows(ahead_rows, at_once);
        let waited_for = next < rows.wanted;
        let enough = room >= batch || end == iterations || waited_for;
        (room > 0 && enough).then(|| Batch::Keep(room.min(batch)))
    }

    pub async fn demanded(&self) {
        self.demand.notified().await;
    }

    pub fn push(&self, made: Vec<Row>) {
        let mut rows = self.rows();
        made.into_iter().for_each(|row| rows.window.push(row));
        rows.starved_since = None;
        drop(rows);
        self.changed.notify_waiters();
    }

    /// Rows were made and not kept: an empty window moves on.
    pub fn skipped(&self, to: u64) {
        let mut rows = self.rows();
        rows.window.forget_below(to);
        rows.starved_since = None;
    }

    /// Whether half of the rows that may be made ahead are there, or all rows of the job.
    pub fn is_ahead(&self, ahead_rows: u64) -> bool {
        let Some(iterations) = self.recipe().map(|recipe| recipe.iterations) else { return false };
        let rows = self.rows();
        rows.window.end() >= (rows.wanted + (ahead_rows / 2).max(1)).min(iterations)
    }

    /// Rows made beyond the highest that was asked for.
    pub fn rows_ahead(&self) -> u64 {
        let rows = self.rows();
        rows.window.end().saturating_sub(rows.wanted)
    }

    /// Rows to go through before those that are wanted.
    pub fn rows_behind(&self) -> u64 {
        let rows = self.rows();
        rows.wanted.saturating_sub(KEPT_BEHIND).saturating_sub(rows.window.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::tests::shard;

    /// Makes what is asked for and says how much that was.
    fn make(shard: &Shard, ahead: u64, iterations: u64) -> u64 {
        match shard.next_batch(ahead, iterations, 8) {
            Some(Batch::Keep(rows)) => {
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
