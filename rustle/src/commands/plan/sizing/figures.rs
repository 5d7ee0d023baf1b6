//! The table of figures: name, unit, formula and value of each.

use serde_json::{Value, json};

use super::inputs::Inputs;
use crate::values::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    Rate,
    Bytes,
    BytesPerSecond,
    Seconds,
    Cores,
}

/// One row of the table. `formula` is printed as it is written; `value` computes it.
pub struct Figure {
    name: &'static str,
    unit: Unit,
    formula: &'static str,
    value: fn(&Inputs) -> Option<f64>,
}

impl Figure {
    const fn new(
        name: &'static str,
        unit: Unit,
        formula: &'static str,
        value: fn(&Inputs) -> Option<f64>,
    ) -> Self {
        Self { name, unit, formula, value }
    }

    pub fn line(&self, inputs: &Inputs) -> Line {
        Line { name: self.name, value: (self.value)(inputs), unit: self.unit, formula: self.formula }
    }
}

/// All figures, in the order in which each follows from those before.
pub const FIGURES: &[Figure] = &[
    Figure::new("dimension", Unit::Count, "d", |i| Some(i.setting.dimension as f64)),
    Figure::new("workers", Unit::Count, "W, one shard each", |i| Some(f64::from(i.setting.workers))),
    Figure::new("rows_per_second", Unit::Rate, "R", |i| Some(i.setting.rows_per_second)),
    Figure::new("shard_coordinates", Unit::Count, "m: d/W, in blocks of 512; the largest shard", |i| {
        Some(i.shard as f64)
    }),
    Figure::new("state_slots", Unit::Count, "s: 4-byte numbers of state per coordinate, by mechanism", |i| {
        Some(i.slots)
    }),
    Figure::new("state_bytes", Unit::Bytes, "4·s·m", |i| Some(i.state())),
    Figure::new(
        "history_bytes",
        Unit::Bytes,
        "4·m·(bands of C⁻¹ − 1) where at most --history-bytes; else 0",
        |i| Some(i.history()),
    ),
    Figure::new("ahead_rows", Unit::Count, "a: --ahead-bytes/(4·m), from 1 to --ahead-rows", |i| {
        Some(i.ahead() as f64)
    }),
    Figure::new("rows_at_once", Unit::Count, "b: as the kernel suggests, at most a/2", |i| {
        Some(i.at_once() as f64)
    }),
    Figure::new("rows_bytes", Unit::Bytes, "4·m·(a + 2 + b): ahead, kept for retries, spare", |i| {
        Some(i.rows())
    }),
    Figure::new(
        "snapshot_bytes",
        Unit::Bytes,
        "4·s·m where at most --snapshot-bytes or on a grid, + 4·m·(a + 2): while a checkpoint is written",
        |i| Some(i.snapshot()),
    ),
    Figure::new(
        "memory_per_worker",
        Unit::Bytes,
        "1.1·(state + history + rows + snapshot) + 64 MiB + 100·n",
        |i| Some(i.memory()),
    ),
    Figure::new(
        "memory_traffic_per_row",
        Unit::Bytes,
        "8·s·m/b + 8·m: state in and out, row in and out",
        |i| Some(i.traffic()),
    ),
    Figure::new(
        "rows_per_second_possible",
        Unit::Rate,
        "coordinates per second / m, of one worker on this machine's cores",
        Inputs::possible_rows,
    ),
    Figure::new(
        "cores_per_worker",
        Unit::Cores,
        "R / rows per second possible · cores here",
        Inputs::worker_cores,
    ),
    Figure::new(
        "network_per_worker",
        Unit::BytesPerSecond,
        "4·m·R; half of it as bf16; none by shared memory",
        |i| Some(i.setting.rows_per_second * i.row()),
    ),
    Figure::new("network_of_job", Unit::BytesPerSecond, "4·d·R", |i| {
        Some(i.setting.rows_per_second * 4.0 * i.setting.dimension as f64)
    }),
    Figure::new(
        "checkpoint_bytes",
        Unit::Bytes,
        "4·s·d + 4·d·(a + 2) + 1 KiB·W; times the checkpoints kept",
        |i| Some(i.checkpoint()),
    ),
    Figure::new(
        "checkpoint_seconds",
        Unit::Seconds,
        "(4·s·m + 4·m·(a + 2)) / --store-bandwidth: all workers write at once",
        |i| Some(i.store_seconds()),
    ),
    Figure::new("restore_seconds", Unit::Seconds, "checkpoint_seconds, to read the same bytes", |i| {
        Some(i.store_seconds())
    }),
    Figure::new(
        "replay_seconds_at_most",
        Unit::Seconds,
        "n / rows per second possible: without any checkpoint, at the run's end",
        Inputs::replay_seconds,
    ),
];

/// One figure, computed.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    /// `None` where it could not be measured.
    pub value: Option<f64>,
    unit: Unit,
    pub formula: &'static str,
}

impl Line {
    /// Returns the value as JSON: counts and bytes as whole numbers, rounded up.
    pub fn json(&self) -> Value {
        match (self.value, self.unit) {
            (Some(value), Unit::Count | Unit::Bytes) => json!(value.ceil() as u64),
            (value, _) => json!(value),
        }
    }

    /// Returns the value with its unit, `-` for none.
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
