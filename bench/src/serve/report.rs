//! What was found, as JSON and as tables.

use comfy_table::Table;
use plot::{Axis, Chart};
use serde::Serialize;

use super::peer::Kind;
use super::rustle::{Served, Transport};
use super::usage::Usage;
use crate::comparison::spread;
use crate::coordinator::latency::nearest_rank;
use crate::output;
use reproduce::measure::{Spread, ratios};

/// One number a round, unless said otherwise.
#[derive(Default)]
pub struct Measured {
    /// Seconds; several a round.
    pub copy_row: Vec<f64>,
    /// Bytes a second.
    pub copy_stream: Vec<f64>,
    bare: [Vec<f64>; 4],
    served: [Vec<f64>; 3],
    /// Seconds; one for each row fetched alone.
    wait: [Vec<f64>; 3],
    bind: [Vec<f64>; 3],
    pub usage: Vec<(Transport, Usage)>,
}

impl Measured {
    pub fn bare(&mut self, kind: Kind, bytes_per_second: f64) {
        self.bare[kind as usize].push(bytes_per_second);
    }

    pub fn served(&mut self, transport: Transport, served: Served) {
        let at = transport as usize;
        self.served[at].push(served.bytes_per_second);
        self.wait[at].extend(served.wait);
        self.bind[at].extend(served.bind);
    }
}

#[derive(Serialize)]
pub struct Report {
    dimension: u64,
    rows: u64,
    chunk_bytes: usize,
    /// Bytes a second, all threads, each byte counted once.
    copy_bandwidth: Spread,
    /// Seconds to copy one row with all threads.
    copy_row: Spread,
    delivered: Vec<Delivered>,
    time_to_row: Vec<TimeToRow>,
    worker_cpu: Vec<WorkerCpu>,
}

#[derive(Serialize)]
struct Delivered {
    over: &'static str,
    bytes_per_second: Spread,
    /// Round by round, of what the bare tonic echo delivered over the same kind of socket.
    of_bare_tonic: Option<Spread>,
    /// Round by round.
    of_copy_bandwidth: Spread,
}

#[derive(Serialize)]
struct TimeToRow {
    over: Transport,
    /// Seconds from the request, grant at hand, to the row in place.
    wait: Spread,
    wait_p99: f64,
    /// Median wait by median copy of one row.
    of_one_copy: f64,
    /// Seconds to bind the row, durably; not part of the wait.
    bind: Spread,
}

#[derive(Serialize)]
struct WorkerCpu {
    over: Transport,
    #[serde(flatten)]
    usage: Usage,
}

impl Report {
    pub fn of(measured: &Measured, dimension: u64, rows: u64, chunk_bytes: usize) -> anyhow::Result<Self> {
        let copy_row = spread(&measured.copy_row)?;
        let rated = |over, rates: &[f64], beside: Option<&[f64]>| {
            anyhow::Ok(Delivered {
                over,
                bytes_per_second: spread(rates)?,
                of_bare_tonic: beside.map(|beside| spread(&ratios(rates, beside))).transpose()?,
                of_copy_bandwidth: spread(&ratios(rates, &measured.copy_stream))?,
            })
        };
        let [bare_tcp, bare_unix, tonic_tcp, tonic_unix] = &measured.bare;
        let [tcp, unix, shared] = &measured.served;
        let delivered = vec![
            rated("bare TCP socket", bare_tcp, None)?,
            rated("bare Unix socket", bare_unix, None)?,
            rated("bare tonic echo, TCP", tonic_tcp, None)?,
            rated("bare tonic echo, Unix socket", tonic_unix, None)?,
            rated("rustle, TCP", tcp, Some(tonic_tcp))?,
            rated("rustle, Unix socket", unix, Some(tonic_unix))?,
            rated("rustle, shared memory", shared, None)?,
        ];
        let time_to_row = Transport::ALL.into_iter().map(|over| {
            let wait = &measured.wait[over as usize];
            let bind = &measured.bind[over as usize];
            let spread_of_wait = spread(wait)?;
            let of_one_copy = spread_of_wait.median / copy_row.median;
            anyhow::Ok(TimeToRow {
                over,
                wait: spread_of_wait,
                wait_p99: p99(wait),
                of_one_copy,
                bind: spread(bind)?,
            })
        });
        Ok(Self {
            dimension,
            rows,
            chunk_bytes,
            copy_bandwidth: spread(&measured.copy_stream)?,
            copy_row,
            delivered,
            time_to_row: time_to_row.collect::<anyhow::Result<_>>()?,
            worker_cpu: measured.usage.iter().map(|&(over, usage)| WorkerCpu { over, usage }).collect(),
        })
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let rounds = self.copy_bandwidth.repeats;
        let title = format!(
            "Delivered: {} rows of {} coordinates in one request; median and range of {rounds} rounds",
            self.rows,
            output::round(self.dimension)
        );
        let percent = |spread: &Spread| format!("{} %", spread.shown(0.01));
        let copy = vec![
            "copy of memory, all threads".into(),
            self.copy_bandwidth.shown(1e9),
            String::new(),
            String::new(),
        ];
        let delivered = self.delivered.iter().map(|row| {
            vec![
                row.over.to_owned(),
                row.bytes_per_second.shown(1e9),
                row.of_bare_tonic.as_ref().map(percent).unwrap_or_default(),
                percent(&row.of_copy_bandwidth),
            ]
        });
        let header = ["", "GB/s", "of bare tonic", "of copy bandwidth"];
        let delivered = output::table(&header, std::iter::once(copy).chain(delivered));
        vec![
            (title, delivered),
            (
                format!("Time to a row that is ready; one copy of it takes {} ms", self.copy_row.shown(1e-3)),
                self.waits(),
            ),
            ("Worker CPU while rows are made and served as fast as they come".into(), self.cpu()),
        ]
    }

    pub fn charts(&self) -> Vec<Chart> {
        let delivered = self.delivered.iter().map(|row| Some(row.bytes_per_second.drawn(1e9))).collect();
        let ms = |pick: fn(&TimeToRow) -> &Spread| {
            self.time_to_row.iter().map(|row| Some(pick(row).drawn(1e-3))).collect()
        };
        let rates = Chart::bars(
            format!("Rows of {} coordinates, delivered", output::round(self.dimension)),
            Axis::linear("GB/s"),
            self.delivered.iter().map(|row| row.over.to_owned()).collect(),
            [("delivered", delivered)],
            Some(self.copy_bandwidth.median / 1e9),
        );
        let waits = Chart::bars(
            "Time to a row that is ready, beside one copy of it",
            Axis::linear("ms"),
            self.time_to_row.iter().map(|row| format!("{:?}", row.over)).collect(),
            [("wait", ms(|row| &row.wait)), ("binding", ms(|row| &row.bind))],
            Some(self.copy_row.median * 1e3),
        );
        vec![rates, waits]
    }

    fn waits(&self) -> Table {
        let rows = self.time_to_row.iter().map(|row| {
            vec![
                format!("{:?}", row.over),
                row.wait.shown(1e-3),
                format!("{:.2}", row.wait_p99 * 1e3),
                format!("{:.2}", row.of_one_copy),
                row.bind.shown(1e-3),
            ]
        });
        output::table(&["", "ms", "p99, ms", "of one copy", "binding, ms"], rows)
    }

    fn cpu(&self) -> Table {
        let rows = self.worker_cpu.iter().map(|row| {
            let Usage { rows_per_second, cpu_a_row, making_a_row, copying_a_row, share_outside, .. } =
                row.usage;
            let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
            let share = format!("{:.1} %", share_outside * 100.0);
            let rate = format!("{rows_per_second:.1}");
            vec![format!("{:?}", row.over), rate, ms(cpu_a_row), ms(making_a_row), ms(copying_a_row), share]
        });
        let header = ["", "rows/s", "CPU ms a row", "making", "copying", "outside of making"];
        output::table(&header, rows)
    }
}

fn p99(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    nearest_rank(&sorted, 0.99)
}
