//! `rustle plan plot`: plots plans as SVG.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use plan::Plan;
use plot::{Axis, Chart, Lines, Series, svg};
use strategy::optimize::{Family, Target, optimize};
use strategy::{Participation, Strategy};

use super::workload::ReleaseArgs;
use crate::commands::cancel::Cancel;
use crate::commands::plan_file;
use crate::out_file::{self, Access, OutFile};
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;

#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Files of the plans, each of which is one line in a chart
    #[arg(required = true, value_name = "FILE")]
    plans: Vec<PathBuf>,
    /// Charts to plot, separated by commas, from top to bottom
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [What::Coefficients, What::Errors, What::MinSep, What::Memory])]
    what: Vec<What>,
    #[command(flatten)]
    release: ReleaseArgs,
    /// Number of coefficients to plot
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// SVG file to write; - for standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Coefficients of C and C⁻¹ by distance from the diagonal
    Coefficients,
    /// Loss of every row
    Errors,
    /// Loss against the actual min-sep of the data
    MinSep,
    /// Loss against the size of the state
    Memory,
    /// Loss of optimized strategies against bands or buffers, for the first plan
    Bands,
}

/// A plan to plot.
struct PlottedPlan {
    name: String,
    plan: Plan,
    strategy: Strategy,
}

/// Maximum sizes in the chart of bands.
const MOST_BANDS: u64 = 512;
const MOST_INVERSE_BANDS: usize = 16;
const MOST_BUFFERS: usize = 6;

/// Maximum number of points of a line over all rows.
const POINTS: u64 = 400;

pub fn run(args: &PlotArgs, format: Format) -> anyhow::Result<ExitCode> {
    out_file::refuse_ending(&args.out, "SVG", &["svg"])?;
    let out = OutFile::open(&args.out, Access::Everyone)?;
    let mut plans = Vec::new();
    for path in &args.plans {
        let plan = plan_file::read(path)?;
        let strategy = plan.strategy();
        let stem =
            path.file_stem().map_or_else(|| path.display().to_string(), |s| s.to_string_lossy().into());
        plans.push(PlottedPlan { name: stem, plan, strategy });
    }
    let mut charts = Vec::new();
    for what in &args.what {
        charts.extend(match what {
            What::Coefficients => coefficients(&plans, args.count)?,
            What::Errors => vec![errors(&plans, &args.release)?],
            What::MinSep => vec![min_sep(&plans, &args.release)?],
            What::Memory => vec![memory(&plans, &args.release)?],
            What::Bands => vec![bands(&plans[0].plan, &args.release)?],
        });
    }
    let text = svg(&charts).map_err(bad_use)?;
    out.write_and_finish(text.as_bytes())?;
    if !out_file::is_stdout(&args.out) {
        let out = args.out.display().to_string();
        Answer::new().with("out", out).with("charts", charts.len()).print(format)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(title: &str, x: Axis, y: Axis, series: Vec<Series>) -> Chart {
    Chart::Lines(Lines { title: title.into(), x, y, series })
}

/// Plots row n/2 of C and of C⁻¹ from the diagonal backwards, which is the first column of a Toeplitz matrix.
fn coefficients(plans: &[PlottedPlan], count: u64) -> anyhow::Result<Vec<Chart>> {
    let matrix = |inverse: bool| -> anyhow::Result<Vec<Series>> {
        let mut all = Vec::new();
        for plotted in plans {
            let row = middle_row(plotted, inverse)?;
            // Zeros have no logarithm.
            let points = row.iter().rev().take(count as usize).enumerate();
            let points = points.filter(|(_, value)| **value != 0.0 && (inverse || **value > 0.0));
            let points = points.map(|(lag, value)| (1.0 + lag as f64, value.abs().into()));
            all.push(Series::new(&plotted.name, points.collect()));
        }
        Ok(all)
    };
    let lag = || Axis::log("distance from the diagonal, plus one");
    Ok(vec![
        lines("Coefficients of C", lag(), Axis::log("C[t, t−lag] in the middle of the run"), matrix(false)?),
        lines(
            "Coefficients of the inverse of C, without their sign",
            lag(),
            Axis::log("|inverse of C [t, t−lag]| in the middle of the run"),
            matrix(true)?,
        ),
    ])
}

fn middle_row(plotted: &PlottedPlan, inverse: bool) -> anyhow::Result<Vec<f64>> {
    let n = plotted.plan.iterations();
    if matches!(plotted.strategy, Strategy::Tree(_)) {
        return Ok(Vec::new());
    }
    let row =
        if inverse { plotted.strategy.c_inverse_row(n, n / 2) } else { plotted.strategy.c_row(n, n / 2) };
    row.map_err(bad_use)
}

fn errors(plans: &[PlottedPlan], release: &ReleaseArgs) -> anyhow::Result<Chart> {
    let mut all = Vec::new();
    for plotted in plans {
        let n = plotted.plan.iterations();
        let rule = plotted.plan.participation();
        let sensitivity = plotted.strategy.sensitivity(n, rule).map_err(bad_use)?.value;
        let squared = plotted.strategy.row_errors_squared(n, &release.workload(n)?).map_err(bad_use)?;
        let step = n.div_ceil(POINTS) as usize;
        let points = squared.iter().enumerate().filter(|(t, _)| t % step == 0 || *t as u64 == n - 1);
        let points = points.map(|(t, e)| (t as f64, (e.sqrt() * sensitivity).into()));
        all.push(Series::new(&plotted.name, points.collect()));
    }
    Ok(lines("Loss of every row", Axis::linear("row"), Axis::linear("row error × sensitivity"), all))
}

/// Returns the error that the loss is made of.
fn error(plotted: &PlottedPlan, release: &ReleaseArgs) -> anyhow::Result<f64> {
    let n = plotted.plan.iterations();
    let target = Target::new(n, plotted.plan.participation(), release.objective(n)?);
    target.with_workload(release.workload(n)?).error(&plotted.strategy).map_err(bad_use)
}

/// Plots the loss of each plan at other separations, with as many participations as fit.
fn min_sep(plans: &[PlottedPlan], release: &ReleaseArgs) -> anyhow::Result<Chart> {
    let mut all = Vec::new();
    for plotted in plans {
        let n = plotted.plan.iterations();
        let error = error(plotted, release)?;
        let mut points = Vec::new();
        for gap in separations(plotted.plan.participation().min_sep, n) {
            let rule = Participation::new(gap, plotted.plan.participation().max_participations)?;
            let sensitivity = plotted.strategy.sensitivity(n, rule).map_err(bad_use)?.value;
            points.push((gap as f64, (error * sensitivity).into()));
        }
        all.push(Series::new(&plotted.name, points));
    }
    let x = Axis::linear("actual min-sep (j − i), participations as planned");
    Ok(lines("Loss against the min-sep that the data have", x, Axis::linear("error × sensitivity"), all))
}

/// Returns separations from a quarter of the planned one to twice it.
fn separations(planned: u64, n: u64) -> Vec<u64> {
    let mut gaps: Vec<u64> =
        (2..=16).map(|eighth| (planned.saturating_mul(eighth) / 8).clamp(1, n)).collect();
    gaps.dedup();
    gaps
}

fn memory(plans: &[PlottedPlan], release: &ReleaseArgs) -> anyhow::Result<Chart> {
    let mut all = Vec::new();
    for plotted in plans {
        let n = plotted.plan.iterations();
        let rule = plotted.plan.participation();
        let loss = error(plotted, release)? * plotted.strategy.sensitivity(n, rule).map_err(bad_use)?.value;
        all.push(Series::new(&plotted.name, vec![(4.0 * plotted.plan.state_slots() as f64, loss.into())]));
    }
    let x = Axis::linear("state, bytes a parameter");
    Ok(lines("Loss against state", x, Axis::linear("error × sensitivity"), all))
}

/// Plots the optimized band-toeplitz, band-inverse and blt of every size, in the setting of `plan`.
fn bands(plan: &Plan, release: &ReleaseArgs) -> anyhow::Result<Chart> {
    let n = plan.iterations();
    let rule: Participation = plan.participation();
    let target = Target::new(n, rule, release.objective(n)?).with_workload(release.workload(n)?);
    let widest = if rule.in_rounds(n) == 1 { n } else { rule.min_sep.min(n) };
    let ladder = (0..=2 * MOST_BANDS.ilog2()).map(|half| (f64::from(half) / 2.0).exp2().round() as usize);
    let mut ladder: Vec<usize> =
        ladder.take_while(|bands| (*bands as u64) < widest.min(MOST_BANDS)).collect();
    ladder.push(widest.min(MOST_BANDS) as usize);
    ladder.dedup();
    let cancel = Cancel::on_ctrl_c();
    let bar = Progress::bar(ladder.len() as u64 * 2 + MOST_BUFFERS as u64, "strategies optimized");
    let line = |name: &str, sizes: &[usize], family: &dyn Fn(usize) -> Family| -> anyhow::Result<Series> {
        let mut points = Vec::new();
        for size in sizes {
            let found = optimize(family(*size), &target, &mut |_| cancel.flow()).map_err(bad_use)?;
            points.push((*size as f64, found.loss.into()));
            bar.inc(1);
        }
        Ok(Series::new(name, points))
    };
    let few: Vec<usize> = ladder.iter().copied().filter(|bands| *bands <= MOST_INVERSE_BANDS).collect();
    let buffers: Vec<usize> = (1..=MOST_BUFFERS).collect();
    let all = vec![
        line("band-toeplitz", &ladder, &|bands| Family::BandToeplitz { bands })?,
        line("band-inverse", &few, &|bands| Family::BandInverse { bands })?,
        line("blt", &buffers, &|buffers| Family::Blt { buffers })?,
    ];
    let title = "Loss of the best strategies against bands or buffers";
    Ok(lines(title, Axis::log("bands or buffers"), Axis::linear("error × sensitivity"), all))
}
