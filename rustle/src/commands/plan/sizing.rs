//! The formulas of `rustle plan resources`: docs/operations.md explains them.

use coordinator::split;
use plan::{Coefficients, Inverse, Plan};
use proto::{RELEASED_ROWS_KEPT, ServiceError};
use serde_json::{Value, json};

use crate::args::Bytes;

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

/// All figures, in the order in which each follows from those before.
#[derive(Clone, Debug)]
pub struct Sizing {
    pub lines: Vec<Line>,
}

impl Sizing {
    /// Error: a dimension or a number of workers that a job can't have.
    pub fn of(plan: &Plan, setting: Setting) -> Result<Self, ServiceError> {
        let Setting { dimension, workers, rows_per_second: rate, store_bandwidth, .. } = setting;
        let ranges = split::ranges(dimension, workers)?;
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
        // State moves once for all rows that are made together.
        let traffic = 2.0 * state / together as f64 + 2.0 * row;
        let made = setting.coordinates_per_second.map(|made| made / len as f64);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let line = |name, unit, value, formula| Line { name, value: Some(value), unit, formula };
        let measured = |name, unit, value, formula| Line { name, value, unit, formula };
        let lines = vec![
            line("dimension", Unit::Count, dimension as f64, "d"),
            line("workers", Unit::Count, f64::from(workers), "W, one shard each"),
            line("rows_per_second", Unit::Rate, rate, "R"),
            line("shard_coordinates", Unit::Count, len as f64, "m: d/W, in blocks of 512; the largest shard"),
            line("state_slots", Unit::Count, slots, "s: f32 numbers of state a coordinate, by mechanism"),
            line("state_bytes", Unit::Bytes, state, "4·s·m"),
            line(
                "history_bytes",
                Unit::Bytes,
                history,
                "4·m·(bands of C⁻¹ − 1) where at most --history-bytes; else 0",
            ),
            line("ahead_rows", Unit::Count, ahead as f64, "a: --ahead-bytes/(4·m), from 1 to --ahead-rows"),
            line("rows_at_once", Unit::Count, together as f64, "b: as the kernel suggests, at most a/2"),
            line("rows_bytes", Unit::Bytes, rows, "4·m·(a + 2 + b): ahead, kept for retries, spare"),
            line("memory_per_worker", Unit::Bytes, memory, "1.1·(state + history + rows) + 64 MiB + 100·n"),
            line(
                "memory_traffic_per_row",
                Unit::Bytes,
                traffic,
                "8·s·m/b + 8·m: state in and out, row in and out",
            ),
            measured(
                "rows_per_second_possible",
                Unit::Rate,
                made,
                "coordinates a second / m, of one worker on this machine's cores",
            ),
            measured(
                "cores_per_worker",
                Unit::Cores,
                made.map(|made| rate / made * cores),
                "R / rows a second possible · cores here",
            ),
            line(
                "network_per_worker",
                Unit::BytesPerSecond,
                rate * row,
                "4·m·R; half of it as bf16; none by shared memory",
            ),
            line("network_of_job", Unit::BytesPerSecond, rate * 4.0 * dimension as f64, "4·d·R"),
            line(
                "checkpoint_bytes",
                Unit::Bytes,
                checkpoint,
                "4·s·d + 4·d·(a + 2) + 1 KiB·W; times the checkpoints kept",
            ),
            line(
                "checkpoint_seconds",
                Unit::Seconds,
                piece / store_bandwidth,
                "(4·s·m + 4·m·(a + 2)) / --store-bandwidth: all workers write at once",
            ),
            line("restore_seconds", Unit::Seconds, piece / store_bandwidth, "as written, read again"),
            measured(
                "replay_seconds_at_most",
                Unit::Seconds,
                made.map(|made| plan.iterations() as f64 / made),
                "n / rows a second possible: without any checkpoint, at the run's end",
            ),
        ];
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
