//! Suggestions of the planner, timed: every mechanism weighed for one run.

use std::ops::ControlFlow;
use std::time::Instant;

use planner::{Request, Watch, recommend, suggest};
use serde::Serialize;
use strategy::{Objective, Participation, Workload};

/// Largest excess over the least error for which less state is preferred, as `rustle plan suggest` has it.
const WITHIN: f64 = 0.05;

/// A run of n rounds, at most k participations of one user at least b rounds apart.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    pub n: u64,
    pub b: u64,
    pub k: u64,
    pub limit_seconds: f64,
}

/// The runs that are timed.
pub const RUNS: [Run; 2] = [
    Run { n: 2000, b: 100, k: 20, limit_seconds: 10.0 },
    Run { n: 100_000, b: 10_000, k: 10, limit_seconds: 60.0 },
];

/// What was suggested, or why nothing was.
#[derive(Serialize)]
pub struct Suggested {
    #[serde(flatten)]
    pub run: Run,
    pub found: Result<Found, String>,
}

/// The recommended mechanism.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    pub seconds: f64,
    /// Mechanisms that were weighed.
    pub mechanisms: usize,
    pub recommended: String,
    /// Error × sensitivity, of rms.
    pub loss: f64,
    /// The least of all, of the same.
    pub least_loss: f64,
}

impl Suggested {
    /// Weighs all mechanisms once, as floats, of which there are more than on a grid.
    pub fn measure(run: Run) -> Self {
        Self { run, found: found(run).map_err(|error| format!("{error:#}")) }
    }

    /// The run, in words.
    pub fn name(run: &Run) -> String {
        format!("suggest,n={},b={},k={}", run.n, run.b, run.k)
    }

    /// The limit that was missed, in words.
    pub fn missed(&self) -> Option<String> {
        let name = Self::name(&self.run);
        match &self.found {
            Err(why) => Some(format!("{name}: {why}")),
            Ok(found) if found.seconds > self.run.limit_seconds => {
                Some(format!("{name}: {:.1} s, limit {} s", found.seconds, self.run.limit_seconds))
            }
            Ok(_) => None,
        }
    }
}

fn found(run: Run) -> anyhow::Result<Found> {
    let request = Request {
        iterations: run.n,
        participation: Participation::new(run.b, run.k)?,
        sampling_probability: None,
        epsilon: 4.0,
        delta: 1e-6,
        objective: Objective::Rms,
        workload: Workload::Prefix,
        dimension: 1_000_000,
        workers: 1,
        memory_per_worker: None,
        on_grid: false,
    };
    let start = Instant::now();
    let watch = Watch { progress: &|_| (), flow: &|| ControlFlow::Continue(()) };
    let suggestion = suggest(&request, watch)?;
    let seconds = start.elapsed().as_secs_f64();
    let entries = &suggestion.entries;
    let chosen = recommend(entries, WITHIN).ok_or_else(|| anyhow::anyhow!("nothing was recommended"))?;
    let chosen = &entries[chosen.index];
    Ok(Found {
        seconds,
        mechanisms: entries.len(),
        recommended: chosen.name(),
        loss: chosen.loss,
        least_loss: entries.iter().map(|entry| entry.loss).fold(f64::INFINITY, f64::min),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_has_a_limit_of_time() {
        let run = Run { n: 24, b: 6, k: 4, limit_seconds: 600.0 };
        let mut suggested = Suggested::measure(run);
        let found = suggested.found.clone().unwrap();
        assert!(found.mechanisms > 8 && found.least_loss <= found.loss && suggested.missed().is_none());
        suggested.run.limit_seconds = found.seconds / 2.0;
        assert!(suggested.missed().unwrap().starts_with("suggest,n=24,b=6,k=4: "));
        let refused = Suggested::measure(Run { b: 24, k: 9, ..run });
        assert!(refused.missed().unwrap().contains("max-participations"));
    }
}
