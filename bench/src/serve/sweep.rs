//! `bench serve --sweep`: what chunk size, frame size and windows do to the rate over sockets.

use anyhow::Context;
use client::Tuning;
use node::process::runtime::Runtime;
use serde::Serialize;

use super::Args;
use super::rustle::{Serving, Transport};
use crate::machine::Machine;
use crate::output;
use crate::stats::Spread;

const CHUNKS: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
const FRAMES: [u32; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
const WINDOWS: [u32; 3] = [1 << 20, 4 << 20, 16 << 20];

#[derive(Serialize)]
struct Sweep {
    dimension: u64,
    rows: u64,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    over: Transport,
    chunk_bytes: usize,
    frame_bytes: u32,
    stream_window: u32,
    bytes_per_second: Spread,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = Runtime::new().context("start a runtime")?;
    let mut cells = vec![];
    // Each value alone, the others at their defaults; then all frames for all chunks.
    let default = Tuning::default();
    let mut tunings: Vec<(usize, Tuning)> = vec![];
    for chunk in CHUNKS {
        tunings.extend(FRAMES.map(|frame_bytes| (chunk, Tuning { frame_bytes, ..default })));
    }
    tunings.extend(WINDOWS.map(|window| {
        (args.chunk_bytes, Tuning { stream_window: window, connection_window: 4 * window, ..default })
    }));
    let mut measured = vec![[vec![], vec![]]; tunings.len()];
    for round in 0..=args.repeats {
        for chunk in CHUNKS {
            let mut serving = Serving::start(&runtime, args.dimension, 2 * args.rows, chunk)?;
            for ((_, tuning), rates) in tunings.iter().zip(&mut measured).filter(|((of, _), _)| *of == chunk)
            {
                serving.tune(&runtime, *tuning)?;
                for (transport, rates) in [Transport::Tcp, Transport::Unix].into_iter().zip(rates) {
                    let rate = serving.measure(&runtime, transport, args.rows)?.bytes_per_second;
                    // The first round warms.
                    if round > 0 {
                        rates.push(rate);
                    }
                }
            }
        }
    }
    for ((chunk_bytes, tuning), rates) in tunings.into_iter().zip(&measured) {
        for (over, rates) in [Transport::Tcp, Transport::Unix].into_iter().zip(rates) {
            let bytes_per_second = Spread::of(rates).context("nothing was measured")?;
            let Tuning { frame_bytes, stream_window, .. } = tuning;
            cells.push(Cell { over, chunk_bytes, frame_bytes, stream_window, bytes_per_second });
        }
    }
    let table = output::table(
        &["", "chunk, KiB", "frame, KiB", "stream window, KiB", "GB/s"],
        cells.iter().map(|cell| {
            vec![
                format!("{:?}", cell.over),
                (cell.chunk_bytes >> 10).to_string(),
                (cell.frame_bytes >> 10).to_string(),
                (cell.stream_window >> 10).to_string(),
                cell.bytes_per_second.shown(1e9),
            ]
        }),
    );
    let title = format!("Medians and ranges of {} rounds", args.repeats);
    let sweep = Sweep { dimension: args.dimension, rows: args.rows, cells };
    let machine = Machine::this(crate::arguments::cores());
    args.output.give("serve-sweep", &machine, &sweep, &[(title, table)], &[])
}
