//! How fast rows that are ready reach a training rank over MPI, beside bare sends of the same sizes and one copy of
//! memory, in turn: `mpirun -n 2 mpi_rates …`, as `bench mpi` runs it. Rank 0 trains, rank 1 makes noise; the rates, in
//! bytes a second and one a round, come as one line of JSON. Nothing else is at work while one of them is taken.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use clap::Parser;
use proto::{Commitment, CoordinateRange};
use rayon::prelude::*;
use rsmpi::{
    topology::{Communicator, SimpleCommunicator},
    traits::{Destination, Source},
};
use rustle_mpi::{
    MpiArgs, NoiseRank, deadlines::TimeLimit, launch::MpiProcess, service::Service, training::Training,
};
use serde_json::json;

#[derive(Parser)]
struct Flags {
    /// Rows of each round
    #[arg(long)]
    rows: u64,
    /// Rounds, after one without a record
    #[arg(long)]
    rounds: u64,
    #[command(flatten)]
    noise: MpiArgs,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let limit = TimeLimit(flags.noise.time_limit);
    let started = MpiProcess::start(limit)?;
    ensure!(SimpleCommunicator::world().size() == 2, "run this by mpirun -n 2");
    if started.rank() == 0 { train(&flags, started) } else { noise(&flags, started) }
}

/// Meets the other rank, and waits for it without taking a core from what is measured.
fn meet(other: i32) {
    let world = SimpleCommunicator::world();
    let other = world.process_at_rank(other);
    other.send_with_tag(&[0u8], 7);
    while other.immediate_probe_with_tag(7).is_none() {
        thread::sleep(Duration::from_micros(200));
    }
    other.receive_into_with_tag(&mut [0u8], 7);
}

fn noise(flags: &Flags, started: MpiProcess) -> anyhow::Result<()> {
    let runtime = node::process::runtime::Runtime::new()?;
    let mut rank = NoiseRank::join(&flags.noise, started, &runtime)?;
    let row = vec![1f32; rank.launch.dimension() as usize];
    let mut service = rank.service(&runtime, 0);
    let world = SimpleCommunicator::world();
    let trainer = world.process_at_rank(0);
    // As many as there may be: then none is made until half of them are gone.
    let most = 2 * flags.rows;
    let meet_at_rest = |service: &Service<'_>| {
        while service.rows_ahead() < most {
            thread::sleep(Duration::from_millis(1));
        }
        meet(0);
    };
    for _ in 0..=flags.rounds {
        meet_at_rest(&service);
        for _ in 0..flags.rows {
            trainer.receive_into_with_tag(&mut [0u8], 8);
            trainer.send_with_tag(&row[..], 9);
        }
        for _ in 0..2 {
            meet_at_rest(&service);
            service.run()?;
        }
        // The copy, between two meetings.
        meet_at_rest(&service);
        meet(0);
    }
    rank.end();
    Ok(())
}

fn train(flags: &Flags, started: MpiProcess) -> anyhow::Result<()> {
    let dimension = flags.noise.dimension.unwrap_or(0);
    let mut training = Training::join_started(started, 4 * dimension)?;
    let range = CoordinateRange { start: 0, end: dimension };
    let mut row = vec![0f32; dimension as usize];
    let source = vec![1f32; dimension as usize];
    let bytes = (4 * dimension * flags.rows) as f64;
    let world = SimpleCommunicator::world();
    let mut next = 0;
    let noise = world.process_at_rank(1);
    let [mut bare, mut sent, mut placed, mut copied] = [(); 4].map(|()| Vec::new());
    let commitment = |row: u64| Commitment::of_text(&format!("row {row}"));
    for _ in 0..=flags.rounds {
        meet(1);
        let began = Instant::now();
        for _ in 0..flags.rows {
            noise.send_with_tag(&[0u8], 8);
            noise.receive_into_with_tag(&mut row[..], 9);
        }
        bare.push(bytes / began.elapsed().as_secs_f64());
        meet(1);
        let began = Instant::now();
        for _ in 0..flags.rows {
            training.fetch_into(next, range, commitment(next), &mut row)?;
            next += 1;
        }
        sent.push(bytes / began.elapsed().as_secs_f64());
        training.rest();
        meet(1);
        let began = Instant::now();
        for _ in 0..flags.rows {
            std::hint::black_box(training.fetch_in_window(next, range, commitment(next), 0)?);
            next += 1;
        }
        placed.push(bytes / began.elapsed().as_secs_f64());
        training.rest();
        meet(1);
        let began = Instant::now();
        for _ in 0..flags.rows {
            copy(&source, &mut row);
        }
        copied.push(bytes / began.elapsed().as_secs_f64());
        meet(1);
    }
    training.close();
    let warm = |rates: Vec<f64>| rates[1..].to_vec();
    println!(
        "{}",
        json!({ "bare": warm(bare), "sent": warm(sent), "placed": warm(placed), "copied": warm(copied) })
    );
    Ok(())
}

/// One long piece a thread, so that the C library may pick the stores it has for long copies.
fn copy(from: &[f32], to: &mut [f32]) {
    let piece = from.len().div_ceil(rayon::current_num_threads()).max(1);
    to.par_chunks_mut(piece).zip(from.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
    std::hint::black_box(to);
}
