//! `rustle demo`: private training on real data with noise from a local cluster.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::harden::harden;
use crate::demo::{self, DemoOptions, DemoReport};
use crate::output::{self, Format, bad_use, status_of_check};
use crate::progress::Progress;
use crate::streams;

/// Range of ε: beyond it the training learns nothing, or its noise is none.
const LEAST_EPSILON: f64 = 0.01;
const MOST_EPSILON: f64 = 1000.0;

/// Train with noise from a local cluster, kill a worker, check every bit
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Number of worker processes, from 1 to 64
    #[arg(long, value_name = "W", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Number of training runs of each mechanism, from 1 to 100
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: u16,
    /// ε of each mechanism, from 0.01 to 1000
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ of each mechanism, strictly between 0 and 1
    #[arg(long, default_value_t = 1e-5, allow_negative_numbers = true)]
    delta: f64,
    /// Add noise as floating-point numbers, which do not hold against precision attacks [default: integers on a grid]
    #[arg(long)]
    float: bool,
    /// Folder for ledger, checkpoints and logs [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub fn run(args: &DemoArgs, format: Format) -> anyhow::Result<ExitCode> {
    let DemoArgs { epsilon, delta, .. } = *args;
    if !(LEAST_EPSILON..=MOST_EPSILON).contains(&epsilon) {
        let allowed = format!("allowed: {LEAST_EPSILON} to {MOST_EPSILON}");
        return Err(bad_use(format!("--epsilon is {epsilon}; {allowed}")));
    }
    if !(delta > 0.0 && delta < 1.0) {
        return Err(bad_use(format!("--delta is {delta}; allowed: strictly between 0 and 1")));
    }
    // This process draws the jobs' key.
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
        float: args.float,
    };
    let progress = Progress::bar(1, "");
    let report = demo::run(&options, &mut |done, of, doing| {
        progress.set_length(of);
        progress.set_position(done);
        progress.set_message(doing.to_owned());
    });
    drop(progress);
    let report = report?;
    let printed = match format {
        Format::Json => streams::line(serde_json::to_string(&report)?),
        Format::Table => streams::write(shown(&report).as_bytes()),
    };
    status_of_check(report.bits_agree, printed)
}

/// Returns the report as text. Writing to a String can't fail.
fn shown(report: &DemoReport) -> String {
    let mut text = String::new();
    let DemoReport { epsilon, delta, dimension, iterations, min_sep, max_participations, .. } = report;
    let _ = writeln!(
        text,
        "UCI handwritten digits: {dimension} parameters, {iterations} steps, (ε, δ) = ({epsilon}, {delta:e}),"
    );
    let _ = writeln!(
        text,
        "each image takes part {max_participations} times, every {min_sep} steps (min_sep counts j − i)."
    );
    let noise = match report.rows {
        "int32" => "integers on a grid: what is released keeps the account bit for bit.",
        _ => "floating-point numbers, which do not hold against precision attacks.",
    };
    let _ = writeln!(text, "Noise: {noise}");
    let header = ["mechanism", "noise mult.", "rms loss", "test accuracy", "state", "seconds"];
    let mut table = output::table(&header);
    for m in &report.mechanisms {
        table.add_row([
            m.mechanism.clone(),
            format!("{:.3}", m.noise_multiplier),
            format!("{:.3}", m.rms_loss),
            format!("{:.1} % ± {:.1}", 100.0 * m.test_accuracy_mean, 100.0 * m.test_accuracy_std),
            format!("{} B", m.state_bytes_per_parameter),
            format!("{:.1}", m.seconds),
        ]);
    }
    let _ = writeln!(text, "{table}");
    let _ = writeln!(text, "without noise: {:.1} %", 100.0 * report.test_accuracy_without_noise);
    let _ = writeln!(text, "worker killed during training: {}", report.worker_killed);
    let _ = writeln!(
        text,
        "compared with what is recomputed here: {} rows, {} values, {} of them by the reference implementation, {} differ: {}",
        report.rows_compared,
        report.values_compared,
        report.values_exact,
        report.values_differing,
        if report.bits_agree { "all bits match" } else { "BITS DIFFER" }
    );
    let _ = writeln!(text, "{:.1} s in all", report.seconds);
    text
}
