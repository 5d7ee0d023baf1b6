//! The flags and the output that `plan optimize`, `plan suggest` and `plan from` share.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::{Layout, Mechanism, Plan, PlanSpec};
use serde_json::{Value, json};
use strategy::{MechanismKind, Strategy, Workload};
use tempfile::NamedTempFile;

use crate::commands::setting::ParticipationArgs;
use crate::output::{Answer, bad_use};

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
    /// Number of coordinates, for the plan's layout [default: no layout]
    #[arg(long, value_name = "M")]
    pub dimension: Option<u64>,
    /// File to write the plan to [default: part of the answer]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl RunArgs {
    /// Returns the participation rule. Error: so many participations do not fit in the run (bad use).
    pub fn rule(&self) -> anyhow::Result<strategy::Participation> {
        let rule = self.participation.rule()?;
        rule.fits(self.iterations).map_err(bad_use)?;
        Ok(rule)
    }

    /// Returns the checked plan. Error: a field that is not allowed (bad use).
    pub fn plan(&self, mechanism: Mechanism, noise_multiplier: f64) -> anyhow::Result<Plan> {
        let layout = self.dimension.map(Layout::dimension_only).transpose().map_err(bad_use)?;
        let ParticipationArgs { min_sep, max_participations } = self.participation;
        Plan::new(PlanSpec {
            chacha_rounds: self.chacha_rounds,
            iterations: self.iterations,
            noise_multiplier,
            clip_norm: self.clip_norm,
            participation: plan::Participation { min_sep, max_participations },
            mechanism,
            layout,
        })
        .map_err(bad_use)
    }

    /// Writes the plan to `--out`. The answer names the file, or has the text where no file is given.
    pub fn deliver(&self, plan: &Plan, answer: Answer) -> anyhow::Result<Answer> {
        let text = plan.to_toml_string()?;
        let answer = answer.with("plan_digest", hex::encode(plan.digest()));
        Ok(match &self.out {
            Some(path) => {
                write_whole(path, text.as_bytes()).with_context(|| format!("write {}", path.display()))?;
                answer.with("out", path.display().to_string())
            }
            None => answer.with("plan", text),
        })
    }
}

/// Writes a file that appears once it is complete, mode 0644: a plan is not secret.
fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
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
    })
}
