//! The flags of the workload and the loss: `--workload`, `--learning-rates`, `--loss` and their like.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use ndarray::Array2;
use strategy::workload::{LearningRates, Momentum};
use strategy::{Objective, Workload};

use crate::output::bad_use;

/// The workload A and the loss.
#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// Workload: prefix, momentum:BETA, toeplitz:W0,W1,… or matrix:FILE
    #[arg(long, value_name = "WORKLOAD", default_value = "prefix")]
    workload: Kind,
    /// Weight decay of momentum per round, in [0, 1) [default: 0]
    #[arg(long, value_name = "L")]
    weight_decay: Option<f64>,
    /// Learning rates of momentum: constant, cool-down:FROM:LAST or file:FILE [default: constant]
    #[arg(long, value_name = "RATES")]
    learning_rates: Option<Rates>,
    /// Error to minimize, times sensitivity
    #[arg(long, value_enum, default_value_t = Loss::Rms, conflicts_with = "row_weights")]
    loss: Loss,
    /// File of n weights, one for each row's squared error; replaces --loss
    #[arg(long, value_name = "FILE")]
    row_weights: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loss {
    /// Root mean square over all rows
    Rms,
    /// Largest of all rows
    Max,
    /// Last row
    Last,
}

#[derive(Clone, Debug)]
enum Kind {
    Prefix,
    Momentum(f64),
    Toeplitz(Vec<f64>),
    Matrix(PathBuf),
}

#[derive(Clone, Debug)]
enum Rates {
    Constant,
    CoolDown { from: u64, last: f64 },
    File(PathBuf),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("{text:?} is not a number"));
        match text.split_once(':') {
            None if text == "prefix" => Ok(Self::Prefix),
            Some(("momentum", beta)) => number(beta).map(Self::Momentum),
            Some(("toeplitz", column)) => {
                column.split(',').map(number).collect::<Result<_, _>>().map(Self::Toeplitz)
            }
            Some(("matrix", path)) => Ok(Self::Matrix(path.into())),
            _ => Err("allowed: prefix, momentum:BETA, toeplitz:W0,W1,…, matrix:FILE".into()),
        }
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ALLOWED: &str = "allowed: constant, cool-down:FROM:LAST, file:FILE";
        match text.split_once(':') {
            None if text == "constant" => Ok(Self::Constant),
            Some(("cool-down", rest)) => {
                let (from, last) = rest.split_once(':').ok_or(ALLOWED)?;
                let from = from.parse().map_err(|_| format!("{from:?} is not a round; {ALLOWED}"))?;
                let last = last.parse().map_err(|_| format!("{last:?} is not a rate; {ALLOWED}"))?;
                Ok(Self::CoolDown { from, last })
            }
            Some(("file", path)) => Ok(Self::File(path.into())),
            _ => Err(ALLOWED.into()),
        }
    }
}

impl ReleaseArgs {
    /// Returns the workload for `n` rounds. Error: bad use.
    pub fn workload(&self, n: u64) -> anyhow::Result<Workload> {
        let workload = match &self.workload {
            Kind::Momentum(momentum) => Workload::Momentum(Momentum {
                momentum: *momentum,
                weight_decay: self.weight_decay.unwrap_or(0.0),
                learning_rates: self.rates(n)?,
            }),
            _ if self.weight_decay.is_some() || self.learning_rates.is_some() => {
                return Err(bad_use(
                    "--weight-decay or --learning-rates is given; allowed: with --workload momentum:BETA",
                ));
            }
            Kind::Prefix => Workload::Prefix,
            Kind::Toeplitz(column) => Workload::Toeplitz(column.clone().into()),
            Kind::Matrix(path) => Workload::Dense(Arc::new(matrix(path)?)),
        };
        workload.check(n).map_err(bad_use)?;
        Ok(workload)
    }

    fn rates(&self, n: u64) -> anyhow::Result<LearningRates> {
        Ok(match &self.learning_rates {
            None | Some(Rates::Constant) => LearningRates::Constant,
            Some(Rates::CoolDown { from, last }) => {
                LearningRates::CoolDown { from: *from, last: *last, iterations: n }
            }
            Some(Rates::File(path)) => LearningRates::Each(numbers(path)?.concat().into()),
        })
    }

    /// Returns the objective for `n` rounds. Error: bad use.
    pub fn objective(&self, n: u64) -> anyhow::Result<Objective> {
        let objective = match (&self.row_weights, self.loss) {
            (Some(path), _) => Objective::Weighted(numbers(path)?.concat().into()),
            (None, Loss::Rms) => Objective::Rms,
            (None, Loss::Max) => Objective::Max,
            (None, Loss::Last) => Objective::Last,
        };
        objective.check(n).map_err(bad_use)?;
        Ok(objective)
    }
}

/// Reads the rows of a text file. Blanks or commas separate numbers; lines that start with # are comments.
fn numbers(path: &Path) -> anyhow::Result<Vec<Vec<f64>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
    let row = |(at, line): (usize, &str)| {
        let words = line.split([' ', ',', '\t']).filter(|word| !word.is_empty());
        let number = |word: &str| {
            let place =
                || bad_use(format!("{word:?} in line {} of {} is not a number", at + 1, path.display()));
            word.parse::<f64>().map_err(|_| place())
        };
        words.map(number).collect::<anyhow::Result<Vec<f64>>>()
    };
    let rows: Vec<Vec<f64>> = lines.map(row).collect::<anyhow::Result<_>>()?;
    Ok(rows.into_iter().filter(|row| !row.is_empty()).collect())
}

/// Reads a lower triangular matrix, one row per line. Numbers above the diagonal may be omitted.
fn matrix(path: &Path) -> anyhow::Result<Array2<f64>> {
    let rows = numbers(path)?;
    let n = rows.len();
    if let Some(long) = rows.iter().find(|row| row.len() > n) {
        return Err(bad_use(format!(
            "a row of {} has {} numbers; allowed: up to {n}",
            path.display(),
            long.len()
        )));
    }
    Ok(Array2::from_shape_fn((n, n), |(i, j)| rows[i].get(j).copied().unwrap_or(0.0)))
}
