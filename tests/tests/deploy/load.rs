//! A job that does what jobs do, the wrong things among it.

use std::time::Duration;

use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::JobId;
use tests::{TestCluster, flags, job, small_plan, start_with};

pub const WORKERS: usize = 2;
pub const DIMENSION: u64 = 20_000;
const ITERATIONS: u64 = 4_000;

pub struct Load {
    pub cluster: TestCluster,
    job: JobId,
    next_row: u64,
}

/// Users take part often enough that a run's privacy is spent in steps.
pub fn plan() -> Plan {
    let blt = Mechanism::Blt { theta: vec![0.999, 0.9, 0.3], omega: vec![0.01, 0.2, 0.3] };
    let small = small_plan(blt, ITERATIONS);
    let participation = Participation { min_sep: 250, max_participations: 16 };
    Plan::new(PlanSpec { participation, noise_multiplier: 4.0, ..small.spec().clone() }).unwrap()
}

impl Load {
    pub fn start() -> Self {
        let cluster = start_with(WORKERS, |options| {
            options.coordinator_flags =
                flags(&["--heartbeat", "100ms", "--lease-ttl", "2s", "--checkpoint-interval", "2s"]);
        });
        let job = job("watched");
        cluster.create(&job, &plan(), DIMENSION, WORKERS as u32).unwrap();
        cluster.wait_ready(&job);
        let data_set = proto::pb::CreateDataSetRequest {
            data_set: "watched".into(),
            unit: "user".into(),
            neighbouring: "zero-out".into(),
            budget: Some(proto::pb::PrivacyAmount { epsilon: 4.0, delta: 1e-6 }),
            per_block: false,
            approval_rule: None,
        };
        cluster.runtime.block_on(cluster.client.budgets().create(data_set)).unwrap();
        let block = proto::pb::AddBlockRequest {
            data_set: "watched".into(),
            block: "nov".into(),
            from: "2026-11-01".into(),
            until: "2026-12-01".into(),
            budget: None,
        };
        cluster.runtime.block_on(cluster.client.budgets().add_block(block)).unwrap();
        Self { cluster, job, next_row: 0 }
    }

    /// Four new rows; an old one that must be drawn again; a row under another commitment; a job that is not there.
    pub fn work(&mut self) {
        let rows = self.next_row..self.next_row + 4;
        self.cluster.fetch(&self.job, rows.clone(), 0..DIMENSION).unwrap();
        self.next_row = rows.end;
        if rows.start > 20 {
            self.cluster.fetch(&self.job, 0..1, 0..512).unwrap();
        }
        let other = vec!["another batch".to_owned()];
        let patience = Duration::from_secs(20);
        self.cluster.fetch_bound(&self.job, 0..1, 0..512, other, patience).unwrap_err();
        self.cluster.fetch(&tests::job("missing"), 0..1, 0..512).unwrap_err();
    }

    /// Writes a whole checkpoint and returns its bytes.
    pub fn checkpoint_bytes(&self) -> u64 {
        let written = self.cluster.runtime.block_on(self.cluster.client.jobs().checkpoint(&self.job));
        written.unwrap().bytes
    }

    pub fn rows_bound(&self) -> u64 {
        self.next_row
    }

    /// host:port of the metrics of coordinator and workers.
    pub fn addresses(&self) -> (String, Vec<String>) {
        let plain = |url: &str| url.trim_start_matches("http://").to_owned();
        let cluster = &self.cluster.cluster;
        let workers = (0..WORKERS).map(|worker| plain(cluster.worker(worker).unwrap().metrics()));
        (plain(cluster.coordinator().unwrap().metrics()), workers.collect())
    }
}
