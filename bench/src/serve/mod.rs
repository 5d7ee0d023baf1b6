//! `bench serve`: how fast rows that are ready reach a job, over every transport, beside bare sockets, a bare tonic
//! echo and one copy of memory, all in turn.

mod copying;
mod peer;
mod report;
mod rustle;
mod sweep;
pub mod usage;

use std::time::Instant;

use anyhow::Context;
use node::process::runtime::Runtime;

use crate::arguments;
use crate::machine::Machine;
use crate::output::Output;
use copying::Copying;
use peer::{PeerProcess, Peers};
use report::{Measured, Report};
use rustle::{Serving, Transport};

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Coordinates of a row
    #[arg(long, value_parser = arguments::coordinates, default_value_t = 10_000_000)]
    dimension: u64,
    /// Rows fetched one by one in each round, and as many again in one request
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
    rows: u64,
    /// Rounds of all measurements in turn
    #[arg(long, value_parser = arguments::positive, default_value_t = 7)]
    repeats: usize,
    /// Bytes of row data in one message
    #[arg(long, default_value_t = proto::DEFAULT_CHUNK_BYTES)]
    chunk_bytes: usize,
    /// Instead: chunk sizes × frame sizes × windows, over TCP and a Unix socket
    #[arg(long)]
    sweep: bool,
    /// The process that bare measurements talk to
    #[arg(long, hide = true)]
    peer: bool,
}

/// Everything that is measured, once a round.
struct Bench {
    args: Args,
    runtime: Runtime,
    copying: Copying,
    peers: Peers,
    serving: Serving,
    _process: PeerProcess,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    if args.peer {
        return peer::run(args.chunk_bytes);
    }
    if args.sweep {
        return sweep::run(&args);
    }
    let runtime = Runtime::new().context("start a runtime")?;
    let process = PeerProcess::start(args.chunk_bytes)?;
    let mut bench = Bench {
        copying: Copying::new(args.dimension),
        peers: Peers::connect(&process, &runtime)?,
        serving: Serving::start(&runtime, args.dimension, 2 * args.rows, args.chunk_bytes)?,
        _process: process,
        runtime,
        args,
    };
    let mut measured = Measured::default();
    // Once without a record: pages are touched, connections opened, routings known.
    bench.round(&mut Measured::default())?;
    for _ in 0..bench.args.repeats {
        bench.round(&mut measured)?;
    }
    bench.usage(&mut measured)?;
    let threads = arguments::cores();
    let Args { dimension, rows, chunk_bytes, output, .. } = &bench.args;
    let report = Report::of(&measured, *dimension, *rows, *chunk_bytes)?;
    output.give("serve", &Machine::this(threads), &report, &report.tables(), &report.charts())
}

impl Bench {
    fn round(&mut self, measured: &mut Measured) -> anyhow::Result<()> {
        let Args { dimension, rows, .. } = self.args;
        let row_bytes = dimension * 4;
        measured.copy_row.extend((0..rows).map(|_| self.copying.row()));
        measured.copy_stream.push(self.copying.bandwidth());
        for kind in peer::Kind::ALL {
            let started = Instant::now();
            self.peers.fetch(&self.runtime, kind, row_bytes * rows)?;
            measured.bare(kind, (row_bytes * rows) as f64 / started.elapsed().as_secs_f64());
        }
        for transport in Transport::ALL {
            let got = self.serving.measure(&self.runtime, transport, rows)?;
            measured.served(transport, got);
        }
        Ok(())
    }

    /// Rows made while they are served, as fast as they come.
    fn usage(&mut self, measured: &mut Measured) -> anyhow::Result<()> {
        for transport in Transport::ALL {
            let used = self.serving.use_at_full_speed(&self.runtime, transport, 4 * self.args.rows)?;
            measured.usage.push((transport, used));
        }
        Ok(())
    }
}
