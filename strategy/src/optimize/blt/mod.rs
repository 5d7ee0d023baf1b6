//! BLT parameters by the closed forms of sensitivity and error (McMahan, Xu, Zhang 2024) and their gradients.
//!
//! Buffers are added one at a time to the optimum with one fewer, at several places, so that more buffers are
//! never worse. Losses without a closed form start from the optimum of a problem that has one.

mod chain;
mod problem;
mod single;
mod starts;
#[cfg(test)]
mod tests;

use super::lbfgs::{Limits, Minimum, Watch, minimise};
use super::{ColumnCost, Descent, Optimized, ProgressFn, Target};
use crate::blt::Blt;
use crate::error::{Result, invalid, series_length};
use crate::strategy::Strategy;
use problem::Problem;

/// Most buffers that are searched for: beyond them f64 cannot tell the gain from rounding.
pub const MAX_OPTIMIZED_BUFFERS: usize = 12;

/// The effort of a search.
#[derive(Clone, Copy)]
struct Effort {
    /// A start's first steps, which tell the promising ones from the others.
    screen: Limits,
    /// Number of starts that are followed to the end.
    followed: usize,
    limits: Limits,
    /// Number of times a search starts again where it ended, which frees it from a stale model of the loss.
    restarts: usize,
}

/// The effort where an evaluation costs microseconds.
const CLOSED: Effort = Effort {
    screen: Limits { steps: 25, tolerance: 1e-7 },
    followed: 2,
    limits: Limits { steps: 1000, tolerance: 1e-10 },
    restarts: 5,
};
/// The effort where an evaluation costs O(n).
const COSTLY: Effort = Effort {
    screen: Limits { steps: 8, tolerance: 1e-5 },
    followed: 1,
    limits: Limits { steps: 150, tolerance: 1e-7 },
    restarts: 0,
};
/// The least relative gain for which one more buffer is worth its memory.
const WORTH: f64 = 1e-4;

/// When to stop adding buffers.
#[derive(Clone, Copy)]
enum StopRule {
    Buffers(usize),
    /// One more gains less than [`WORTH`], or there are this many.
    Enough(usize),
}

/// The best BLT with this many buffers.
pub(super) fn optimize(buffers: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    check_buffers("buffers", buffers)?;
    search(StopRule::Buffers(buffers), target, progress)
}

/// The best BLT with as few buffers as come within [`WORTH`] of what the next one gains.
pub(super) fn optimize_auto(
    most: usize,
    target: &Target,
    progress: &mut ProgressFn<'_>,
) -> Result<Optimized> {
    check_buffers("max_buffers", most)?;
    search(StopRule::Enough(most), target, progress)
}

fn check_buffers(what: &'static str, buffers: usize) -> Result<()> {
    if (1..=MAX_OPTIMIZED_BUFFERS).contains(&buffers) {
        return Ok(());
    }
    Err(invalid(what, buffers, format!("1 to {MAX_OPTIMIZED_BUFFERS}")))
}

fn search(until: StopRule, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    let mut problem = Problem::new(target)?;
    let mut watch = Watch::new(progress);
    let near = problem.nearby(target);
    let effort = if near.is_some() { COSTLY } else { CLOSED };
    let hints =
        near.map(|near| Ladder { problem: &near, effort: CLOSED, hints: &[] }.all(until.most(), &mut watch));
    let ladder = Ladder { problem: &problem, effort, hints: hints.as_deref().unwrap_or_default() };
    let mut best = ladder.climb_to(until, &mut watch);
    for power in problem.sharper() {
        problem.sharpen(*power);
        best = run(best.x, effort.limits, &problem, &mut watch);
    }
    let (phi, phi_hat) = chain::split(&chain::ordered(&best.x));
    let blt = single::representable(Blt::from_interlaced(&phi, &phi_hat)?, target)?;
    let strategy = Strategy::Blt(blt);
    Optimized::evaluate(strategy, target, watch.search(best.converged))
}

/// Searches on from a BLT with another cost in place of the sensitivity; see [`super::descend`].
pub(super) fn descend(
    start: &Blt,
    target: &Target,
    descent: Descent,
    cost: &mut ColumnCost<'_>,
) -> Result<Blt> {
    series_length(target.iterations)?;
    let problem = Problem::new(target)?;
    let x = chain::free(&start.interlaced());
    let found = descent.minimise(x, |x, gradient| problem.ln_loss_against(x, gradient, cost));
    let (phi, phi_hat) = chain::split(&chain::ordered(&found));
    Blt::from_interlaced(&phi, &phi_hat)
}

impl StopRule {
    fn most(self) -> usize {
        match self {
            Self::Buffers(most) | Self::Enough(most) => most,
        }
    }
}

/// Optima with 1, 2, … buffers, each from the one before.
struct Ladder<'a> {
    problem: &'a Problem<'a>,
    effort: Effort,
    /// The optima of a problem nearby, as starts.
    hints: &'a [Minimum],
}

impl Ladder<'_> {
    fn climb_to(&self, until: StopRule, watch: &mut Watch<'_, '_>) -> Minimum {
        let mut best = self.first(watch);
        for buffers in 2..=until.most() {
            if watch.stopped {
                break;
            }
            let next = self.next(buffers, &best, watch);
            if matches!(until, StopRule::Enough(_)) && best.value - next.value < WORTH {
                break;
            }
            best = next;
        }
        best
    }

    /// The optima of every number of buffers up to `most`.
    fn all(&self, most: usize, watch: &mut Watch<'_, '_>) -> Vec<Minimum> {
        let mut rungs = vec![self.first(watch)];
        while rungs.len() < most && !watch.stopped {
            let next = self.next(rungs.len() + 1, &rungs[rungs.len() - 1], watch);
            rungs.push(next);
        }
        rungs
    }

    fn first(&self, watch: &mut Watch<'_, '_>) -> Minimum {
        self.best_of(1, starts::one_buffer(self.problem.iterations()), watch)
    }

    fn next(&self, buffers: usize, last: &Minimum, watch: &mut Watch<'_, '_>) -> Minimum {
        let ordered = chain::ordered(&last.x);
        let next = self.best_of(buffers, starts::grown(&ordered), watch);
        if next.value <= last.value {
            return next;
        }
        // Not even a start may be worse: a buffer whose φ̂ and φ agree changes nothing.
        self.settle(self.run(starts::with_idle(&ordered), self.effort.limits, watch), watch)
    }

    /// Follows the most promising of the starts to the end.
    fn best_of(&self, buffers: usize, mut starts: Vec<Vec<f64>>, watch: &mut Watch<'_, '_>) -> Minimum {
        starts.extend(self.hints.get(buffers - 1).map(|hint| hint.x.clone()));
        let mut tried: Vec<Minimum> =
            starts.into_iter().map(|x| self.run(x, self.effort.screen, watch)).collect();
        tried.sort_by(|a, b| a.value.total_cmp(&b.value));
        tried.truncate(self.effort.followed);
        let ends = tried.into_iter().map(|found| self.run(found.x, self.effort.limits, watch));
        let best = ends.min_by(|a, b| a.value.total_cmp(&b.value));
        // There is always a start: one_buffer returns some, and the hint or a gap of any set of buffers has
        // room.
        self.settle(best.unwrap_or(Minimum { x: Vec::new(), value: f64::INFINITY, converged: false }), watch)
    }

    /// Searches on until a fresh search gains nothing.
    fn settle(&self, mut best: Minimum, watch: &mut Watch<'_, '_>) -> Minimum {
        for _ in 0..self.effort.restarts {
            let before = best.value;
            best = self.run(best.x, self.effort.limits, watch);
            if before - best.value <= self.effort.limits.tolerance {
                break;
            }
        }
        best
    }

    fn run(&self, x: Vec<f64>, limits: Limits, watch: &mut Watch<'_, '_>) -> Minimum {
        run(x, limits, self.problem, watch)
    }
}

fn run(x: Vec<f64>, limits: Limits, problem: &Problem<'_>, watch: &mut Watch<'_, '_>) -> Minimum {
    minimise(x, limits, watch, |x, gradient| problem.ln_loss(x, gradient))
}
