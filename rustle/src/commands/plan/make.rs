//! The flags and the output that `plan optimize`, `plan suggest` and `plan from` share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::{Layout, Mechanism, Plan, PlanSpec};
use report::GridFacts;
use serde_json::{Value, json};
use strategy::{MechanismKind, Strategy, Workload};

use super::grid::GridArgs;
use crate::commands::setting::ParticipationArgs;
use crate::flag_of_field::{of_flag, of_planner};
use crate::out_file::{self, Access, OutFile};
use crate::output::{Answer, Format, bad_use};

/// Returns the parser of `--mechanism`.
pub fn mechanism_parser() -> impl TypedValueParser<Value = MechanismKind> {
    let kind = |name: String| MechanismKind::from_name(&name).ok_or("not the name of a mechanism");
    PossibleValuesParser::new(MechanismKind::NAMES).try_map(kind)
}

/// The parameters of a plan apart from its mechanism.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Number of rounds n
    #[arg(long, value_name = "N")]
    pub iterations: u64,
    #[command(flatten)]
    pub participation: ParticipationArgs,
    /// Clip norm ζ, in the gradient's units, above 0
    #[arg(long, value_name = "Z", default_value_t = 1.0)]
    pub clip_norm: f64,
    /// Rounds of the ChaCha stream cipher: 20 or 12
    #[arg(long, value_name = "R", default_value_t = 20)]
    pub chacha_rounds: u32,
    /// Number of coordinates, which the account of rows on a grid depends on [default: no layout, with --float]
    #[arg(long, value_name = "M")]
    pub dimension: Option<u64>,
    #[command(flatten)]
    pub grid: GridArgs,
    /// File to write the plan to; - for standard output, without the answer [default: part of the answer]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl RunArgs {
    /// Refuses what no plan has, whichever the mechanism, before a search that takes its time (bad use).
    pub fn check(&self, noise_multiplier: f64) -> anyhow::Result<()> {
        Plan::new(self.spec(Mechanism::Identity, noise_multiplier)?).map_err(of_flag)?;
        self.grid.choice(self.dimension).map(drop)
    }

    /// Returns the participation rule. Error: so many participations do not fit in the run (bad use).
    pub fn rule(&self) -> anyhow::Result<strategy::Participation> {
        let rule = self.participation.rule()?;
        rule.fits(self.iterations).map_err(bad_use)?;
        Ok(rule)
    }

    /// Returns the checked plan. Error: a field that is not allowed (bad use).
    pub fn plan(&self, mechanism: Mechanism, noise_multiplier: f64) -> anyhow::Result<Plan> {
        let spec = self.spec(mechanism, noise_multiplier)?;
        let grid = self.grid.choose(&spec)?;
        Plan::new(PlanSpec { grid, ..spec }).map_err(of_flag)
    }

    /// The plan's fields, of rows that are floating-point numbers.
    fn spec(&self, mechanism: Mechanism, noise_multiplier: f64) -> anyhow::Result<PlanSpec> {
        let layout = self.dimension.map(Layout::dimension_only).transpose().map_err(of_flag)?;
        let ParticipationArgs { min_sep, max_participations } = self.participation;
        Ok(PlanSpec {
            chacha_rounds: self.chacha_rounds,
            iterations: self.iterations,
            noise_multiplier,
            clip_norm: self.clip_norm,
            participation: plan::Participation { min_sep, max_participations },
            mechanism,
            layout,
            grid: None,
        })
    }

    /// Returns the checked plan whose account is that of a float plan with this σ, which was found for a promise: on a grid σ
    /// is raised by what the grid costs. Error: a field that is not allowed (bad use).
    pub fn plan_for_promise(&self, mechanism: Mechanism, noise_multiplier: f64) -> anyhow::Result<Plan> {
        let float = Plan::new(self.spec(mechanism, noise_multiplier)?).map_err(of_flag)?;
        match self.grid.choice(self.dimension)? {
            None => Ok(float),
            Some(choice) => {
                planner::on_grid(&float, choice.rounding, choice.summing_error).map_err(of_planner)
            }
        }
    }

    /// Opens `--out` before the search for what is to be written there. A plan is not secret.
    pub fn open_out(&self) -> anyhow::Result<Option<OutFile>> {
        let open = |path| {
            out_file::refuse_ending(path, "TOML", &["toml"])?;
            OutFile::open(path, Access::Everyone)
        };
        self.out.as_deref().map(open).transpose()
    }

    /// Returns whether the plan itself goes to standard output, which then holds nothing else.
    pub fn is_out_stdout(&self) -> bool {
        self.out.as_deref().is_some_and(out_file::is_stdout)
    }

    /// Writes the plan to `out`, which is `--out`. The answer names the file, or has the text where no file is given.
    pub fn deliver(&self, plan: &Plan, out: Option<OutFile>, answer: Answer) -> anyhow::Result<Answer> {
        let text = plan.to_toml_string()?;
        let answer = answer.with("plan_digest", hex::encode(plan.digest()));
        if !self.is_out_stdout() {
            self.grid.note_floats(plan);
        }
        let answer = match GridFacts::of(plan) {
            Some(grid) => answer.with("rows", "int32").with("grid", json!(grid)),
            None => answer.with("rows", "float32"),
        };
        let Some((out, path)) = out.zip(self.out.as_ref()) else { return Ok(answer.with("plan", text)) };
        out.write_and_finish(text.as_bytes())?;
        Ok(answer.with("out", path.display().to_string()))
    }

    /// Prints the answer, unless standard output holds the plan.
    pub fn print(&self, answer: &Answer, format: Format) -> anyhow::Result<()> {
        if self.is_out_stdout() { Ok(()) } else { answer.print(format) }
    }
}

/// Adds the mechanism's sensitivity, per unit clip norm, and its errors, in units of σζ.
pub fn with_losses(
    answer: Answer,
    strategy: &Strategy,
    run: &RunArgs,
    workload: &Workload,
) -> anyhow::Result<Answer> {
    let sensitivity = strategy.sensitivity(run.iterations, run.rule()?).map_err(bad_use)?;
    let errors = strategy.errors_on(run.iterations, workload).map_err(bad_use)?;
    Ok(answer
        .with("mechanism", strategy.name())
        .with("iterations", run.iterations)
        .with("min_sep", run.participation.min_sep)
        .with("max_participations", run.participation.max_participations)
        .with("sensitivity", sensitivity.value)
        .with("sensitivity_exact", sensitivity.exact)
        .with("rms_error", errors.rms)
        .with("max_error", errors.max)
        .with("last_error", errors.last)
        .with("rms_loss", errors.rms * sensitivity.value)
        .with("max_loss", errors.max * sensitivity.value)
        .with("last_loss", errors.last * sensitivity.value))
}

/// Adds the mechanism's parameters by their names in plan.toml. Those given by a count are written out too.
pub fn with_parameters(answer: Answer, mechanism: &Mechanism, strategy: &Strategy) -> anyhow::Result<Answer> {
    Ok(match mechanism {
        Mechanism::Identity => answer,
        Mechanism::Tree { restarts, completion } => {
            answer.with("restarts", restarts.clone()).with("completion", *completion)
        }
        Mechanism::Blt { theta, omega } => answer.with("theta", theta.clone()).with("omega", omega.clone()),
        Mechanism::BandToeplitz { coefficients, column_normalised } => {
            answer.with("coefficients", coefficients.clone()).with("column_normalised", *column_normalised)
        }
        Mechanism::BandMf { columns } => answer.with("columns", json!(columns)),
        Mechanism::BandSqrt { bands } => {
            answer.with("bands", *bands).with("coefficients", strategy.c_column(*bands).map_err(bad_use)?)
        }
        Mechanism::BandInverse { coefficients } => answer.with("coefficients", coefficients.clone()),
        Mechanism::BandInverseSqrt { bands } => answer
            .with("bands", *bands)
            .with("coefficients", strategy.c_inverse_column(*bands).map_err(bad_use)?),
        Mechanism::LambdaCgd { lambda } => {
            answer.with("lambda", *lambda).with("coefficients", Value::from(vec![1.0, -lambda]))
        }
        Mechanism::Dense { matrix } => answer.with("matrix", json!(matrix)),
        Mechanism::Scaled { base, column_scales, rounds_per_scale } => {
            with_parameters(answer, base, strategy)?
                .with("column_scales", column_scales.clone())
                .with("rounds_per_scale", *rounds_per_scale)
        }
    })
}
