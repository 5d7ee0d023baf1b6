//! A training job during the faults, and what must be true of it afterwards.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use client::FetchRequest;
use ledger::{Event, Stamp};
use plan::Plan;
use proto::{Commitment, CoordinateRange, JobId, RowRange};
use tests::{assert_same_bits, expected_of_job};

use crate::{DIMENSION, LEASE, ROWS, TIMEOUT, cluster::Cluster};

/// A training job that fetches one row after the other.
pub struct Training {
    /// Rows fetched so far.
    pub done: Arc<AtomicU64>,
    thread: JoinHandle<(Vec<Vec<f32>>, Duration)>,
}

impl Training {
    pub fn start(cluster: &Cluster, job: &JobId) -> Self {
        let client = cluster.client();
        let runtime = cluster.runtime.clone();
        let job = job.clone();
        let done = Arc::new(AtomicU64::new(0));
        let progress = done.clone();
        let thread = thread::spawn(move || {
            let mut taken = Vec::new();
            let mut longest = Duration::ZERO;
            let mut last = Instant::now();
            for row in 0..ROWS {
                let mut out = vec![f32::NAN; DIMENSION as usize];
                let request = FetchRequest {
                    job: job.clone(),
                    branch: 0,
                    rows: RowRange::new(row, row + 1).unwrap(),
                    range: CoordinateRange::new(0, DIMENSION).unwrap(),
                    commitments: vec![Commitment::of_text(&format!("step {row}"))],
                    deadline: (Instant::now() + TIMEOUT).into(),
                };
                runtime.block_on(client.fetch(request).into_slice(&mut out)).unwrap();
                taken.push(out);
                longest = longest.max(last.elapsed());
                progress.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(50));
                last = Instant::now();
            }
            (taken, longest)
        });
        Self { done, thread }
    }

    pub fn wait_for(&self, rows: u64) {
        let deadline = Instant::now() + TIMEOUT;
        while self.done.load(Ordering::SeqCst) < rows {
            assert!(
                !self.thread.is_finished() || self.done.load(Ordering::SeqCst) >= rows,
                "the training job has ended"
            );
            assert!(Instant::now() < deadline, "the training job does not reach row {rows}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the last row, then checks that all rows are the oracle's and that each is bound once, to the job's own
    /// commitment.
    pub fn finish(self, cluster: &Cluster, job: &JobId, plan: &Plan, what: &str) {
        let (taken, longest) = self.thread.join().unwrap();
        let shown = cluster.runtime.block_on(cluster.client().jobs().get(job)).unwrap();
        assert_same_bits(&taken, &expected_of_job(&shown, plan, 0..ROWS, 0..DIMENSION));
        let entries = cluster.runtime.block_on(cluster.client().jobs().entries(job)).unwrap();
        let mut bound = BTreeMap::new();
        for entry in entries {
            if let Event::Bound { rows, .. } =
                serde_json::from_str(&Stamp::split(&entry.event).unwrap().1).unwrap()
            {
                for row in rows {
                    assert_eq!(
                        bound.insert(row.row, row.commitment),
                        None,
                        "row {} was bound twice",
                        row.row
                    );
                }
            }
        }
        let expected = (0..ROWS).map(|row| (row, Commitment::of_text(&format!("step {row}"))));
        assert!(bound.into_iter().eq(expected), "the bound rows are not those of the training");
        println!("{what}: the longest wait for a row was {:.1} s (lease {LEASE:?})", longest.as_secs_f64());
    }
}
