//! Flags for what is released and which rows' error counts: `--workload`, `--learning-rates`, `--loss`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use ndarray::Array2;
use strategy::workload::{LearningRates, Momentum};
use strategy::{Objective, Workload};

use crate::output::bad_use;

/// What is released, and which rows' error counts.
#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// Workload to release: prefix, momentum:BETA, toeplitz:W0,W1,… or matrix:FILE
    #[arg(long, value_name = "W", default_value = "prefix")]
    workload: Kind,
    /// With momentum: weight decay, the fraction of the model removed in each round, at least 0 and below 1
    #[arg(long, value_name = "L")]
    weight_decay: Option<f64>,
    /// With momentum: constant, cool-down:FROM:LAST (1 until round FROM, then down to LAST) or file:FILE
    #[arg(long, value_name = "R")]
    learning_rates: Option<Rates>,
    /// The loss to minimize
    #[arg(long, value_enum, default_value_t = Loss::Rms, conflicts_with = "row_weights")]
    loss: Loss,
    /// File with n numbers, the weight of each row's squared error; replaces --loss
    #[arg(long, value_name = "FILE")]
    row_weights: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loss {
    Rms,
    Max,
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
    /// The workload for `n` rounds. Error: bad use, naming the value and what is allowed.
    pub fn workload(&self, n: u64) -> anyhow::Result<Workload> {
        let workload = match &self.workload {
            Kind::Momentum(momentum) => Workload::Momentum(Momentum {
                momentum: *momentum,
                weight_decay: self.weight_decay.unwrap_or(0.0),
                learning_rates: self.rates(n)?,
            }),
            _ if self.weight_decay.is_some() || self.learning_rates.is_some() => {
                return Err(bad_use(
                    "--weight-decay and --learning-rates belong to --workload momentum:BETA",
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

    /// Which rows' error counts, for `n` rounds. Error: bad use, naming the value and what is allowed.
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

/// The rows of a text file, numbers apart by blanks or commas; lines that start with # are left out.
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

/// A lower triangular matrix, a row a line; what lies above the diagonal may be left away.
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
