//! The formulas of `rustle plan resources`: docs/operations.md explains them.

use plan::{Coefficients, Inverse, Plan};
use proto::{RELEASED_ROWS_KEPT, ServiceError, tiling};
use serde_json::{Value, json};

use crate::values::Bytes;

/// Room for what allocators and buffers of connections take, and for the program itself: end-to-end tests hold workers
/// to it.
const OVERHEAD: f64 = 1.1;
const PROGRAM: f64 = (64 << 20) as f64;
/// What a worker's record takes of memory, a row: a test of noise-worker holds it to that.
const RECORDED: f64 = 100.0;
/// Header and manifest entry of one stored shard.
const HEADER: f64 = 1024.0;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub dimension: u64,
    pub workers: u32,
    pub rows_per_second: f64,
    pub ahead_rows: u64,
    pub ahead_bytes: u64,
    pub history_bytes: u64,
    /// Bytes a second, of one worker.
    pub store_bandwidth: f64,
    /// Of one worker; `None` where the kernel can't run the mechanism.
    pub coordinates_per_second: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    Rate,
    Bytes,
    BytesPerSecond,
    Seconds,
    Cores,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    /// Null where it could not be measured.
    pub value: Option<f64>,
    unit: Unit,
    pub formula: &'static str,
}

impl Line {
    /// Whole where it counts things, rounded up.
    pub fn json(&self) -> Value {
        match (self.value, self.unit) {
            (Some(value), Unit::Count | Unit::Bytes) => json!(value.ceil() as u64),
            (value, _) => json!(value),
        }
    }

    pub fn shown(&self) -> String {
        let Some(value) = self.value else { return "-".into() };
        match self.unit {
            Unit::Count => format!("{value:.0}"),
            Unit::Rate => format!("{value:.3}"),
            Unit::Bytes => Bytes(value as u64).to_string(),
            Unit::BytesPerSecond => format!("{}/s", Bytes(value as u64)),
            Unit::Seconds => format!("{value:.3} s"),
            Unit::Cores => format!("{value:.2}"),
        }
    }
}

/// The quantities from which every figure follows; a shard is the largest one.
struct Inputs {
    dimension: u64,
    workers: u32,
    /// Rows per second that the job takes.
    rate: f64,
    /// Coordinates of a shard.
    len: u64,
    slots: f64,
    /// Bytes of a shard's state, past normals, rows in memory, and of one row.
    state: f64,
    history: f64,
    rows: f64,
    row: f64,
    ahead: u64,
    /// Rows generated at once.
    together: u64,
    memory: f64,
    /// Bytes moved per row: state moves once for all rows generated at once.
    traffic: f64,
    checkpoint: f64,
    /// Bytes of a shard's part of a checkpoint.
    piece: f64,
    store_bandwidth: f64,
    /// Rows per second that one worker can generate, where measured.
    made: Option<f64>,
    cores: f64,
    iterations: u64,
}

/// A figure: its name, unit, formula as shown, and value.
type Figure = (&'static str, Unit, &'static str, fn(&Inputs) -> Option<f64>);

/// All figures, in the order in which each follows from those before.
const FIGURES: &[Figure] = &[
    ("dimension", Unit::Count, "d", |i| Some(i.dimension as f64)),
    ("workers", Unit::Count, "W, one shard each", |i| Some(f64::from(i.workers))),
    ("rows_per_second", Unit::Rate, "R", |i| Some(i.rate)),
    ("shard_coordinates", Unit::Count, "m: d/W, in blocks of 512; the largest shard", |i| Some(i.len as f64)),
    ("state_slots", Unit::Count, "s: f32 numbers of state a coordinate, by mechanism", |i| Some(i.slots)),
    ("state_bytes", Unit::Bytes, "4·s·m", |i| Some(i.state)),
    (
        "history_bytes",
        Unit::Bytes,
        "4·m·(bands of C⁻¹ − 1) where at most --history-bytes; else 0",
        |i| Some(i.history),
    ),
    ("ahead_rows", Unit::Count, "a: --ahead-bytes/(4·m), from 1 to --ahead-rows", |i| Some(i.ahead as f64)),
    ("rows_at_once", Unit::Count, "b: as the kernel suggests, at most a/2", |i| Some(i.together as f64)),
    ("rows_bytes", Unit::Bytes, "4·m·(a + 2 + b): ahead, kept for retries, spare", |i| Some(i.rows)),
    ("memory_per_worker", Unit::Bytes, "1.1·(state + history + rows) + 64 MiB + 100·n", |i| Some(i.memory)),
    ("memory_traffic_per_row", Unit::Bytes, "8·s·m/b + 8·m: state in and out, row in and out", |i| {
        Some(i.traffic)
    }),
    (
        "rows_per_second_possible",
        Unit::Rate,
        "coordinates a second / m, of one worker on this machine's cores",
        |i| i.made,
    ),
    ("cores_per_worker", Unit::Cores, "R / rows a second possible · cores here", |i| {
        i.made.map(|speed| i.rate / speed * i.cores)
    }),
    ("network_per_worker", Unit::BytesPerSecond, "4·m·R; half of it as bf16; none by shared memory", |i| {
        Some(i.rate * i.row)
    }),
    ("network_of_job", Unit::BytesPerSecond, "4·d·R", |i| Some(i.rate * 4.0 * i.dimension as f64)),
    (
        "checkpoint_bytes",
        Unit::Bytes,
        "4·s·d + 4·d·(a + 2) + 1 KiB·W; times the checkpoints kept",
        |i| Some(i.checkpoint),
    ),
    (
        "checkpoint_seconds",
        Unit::Seconds,
        "(4·s·m + 4·m·(a + 2)) / --store-bandwidth: all workers write at once",
        |i| Some(i.piece / i.store_bandwidth),
    ),
    ("restore_seconds", Unit::Seconds, "as written, read again", |i| Some(i.piece / i.store_bandwidth)),
    (
        "replay_seconds_at_most",
        Unit::Seconds,
        "n / rows a second possible: without any checkpoint, at the run's end",
        |i| i.made.map(|speed| i.iterations as f64 / speed),
    ),
];

/// All figures, in the order in which each follows from those before.
#[derive(Clone, Debug)]
pub struct Sizing {
    pub lines: Vec<Line>,
}

impl Sizing {
    /// Error: a dimension or a number of workers that a job can't have.
    pub fn of(plan: &Plan, setting: Setting) -> Result<Self, ServiceError> {
        let Setting { dimension, workers, rows_per_second: rate, store_bandwidth, .. } = setting;
        let ranges = tiling::split(dimension, workers.into(), tiling::MAX_SHARDS)?;
        let len = ranges.iter().map(|range| range.len()).max().unwrap_or(dimension);
        let blocks = len.next_multiple_of(noise_kernel::BLOCK as u64) as f64;
        let all_blocks = dimension.next_multiple_of(noise_kernel::BLOCK as u64) as f64;
        let slots = plan.state_slots() as f64;
        let row = 4.0 * len as f64;
        let ahead = (setting.ahead_bytes / (4 * len)).clamp(1, setting.ahead_rows.max(1));
        let together = rows_at_once(&plan.coefficients()).min(ahead / 2).max(1);
        let state = 4.0 * slots * blocks;
        let history = history(plan, blocks, setting.history_bytes);
        let rows = (ahead + RELEASED_ROWS_KEPT + together) as f64 * row;
        let memory = OVERHEAD * (state + history + rows) + PROGRAM + RECORDED * plan.iterations() as f64;
        let window = (ahead + RELEASED_ROWS_KEPT) as f64;
        let piece = state + window * row + HEADER;
        let checkpoint =
            4.0 * slots * all_blocks + window * 4.0 * dimension as f64 + HEADER * f64::from(workers);
        let speed = setting.coordinates_per_second.map(|speed| speed / len as f64);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let inputs = Inputs {
            dimension,
            workers,
            rate,
            len,
            slots,
            state,
            history,
            ahead,
            together,
            rows,
            row,
            memory,
            checkpoint,
            piece,
            store_bandwidth,
            cores,
            made: speed,
            traffic: 2.0 * state / together as f64 + 2.0 * row,
            iterations: plan.iterations(),
        };
        let lines = FIGURES
            .iter()
            .map(|&(name, unit, formula, value)| Line { name, value: value(&inputs), unit, formula })
            .collect();
        Ok(Self { lines })
    }

    pub fn value(&self, name: &str) -> Option<f64> {
        self.lines.iter().find(|line| line.name == name)?.value
    }

    /// Of a worker's container: memory can't be shared, so request and limit are one; CPU has a request alone.
    pub fn kubernetes(&self) -> Value {
        let memory = self.value("memory_per_worker").unwrap_or(0.0);
        let memory = format!("{}Mi", (memory / (1 << 20) as f64).ceil());
        let cpu =
            self.value("cores_per_worker").map(|cores| format!("{}m", (1000.0 * cores).ceil().max(100.0)));
        json!({ "requests": { "memory": memory, "cpu": cpu }, "limits": { "memory": memory } })
    }
}

/// Seconds from one look at a starting worker to the next, and for all that is not replay.
const PROBED_EVERY: f64 = 10.0;
const STARTING: f64 = 60.0;

impl Sizing {
    /// For `kubectl patch statefulset worker --patch-file`. A worker may take as long to start as the longest replay
    /// there can be: all rows of the plan, from the key.
    pub fn kubernetes_patch(&self, workers: u32) -> Value {
        let replay = self.value("replay_seconds_at_most").unwrap_or(0.0);
        let failures = ((STARTING + replay) / PROBED_EVERY).ceil() as u64;
        json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": "worker", "namespace": "rustle" },
            "spec": { "replicas": workers, "template": { "spec": { "containers": [{
                "name": "worker",
                "resources": self.kubernetes(),
                "startupProbe": {
                    "httpGet": { "path": "/readyz", "port": "metrics" },
                    "periodSeconds": PROBED_EVERY as u64,
                    "failureThreshold": failures,
                },
            }] } } },
        })
    }
}

/// As `noise_kernel::Generator::suggested_rows_at_once`.
fn rows_at_once(coefficients: &Coefficients) -> u64 {
    match coefficients {
        Coefficients::Banded(banded) if banded.bands >= 32 => 16,
        Coefficients::Inverse(_) => 16,
        _ => 8,
    }
}

/// The most that it may be: whether keeping past normals pays is measured by the worker.
fn history(plan: &Plan, blocks: f64, limit: u64) -> f64 {
    let reach = match plan.coefficients() {
        Coefficients::Inverse(Inverse::Toeplitz { coefficients }) => coefficients.len() as u64 - 1,
        Coefficients::Inverse(Inverse::Dense { .. }) => plan.iterations() - 1,
        _ => 0,
    };
    let bytes = 4.0 * reach.min(plan.iterations() - 1) as f64 * blocks;
    if bytes <= limit as f64 { bytes } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noise_kernel::{BranchKey, Generator, Rounds, Stream};
    use plan::{Mechanism, Participation, PlanSpec};

    use super::*;

    fn plan(mechanism: Mechanism) -> Plan {
        Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: 60,
            noise_multiplier: 1.0,
            clip_norm: 1.0,
            participation: Participation { min_sep: 1, max_participations: 1 },
            mechanism,
            layout: None,
        })
        .unwrap()
    }

    fn setting(dimension: u64, workers: u32) -> Setting {
        Setting {
            dimension,
            workers,
            rows_per_second: 2.0,
            ahead_rows: 8,
            ahead_bytes: 1 << 30,
            history_bytes: 1 << 28,
            store_bandwidth: 1e9,
            coordinates_per_second: Some(1e6),
        }
    }

    #[test]
    fn the_kernel_agrees() {
        let bands = |p: u32| (0..p).map(|i| 0.5f64.powi(i as i32)).collect::<Vec<_>>();
        for mechanism in [
            Mechanism::Identity,
            Mechanism::Tree { restarts: vec![], completion: false },
            Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] },
            Mechanism::BandToeplitz { coefficients: bands(40), column_normalised: false },
            Mechanism::BandInverse { coefficients: vec![1.0, -0.4, -0.1] },
        ] {
            let plan = plan(mechanism);
            let stream = Stream::new(&BranchKey::from_array([0; 32]), Rounds::Twenty);
            let generator = Generator::new(stream, Arc::new(plan.coefficients()), 60, 1.0, 0..1024).unwrap();
            let sizing = Sizing::of(&plan, Setting { ahead_rows: 1000, ..setting(1024, 1) }).unwrap();
            let name = plan.mechanism().name();
            assert_eq!(sizing.value("state_bytes"), Some(generator.state_bytes() as f64), "{name}");
            let at_once = generator.suggested_rows_at_once() as f64;
            assert_eq!(sizing.value("rows_at_once"), Some(at_once), "{name}");
        }
    }

    #[test]
    fn figures_follow_their_formulas() {
        let plan = plan(Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] });
        let sizing = Sizing::of(&plan, setting(4 << 20, 4)).unwrap();
        let m = f64::from(1 << 20);
        for (name, value) in [
            ("shard_coordinates", m),
            ("state_bytes", 8.0 * m),
            ("rows_bytes", 4.0 * m * 14.0),
            ("memory_per_worker", 1.1 * 64.0 * m + f64::from(64 << 20) + 100.0 * 60.0),
            ("memory_traffic_per_row", 8.0 * 2.0 * m / 4.0 + 8.0 * m),
            ("network_per_worker", 8.0 * m),
            ("network_of_job", 32.0 * m),
            ("checkpoint_bytes", 4.0 * m * (8.0 + 40.0) + 4096.0),
            ("replay_seconds_at_most", 60.0 * m / 1e6),
        ] {
            assert_eq!(sizing.value(name), Some(value), "{name}");
        }
        assert_eq!(sizing.kubernetes()["limits"]["memory"], "135Mi");
        let patch = sizing.kubernetes_patch(4);
        assert_eq!(patch["spec"]["replicas"], 4);
        // 60 rows at one coordinate a microsecond: 63 s of replay after a minute.
        let container = &patch["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["startupProbe"]["failureThreshold"], 13);
        assert_eq!(container["resources"], sizing.kubernetes());
        assert!(Sizing::of(&plan, setting(512, 4)).unwrap_err().to_string().contains("512"));
    }

    #[test]
    fn past_normals_count_where_they_may_be_kept() {
        let plan = plan(Mechanism::BandInverse { coefficients: vec![1.0, -0.4, -0.1] });
        let history = |history_bytes| {
            Sizing::of(&plan, Setting { history_bytes, ..setting(1024, 1) }).unwrap().value("history_bytes")
        };
        assert_eq!([history(8192), history(8191)], [Some(8192.0), Some(0.0)]);
    }
}
