//! dp-accounting and TensorFlow Privacy's tree accounts, in one Python process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::grid::Setting;
use crate::peers::environment::Environment;
use crate::peers::python::Python;

/// Longest answer to anything but a tree.
const LIMIT: Duration = Duration::from_secs(600);

const RUNNER: &str = include_str!("../../peers/accounting.py");
const TREES: &str = "tensorflow_privacy/privacy/analysis/tree_aggregation_accountant.py";

pub struct Library {
    python: Python,
    /// TensorFlow Privacy's file of tree accounts.
    trees: String,
    /// Of a tree.
    limit: Duration,
}

/// One answer.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Answer {
    /// ε, or ρ of a tree.
    pub figure: f64,
    pub seconds: f64,
}

impl Library {
    /// Error: no Python, or a library that can't be installed.
    pub fn prepare(folder: Option<PathBuf>, python: &Path, limit: f64) -> anyhow::Result<Self> {
        let environment = Environment::prepare(folder, python)?;
        environment.install_package("dp-accounting", &[])?;
        // One file of it needs no TensorFlow, whatever version of Python the package is for.
        let apart = environment.folder().join("tensorflow-privacy");
        let target = apart.to_str().context("the environment's folder is no plain name")?.to_owned();
        environment.install_package(
            "tensorflow-privacy",
            &["--no-deps", "--ignore-requires-python", "--upgrade", "--target", &target],
        )?;
        let python = Python::new(&environment, "accounting.py", RUNNER, Box::new(|| {}))?;
        let trees = format!("{target}/{TREES}");
        Ok(Self { python, trees, limit: Duration::from_secs_f64(limit) })
    }

    /// Error: also where it is cut off.
    pub fn ask(&mut self, setting: &Setting) -> anyhow::Result<Answer> {
        let request = setting.request(&self.trees)?;
        let limit = if setting.is_tree() { self.limit } else { LIMIT };
        Ok(Answer::deserialize(self.python.ask(&request, limit)?)?)
    }
}
