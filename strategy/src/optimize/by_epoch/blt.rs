//! BLTs and scales of their columns, from the optimum without scales.
//!
//! The unknowns are ln φ = ln(1−θ) and ln ω of each buffer, and the ratios of the scales. BLTs with Σω > 1, whose column
//! rises, are left out. b and its adjoint follow the buffers from round to round, O(n·d).

use super::choice::better;
use super::problem::Problem;
use crate::blt::Blt;
use crate::error::Result;
use crate::optimize::lbfgs::{Limits, Watch, minimise};
use crate::optimize::{Optimized, ProgressFn, Target};
use crate::scaled::{Base, Scaled};
use crate::series::prefix_sums;
use crate::strategy::Strategy;

const LIMITS: Limits = Limits { steps: 500, tolerance: 1e-8 };

/// Optimizes a BLT of so many buffers with a scale for each participation.
pub(in crate::optimize) fn optimize(
    buffers: usize,
    target: &Target,
    progress: &mut ProgressFn<'_>,
) -> Result<Optimized> {
    scale(target, progress, |progress| crate::optimize::blt::optimize(buffers, target, progress))
}

/// The same with as many buffers as the search without scales takes.
pub(in crate::optimize) fn optimize_auto(
    most: usize,
    target: &Target,
    progress: &mut ProgressFn<'_>,
) -> Result<Optimized> {
    scale(target, progress, |progress| crate::optimize::blt::optimize_auto(most, target, progress))
}

fn scale(
    target: &Target,
    progress: &mut ProgressFn<'_>,
    unscaled: impl FnOnce(&mut ProgressFn<'_>) -> Result<Optimized>,
) -> Result<Optimized> {
    let Some(problem) = Problem::new("blt", target)? else { return unscaled(progress) };
    let start = unscaled(progress)?;
    let Strategy::Blt(blt) = &start.strategy else { return Ok(start) };
    if start.stopped {
        return Ok(start);
    }
    let buffers = blt.buffers();
    let mut x: Vec<f64> = blt.theta().iter().map(|theta| (1.0 - theta).ln()).collect();
    x.extend(blt.omega().iter().map(|omega| omega.ln()));
    x.extend(problem.start());
    let mut watch = Watch::new(progress);
    watch.steps = start.iterations;
    let limits = Limits { tolerance: LIMITS.tolerance.max(target.least_gain), ..LIMITS };
    let found = minimise(x, limits, &mut watch, |x, gradient| ln_loss(&problem, buffers, x, gradient));
    let (parameters, ratios) = found.x.split_at(2 * buffers);
    let Some(blt) = at(parameters) else { return Ok(start) };
    let scaled = Scaled::new(Base::Blt(blt), problem.scales(ratios)?)?;
    let search = watch.search(found.converged && start.converged);
    Ok(better(start, Optimized::evaluate(Strategy::Scaled(scaled), target, search)?))
}

/// The BLT of the unknowns; `None` where it is none, or its column rises.
fn at(parameters: &[f64]) -> Option<Blt> {
    let (phi, omega) = parameters.split_at(parameters.len() / 2);
    let theta = phi.iter().map(|x| 1.0 - x.exp()).collect();
    Blt::new(theta, omega.iter().map(|x| x.exp()).collect()).ok().filter(Blt::is_monotone)
}

fn ln_loss(problem: &Problem, buffers: usize, x: &[f64], gradient: &mut [f64]) -> f64 {
    let (parameters, ratios) = x.split_at(2 * buffers);
    let Some(blt) = at(parameters) else { return f64::INFINITY };
    let inverse = Inverse::of(&blt, problem.n);
    let c = blt.coefficients(problem.n);
    let loss = problem.ln_loss(&c, &prefix_sums(&inverse.column), ratios);
    let mut by_theta = vec![0.0; buffers];
    let mut by_omega = vec![0.0; buffers];
    // c_i = Σ_j ω_j·θ_j^{i−1}.
    for (j, (theta, omega)) in blt.theta().iter().zip(blt.omega()).enumerate() {
        let mut power = 1.0;
        let mut slope = 0.0;
        for by in &loss.by_c[1..] {
            by_omega[j] += by * power;
            by_theta[j] += by * omega * slope;
            slope = slope * theta + power;
            power *= theta;
        }
    }
    inverse.adjoint(&blt, &loss.by_b, &mut by_theta, &mut by_omega);
    for j in 0..buffers {
        gradient[j] = -(1.0 - blt.theta()[j]) * by_theta[j];
        gradient[buffers + j] = blt.omega()[j] * by_omega[j];
    }
    gradient[2 * buffers..].copy_from_slice(&loss.by_ratios);
    loss.value
}

/// The column of a BLT's inverse with the buffers before each round.
struct Inverse {
    column: Vec<f64>,
    buffers: Vec<f64>,
}

impl Inverse {
    /// x_t = \[t = 0\] − Σ_j ω_j·S_j, then S_j ← θ_j·S_j + x_t.
    fn of(blt: &Blt, n: usize) -> Self {
        let d = blt.buffers();
        let mut column = Vec::with_capacity(n);
        let mut buffers = Vec::with_capacity(n * d);
        let mut state = vec![0.0; d];
        for t in 0..n {
            buffers.extend_from_slice(&state);
            let taken: f64 = state.iter().zip(blt.omega()).map(|(s, omega)| s * omega).sum();
            let x = if t == 0 { 1.0 } else { -taken };
            state.iter_mut().zip(blt.theta()).for_each(|(s, theta)| *s = theta * *s + x);
            column.push(x);
        }
        Self { column, buffers }
    }

    /// Adds the derivatives by θ and ω to those given, from those by the running sums of the column.
    fn adjoint(&self, blt: &Blt, by_b: &[f64], by_theta: &mut [f64], by_omega: &mut [f64]) {
        let d = blt.buffers();
        let mut by_state = vec![0.0; d];
        let mut later = 0.0;
        for (t, before) in self.buffers.chunks_exact(d).enumerate().rev() {
            later += by_b[t];
            let by_x = later + by_state.iter().sum::<f64>();
            for j in 0..d {
                by_theta[j] += by_state[j] * before[j];
                by_state[j] *= blt.theta()[j];
                // The first round's x does not depend on the buffers, which are empty.
                if t > 0 {
                    by_omega[j] -= by_x * before[j];
                    by_state[j] -= by_x * blt.omega()[j];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::Objective;
    use crate::participation::Participation;

    #[test]
    fn gradients_are_central_differences_and_values_the_strategies() {
        let target = Target::new(40, Participation::new(9, 4).unwrap(), Objective::Rms);
        let problem = Problem::new("blt", &target).unwrap().unwrap();
        let x = [-3.0, -0.7, -2.5, -1.5, 2.0, 3.0, 1.0];
        let mut gradient = [0.0; 7];
        let value = ln_loss(&problem, 2, &x, &mut gradient);
        let scaled = Scaled::new(Base::Blt(at(&x[..4]).unwrap()), problem.scales(&x[4..]).unwrap()).unwrap();
        let known = target.loss(&Strategy::Scaled(scaled)).unwrap();
        assert!((value.exp() / known - 1.0).abs() < 1e-11, "{} {known}", value.exp());
        for (i, gradient) in gradient.iter().enumerate() {
            let at = |by: f64| {
                let mut moved = x;
                moved[i] += by;
                ln_loss(&problem, 2, &moved, &mut [0.0; 7])
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((gradient - expected).abs() < 1e-8, "{i}: {gradient} {expected}");
        }
    }
}
