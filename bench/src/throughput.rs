//! Rows of each mechanism, interleaved with the machine's limits so that both see the same noise of the machine.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use noise_kernel::{Generator, JobKey, Rounds, Stream};
use plan::{Mechanism, Participation, Plan, PlanSpec};

use crate::limits;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Coordinates of a row
    #[arg(long, default_value_t = 10_000_000)]
    dimension: u64,
    /// Rows made at once
    #[arg(long, default_value_t = 8)]
    rows: usize,
    /// Threads; 0 for one a core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Rounds of measurement; medians and the spread are printed
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn mechanisms() -> Vec<(&'static str, Mechanism)> {
    let theta = vec![0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778];
    let omega = vec![0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734];
    vec![
        ("identity", Mechanism::Identity),
        ("blt d=4", Mechanism::Blt { theta, omega }),
        ("band-sqrt p=8", Mechanism::BandSqrt { bands: 8 }),
        ("band-sqrt p=32", Mechanism::BandSqrt { bands: 32 }),
        ("lambda-cgd", Mechanism::LambdaCgd { lambda: 0.9 }),
        ("tree", Mechanism::Tree { restarts: vec![], completion: false }),
    ]
}

struct Series(Vec<f64>);

impl Series {
    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    fn range(&self) -> (f64, f64) {
        self.0.iter().fold((f64::INFINITY, 0.0), |(low, high), &x| (low.min(x), high.max(x)))
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads).build().context("start threads")?;
    pool.install(|| measure(args))
}

fn measure(args: &Args) -> anyhow::Result<()> {
    let names = mechanisms();
    let (mut copy, mut keystream) = (Series(vec![]), Series(vec![]));
    let mut rates: Vec<Series> = names.iter().map(|_| Series(vec![])).collect();
    let mut buffers = vec![vec![0f32; args.dimension as usize]; args.rows];
    for _ in 0..args.repeats.max(1) {
        copy.0.push(limits::copy_bandwidth());
        keystream.0.push(limits::reference_keystream());
        for ((_, mechanism), rates) in names.iter().zip(&mut rates) {
            rates.0.push(rate(mechanism.clone(), args, &mut buffers)?);
        }
    }
    if args.json {
        let rows: Vec<_> = names
            .iter()
            .zip(&rates)
            .map(|((name, _), rate)| serde_json::json!({ "mechanism": name, "coordinates_per_second": rate.0 }))
            .collect();
        let object = serde_json::json!({
            "dimension": args.dimension, "rows_at_once": args.rows, "threads": rayon::current_num_threads(),
            "copy_bytes_per_second": copy.0, "rand_chacha_bytes_per_second_one_core": keystream.0, "mechanisms": rows,
        });
        println!("{object}");
        return Ok(());
    }
    let threads = rayon::current_num_threads();
    println!(
        "{} coordinates, {} rows at once, {threads} threads, medians of {}",
        args.dimension, args.rows, args.repeats
    );
    line("copy, GB/s", &copy, 1e9, None);
    line("rand_chacha keystream, one core, GB/s", &keystream, 1e9, None);
    for ((name, _), rate) in names.iter().zip(&rates) {
        line(&format!("{name}, M coordinates/s"), rate, 1e6, Some(4.0 * rate.median() / copy.median()));
    }
    Ok(())
}

/// `of_copy`: output bytes a second, as a share of what copying moves.
fn line(what: &str, series: &Series, unit: f64, of_copy: Option<f64>) {
    let (low, high) = series.range();
    let share = of_copy.map_or(String::new(), |share| format!("   output is {:.0} % of copy", 100.0 * share));
    println!("{what:<40} {:>9.1}   ({:.1} to {:.1}){share}", series.median() / unit, low / unit, high / unit);
}

/// Coordinates a second of the second batch: the first touches the memory.
fn rate(mechanism: Mechanism, args: &Args, buffers: &mut [Vec<f32>]) -> anyhow::Result<f64> {
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: 1_000,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1, max_participations: 1 },
        mechanism,
        layout: None,
    })?;
    let key = JobKey::from_bytes(&[7; 32])?.branch("bench", 0, &plan.digest())?;
    let stream = Stream::new(&key, Rounds::Twenty);
    let coefficients = Arc::new(plan.coefficients());
    let mut generator = Generator::new(stream, coefficients, 1_000, plan.scale(), 0..args.dimension)?;
    let mut out: Vec<&mut [f32]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
    generator.generate(&mut out)?;
    let started = Instant::now();
    generator.generate(&mut out)?;
    Ok(args.rows as f64 * args.dimension as f64 / started.elapsed().as_secs_f64())
}
