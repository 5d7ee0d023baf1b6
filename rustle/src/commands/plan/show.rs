//! `rustle plan show`: what a plan says and what follows from it, whatever the sampling.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use plan::grid::{GridBandRows, GridCoefficients, GridInverse};
use plan::{BandRows, Coefficients, Inverse, Layout, Plan, STREAM_VERSION};
use report::GridFacts;
use serde_json::json;

use crate::commands::plan_file;
use crate::output::{Answer, Format, bad_use};

#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// File of the plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
}

pub fn run(args: &ShowArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = plan_file::read(&args.plan)?;
    let sensitivity = plan.accounted_sensitivity().map_err(bad_use)?;
    let rule = plan.participation();
    Answer::new()
        .with("plan", args.plan.display().to_string())
        .with("plan_digest", hex::encode(plan.digest()))
        .with("mechanism", plan.mechanism().name())
        .with("iterations", plan.iterations())
        .with("min_sep", rule.min_sep)
        .with("max_participations", rule.max_participations)
        .with("noise_multiplier", plan.noise_multiplier())
        .with("clip_norm", plan.clip_norm())
        .with("dimension", plan.layout().map(Layout::dimension))
        .with("layout_digest", plan.layout().map(|layout| hex::encode(layout.digest())))
        .with("chacha_rounds", plan.chacha_rounds())
        .with("stream_version", STREAM_VERSION)
        .with("sensitivity", sensitivity.value)
        .with("sensitivity_exact", sensitivity.exact)
        .with("coefficients", coefficients(&plan)?)
        .with("state_bytes_per_parameter", 4 * plan.state_slots())
        .with("rows", if plan.on_grid().is_some() { "int32" } else { "float32" })
        .with("grid", json!(GridFacts::of(&plan)))
        .print(format)?;
    Ok(ExitCode::SUCCESS)
}

/// The number of coefficients that rows are made with.
fn coefficients(plan: &Plan) -> anyhow::Result<usize> {
    let Some(on_grid) = plan.on_grid() else {
        return Ok(match plan.coefficients()? {
            Coefficients::Identity | Coefficients::Tree(_) => 0,
            Coefficients::Blt { theta, omega, output_scale } => {
                theta.len() + omega.len() + output_scale.len()
            }
            Coefficients::Banded(banded) => match banded.rows {
                BandRows::Toeplitz { lags, .. } => lags.len() + 1,
                BandRows::PerRow { lags, inverse_diagonal } => lags.len() + inverse_diagonal.len(),
            },
            Coefficients::Inverse(Inverse::Toeplitz { coefficients }) => coefficients.len(),
            Coefficients::Inverse(Inverse::Dense { rows }) => rows.len(),
        });
    };
    Ok(match on_grid.coefficients() {
        GridCoefficients::Identity { .. } | GridCoefficients::Tree { .. } => 0,
        GridCoefficients::Blt { theta, omega, .. } => theta.len() + omega.len(),
        GridCoefficients::Banded(banded) => match &banded.rows {
            GridBandRows::Toeplitz { lags, .. } => lags.len() + 1,
            GridBandRows::PerRow { lags, scales } => lags.len() + scales.len(),
        },
        GridCoefficients::Inverse { rows: GridInverse::Toeplitz { coefficients }, .. } => coefficients.len(),
        GridCoefficients::Inverse { rows: GridInverse::Dense { rows }, .. } => rows.len(),
    })
}
