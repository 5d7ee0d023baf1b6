//! Mechanisms by name, with coefficients that serve for timing: `blt-4`, `band-toeplitz-32`, `tree`, …

use std::str::FromStr;

use plan::{Mechanism, Participation, Plan, PlanSpec};
use strategy::series;

/// Rows of a case whose name does not say: so many that no measurement comes to their end.
const ITERATIONS: u64 = 1 << 24;

/// Rows of a tree: its state has a level for each bit.
const LEAVES: u64 = 4096;

/// A mechanism to measure.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub mechanism: Mechanism,
    /// n.
    pub iterations: u64,
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (family, size) = match name.rsplit_once('-') {
            Some((family, size)) if size.bytes().all(|letter| letter.is_ascii_digit()) => {
                (family, size.parse::<u64>().map_err(|_| unknown(name))?)
            }
            _ => (name, 0),
        };
        let mut iterations = ITERATIONS;
        let mechanism = match (family, size) {
            ("identity", 0) => Mechanism::Identity,
            ("tree", 0) => {
                iterations = LEAVES;
                Mechanism::Tree { restarts: vec![], completion: false }
            }
            ("lambda-cgd", 0) => Mechanism::LambdaCgd { lambda: 0.9 },
            ("blt", 1..=8) => blt(size as usize),
            ("band-toeplitz", 1..=2048) => {
                let coefficients = series::band_sqrt(size as usize);
                Mechanism::BandToeplitz { coefficients, column_normalised: false }
            }
            ("band-inverse", 1..=2048) => {
                Mechanism::BandInverse { coefficients: series::band_inverse_sqrt(size as usize) }
            }
            ("dense", 2..=2048) => {
                iterations = size;
                dense(size as usize)
            }
            _ => return Err(unknown(name)),
        };
        Ok(Self { name: name.to_owned(), mechanism, iterations })
    }
}

impl Case {
    /// The cases of `names`, which are known, with spaces between them.
    pub fn list(names: &str) -> anyhow::Result<Vec<Self>> {
        names.split_whitespace().map(|name| name.parse().map_err(anyhow::Error::msg)).collect()
    }

    /// The same mechanism with n = `iterations`.
    pub fn with_iterations(self, iterations: u64) -> Self {
        Self { iterations, ..self }
    }

    /// Where measuring starts: past the rows that have little to look back at. A dense matrix is taken whole.
    pub fn first_row(&self) -> u64 {
        if self.is_dense() { 0 } else { self.iterations / 2 }
    }

    pub fn is_dense(&self) -> bool {
        matches!(self.mechanism, Mechanism::Dense { .. })
    }

    /// p of a banded C or C⁻¹; 1 of anything else.
    pub fn bands(&self) -> usize {
        match &self.mechanism {
            Mechanism::BandToeplitz { coefficients, .. } | Mechanism::BandInverse { coefficients } => {
                coefficients.len()
            }
            _ => 1,
        }
    }

    /// Rows after which costs repeat, to within a sixteenth: measurements take whole periods.
    pub fn period(&self) -> u64 {
        match self.mechanism {
            Mechanism::Dense { .. } => self.iterations,
            Mechanism::Tree { .. } => 16.min(self.iterations),
            _ => 1,
        }
    }

    /// Rows to make before measuring: where normals are kept, as many as are looked back at.
    pub fn warm_up_rows(&self) -> u64 {
        match &self.mechanism {
            Mechanism::BandInverse { coefficients } => coefficients.len() as u64,
            Mechanism::LambdaCgd { .. } => 2,
            _ => 1,
        }
    }

    /// The plan of a job that runs this case.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        plan(self.mechanism.clone(), self.iterations, 1)
    }
}

/// A plan of this mechanism: σ = 1, clip norm 1, one participation.
pub fn plan(mechanism: Mechanism, iterations: u64, min_sep: u64) -> anyhow::Result<Plan> {
    Ok(Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep, max_participations: 1 },
        mechanism,
        layout: None,
        grid: None,
    })?)
}

/// Decays that come ever closer to 1 and weights small enough for a bounded inverse.
fn blt(buffers: usize) -> Mechanism {
    let theta = (0..buffers as i32).map(|j| 1.0 - 0.5 * 5f64.powi(-j)).collect();
    let omega = (0..buffers as i32).map(|j| 0.25 * 0.6f64.powi(j)).collect();
    Mechanism::Blt { theta, omega }
}

/// The square root of the prefix sums, all of its bands.
fn dense(n: usize) -> Mechanism {
    let column = series::band_sqrt(n);
    let matrix = (0..n).map(|t| (0..=t).map(|j| column[t - j]).collect()).collect();
    Mechanism::Dense { matrix }
}

fn unknown(name: &str) -> String {
    format!(
        "no case \"{name}\"; allowed: identity, tree, lambda-cgd, blt-1 to blt-8, and with 1 to 2048 bands \
         band-toeplitz-p and band-inverse-p, dense-n with n from 2 to 2048"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_a_plan() {
        let names =
            "identity tree lambda-cgd blt-1 blt-8 band-toeplitz-1 band-toeplitz-400 band-inverse-8 dense-16";
        for case in Case::list(names).unwrap() {
            let plan = case.plan().unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(plan.iterations(), case.iterations);
        }
    }

    #[test]
    fn unknown_names_are_refused_by_name() {
        for name in
            ["", "blt", "blt-0", "blt-9", "dense-1", "band-toeplitz-", "identity-3", "x-99999999999999999999"]
        {
            let error = name.parse::<Case>().unwrap_err();
            assert!(error.contains(&format!("no case \"{name}\"; allowed:")), "{error}");
        }
    }
}
