//! `rustle demo`: the whole system on real data, in one command.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::harden::harden;
use super::online;
use crate::demo::{self, DemoOptions, DemoReport};
use crate::output::Format;

/// The whole system on real data: a cluster, private training, a killed worker, every bit checked
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Number of worker processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Training runs for each mechanism
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: u16,
    #[arg(long, default_value_t = 1.0)]
    epsilon: f64,
    #[arg(long, default_value_t = 1e-5)]
    delta: f64,
    /// Keep ledger, checkpoints and logs here
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

pub fn run(args: &DemoArgs, format: Format) -> anyhow::Result<ExitCode> {
    // Its jobs' key is drawn here.
    harden()?;
    let scratch =
        tempfile::Builder::new().prefix("rustle-demo-").tempdir().context("make a temporary folder")?;
    let options = DemoOptions {
        program: std::env::current_exe().context("find this program")?,
        dir: args.data_dir.clone().unwrap_or_else(|| scratch.path().to_owned()),
        workers: args.workers.into(),
        seeds: args.seeds.into(),
        epsilon: args.epsilon,
        delta: args.delta,
    };
    let progress = progress_bar();
    let report = demo::run(&options, &mut |done, of, doing| {
        progress.set_length(of);
        progress.set_position(done);
        progress.set_message(doing.to_owned());
    });
    progress.finish_and_clear();
    let report = report?;
    match format {
        Format::Json => println!("{}", serde_json::to_string(&report)?),
        Format::Table => print(&report),
    }
    Ok(if report.bits_agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn print(report: &DemoReport) {
    let DemoReport { epsilon, delta, dimension, iterations, min_sep, max_participations, .. } = report;
    println!(
        "UCI handwritten digits: {dimension} parameters, {iterations} steps, (ε, δ) = ({epsilon}, {delta:e}),"
    );
    println!(
        "each image takes part {max_participations} times, every {min_sep} steps (min-sep counts j − i)."
    );
    let header =
        ["mechanism", "noise multiplier", "RMS loss", "test accuracy", "state bytes/parameter", "seconds"];
    let mut table = online::table(header);
    for m in &report.mechanisms {
        table.add_row([
            m.mechanism.clone(),
            format!("{:.3}", m.noise_multiplier),
            format!("{:.3}", m.rms_loss),
            format!("{:.1} % ± {:.1}", 100.0 * m.test_accuracy_mean, 100.0 * m.test_accuracy_std),
            m.state_bytes_per_parameter.to_string(),
            format!("{:.1}", m.seconds),
        ]);
    }
    println!("{table}");
    println!("without noise: {:.1} %", 100.0 * report.test_accuracy_without_noise);
    println!("killed on the way: {}", report.worker_killed);
    println!(
        "oracle: {} rows, {} values compared, {} differ: {}",
        report.rows_compared,
        report.values_compared,
        report.values_differing,
        if report.bits_agree { "all bits agree" } else { "BITS DIFFER" }
    );
    println!("{:.1} s in all", report.seconds);
}
