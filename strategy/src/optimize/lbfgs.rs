//! Limited-memory BFGS with a weak-Wolfe bisection line search (Lewis and Overton), which also copes with
//! the kinks of a majorant. Deterministic; all objectives are ln(loss), so tolerances are relative.

use std::collections::VecDeque;

use super::progress::{Progress, ProgressFn};
use crate::numeric::{add, dot};

/// Steps remembered by the quasi-Newton direction.
const MEMORY: usize = 20;
/// Armijo and curvature constants of the line search.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Most trial points in one line search.
const TRIALS: usize = 40;
/// The search ends when this many steps together gained less than the tolerance.
const STALL_STEPS: usize = 10;

/// Counts steps over several searches and stops them when the caller's callback does.
pub(super) struct Watch<'a, 'b> {
    pub progress: &'a mut ProgressFn<'b>,
    pub steps: usize,
    pub stopped: bool,
}

/// The course of an optimization.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    /// Steps over all starts.
    pub steps: usize,
    /// The caller ended it.
    pub stopped: bool,
    /// True where the search whose result is kept settled before its steps ran out.
    pub converged: bool,
}

impl<'a, 'b> Watch<'a, 'b> {
    pub fn new(progress: &'a mut ProgressFn<'b>) -> Self {
        Self { progress, steps: 0, stopped: false }
    }

    /// Returns the course of the optimization; `converged` is that of the search whose result is kept.
    pub fn search(&self, converged: bool) -> Search {
        Search { steps: self.steps, stopped: self.stopped, converged }
    }

    /// Reports one step at ln(loss); false when the caller ends the optimization.
    pub fn step(&mut self, ln_loss: f64, gradient_norm: f64) -> bool {
        self.steps += 1;
        let progress = Progress { iteration: self.steps, loss: ln_loss.exp(), gradient_norm };
        self.stopped |= (self.progress)(progress).is_break();
        !self.stopped
    }
}

/// The limits of a search.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub steps: usize,
    /// Least gain of ln(loss) over [`STALL_STEPS`] steps.
    pub tolerance: f64,
}

/// The point at which a search ended.
pub(super) struct Minimum {
    pub x: Vec<f64>,
    pub value: f64,
    /// False when the steps ran out first.
    pub converged: bool,
}

/// A point with its value and gradient.
struct Point {
    x: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// A step, the change of the gradient over it, and the product of both, above zero.
struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    curvature: f64,
}

/// Minimises `evaluate(x, gradient) -> value` from `start`. Values that are not finite count as too high.
pub(super) fn minimise(
    start: Vec<f64>,
    limits: Limits,
    watch: &mut Watch<'_, '_>,
    mut evaluate: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Minimum {
    let mut at = point(start, &mut evaluate);
    let mut pairs: VecDeque<Pair> = VecDeque::new();
    let mut values = vec![at.value];
    let mut converged = false;
    for _ in 0..limits.steps {
        let norm = dot(&at.gradient, &at.gradient).sqrt();
        if watch.stopped || norm < 1e-12 || !at.value.is_finite() {
            converged = at.value.is_finite();
            break;
        }
        let direction = direction(&at.gradient, &pairs);
        let next = match search(&at, &direction, first_step(&pairs, norm), &mut evaluate) {
            Some(next) => next,
            // A stale model may point nowhere: try once more down the gradient before giving up.
            None if !pairs.is_empty() => {
                pairs.clear();
                continue;
            }
            // No descent in any direction that f64 can tell: this is the bottom.
            None => {
                converged = true;
                break;
            }
        };
        remember(&mut pairs, &at, &next);
        at = next;
        values.push(at.value);
        let long_ago = values.len().checked_sub(STALL_STEPS + 1).map_or(f64::INFINITY, |i| values[i]);
        converged = long_ago - at.value < limits.tolerance;
        if !watch.step(at.value, dot(&at.gradient, &at.gradient).sqrt()) || converged {
            break;
        }
    }
    Minimum { x: at.x, value: at.value, converged }
}

/// The same with every number of x in a unit of its own, in which all have a like curvature.
pub(super) fn minimise_in(
    units: &[f64],
    start: Vec<f64>,
    limits: Limits,
    watch: &mut Watch<'_, '_>,
    mut evaluate: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Minimum {
    let from_units = |y: &[f64]| -> Vec<f64> { y.iter().zip(units).map(|(y, unit)| y * unit).collect() };
    let start = start.iter().zip(units).map(|(x, unit)| x / unit).collect();
    let found = minimise(start, limits, watch, |y, gradient| {
        let value = evaluate(&from_units(y), gradient);
        gradient.iter_mut().zip(units).for_each(|(g, unit)| *g *= unit);
        value
    });
    Minimum { x: from_units(&found.x), ..found }
}

fn point(x: Vec<f64>, evaluate: &mut impl FnMut(&[f64], &mut [f64]) -> f64) -> Point {
    let mut gradient = vec![0.0; x.len()];
    let value = evaluate(&x, &mut gradient);
    Point { x, value, gradient }
}

/// Without a model the first step moves by a tenth; with one the natural step is 1.
fn first_step(pairs: &VecDeque<Pair>, norm: f64) -> f64 {
    if pairs.is_empty() { 0.1 / norm } else { 1.0 }
}

/// −H·g by the two-loop recursion over the remembered pairs.
fn direction(gradient: &[f64], pairs: &VecDeque<Pair>) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut weights = Vec::with_capacity(pairs.len());
    for Pair { step, change, curvature } in pairs.iter().rev() {
        let weight = dot(step, &q) / curvature;
        add(&mut q, -weight, change);
        weights.push(weight);
    }
    if let Some(Pair { change, curvature, .. }) = pairs.back() {
        let scale = curvature / dot(change, change);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for (Pair { step, change, curvature }, weight) in pairs.iter().zip(weights.iter().rev()) {
        let correction = weight - dot(change, &q) / curvature;
        add(&mut q, correction, step);
    }
    q
}

/// A point along `direction` with enough decrease and enough flattening, by doubling and bisection.
fn search(
    from: &Point,
    direction: &[f64],
    first: f64,
    evaluate: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Option<Point> {
    let slope = dot(&from.gradient, direction);
    if slope.is_nan() || slope >= 0.0 {
        return None;
    }
    let mut low = 0.0;
    let mut high = f64::INFINITY;
    let mut step = first;
    let mut best: Option<Point> = None;
    for _ in 0..TRIALS {
        let x = from.x.iter().zip(direction).map(|(x, d)| x + step * d).collect();
        let trial = point(x, evaluate);
        let there = dot(&trial.gradient, direction);
        if trial.value.is_nan() || trial.value > from.value + DECREASE * step * slope || there.is_nan() {
            high = step;
        } else {
            let flat = there >= CURVATURE * slope;
            low = step;
            best = Some(trial);
            if flat {
                break;
            }
        }
        step = if high.is_finite() { low + (high - low) / 2.0 } else { 2.0 * step };
    }
    best.filter(|b| b.value < from.value)
}

/// Keeps the pair of a step if it has positive curvature.
fn remember(pairs: &mut VecDeque<Pair>, from: &Point, to: &Point) {
    let step: Vec<f64> = to.x.iter().zip(&from.x).map(|(a, b)| a - b).collect();
    let change: Vec<f64> = to.gradient.iter().zip(&from.gradient).map(|(a, b)| a - b).collect();
    let curvature = dot(&step, &change);
    if curvature > 1e-12 * dot(&step, &step).sqrt() * dot(&change, &change).sqrt() {
        if pairs.len() == MEMORY {
            pairs.pop_front();
        }
        pairs.push_back(Pair { step, change, curvature });
    }
}
