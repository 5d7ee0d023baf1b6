//! Our optimisers, timed.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;
use strategy::Strategy;
use strategy::optimize::optimize;

use super::setting::{Loss, Setting};
use reproduce::measure::Spread;

/// No setting may take longer than this, on either side.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Below this, a time is the median of three.
const SHORT: f64 = 5.0;

/// Error × sensitivity for prefix sums, not squared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Losses {
    pub rms: f64,
    pub max: f64,
    /// Per unit clip norm.
    pub sensitivity: f64,
}

/// One setting, optimised one or several times over.
#[derive(Debug)]
pub struct Ours {
    pub strategy: Strategy,
    pub losses: Losses,
    /// Steps of the search.
    pub steps: usize,
    /// True where the limit ended the search.
    pub stopped: bool,
    seconds: Vec<f64>,
}

impl Losses {
    /// Error: a strategy that does not fit the setting.
    pub fn of(strategy: &Strategy, setting: &Setting) -> strategy::Result<Self> {
        let errors = strategy.errors(setting.n)?;
        let sensitivity = strategy.sensitivity(setting.n, setting.participation()?)?.value;
        Ok(Self { rms: errors.rms * sensitivity, max: errors.max * sensitivity, sensitivity })
    }

    pub fn named(&self, loss: Loss) -> f64 {
        match loss {
            Loss::Rms => self.rms,
            Loss::Max => self.max,
        }
    }
}

impl Ours {
    /// The same number of repeats, without a peer in turn.
    pub fn alone(setting: &Setting) -> anyhow::Result<Self> {
        let mut ours = Self::first(setting)?;
        ours.again(setting)?;
        ours.again(setting)?;
        Ok(ours)
    }

    /// Optimises once.
    pub fn first(setting: &Setting) -> anyhow::Result<Self> {
        let target = setting.target()?;
        let start = Instant::now();
        let optimised = optimize(setting.kind.ours(), &target, &mut |_| {
            if start.elapsed() < LIMIT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let seconds = vec![start.elapsed().as_secs_f64()];
        let losses = Losses::of(&optimised.strategy, setting)?;
        Ok(Self {
            strategy: optimised.strategy,
            losses,
            steps: optimised.iterations,
            stopped: optimised.stopped,
            seconds,
        })
    }

    /// Once more, where that is short; the strategy is the same every time.
    pub fn again(&mut self, setting: &Setting) -> anyhow::Result<()> {
        if self.seconds[0] < SHORT {
            self.seconds.append(&mut Self::first(setting)?.seconds);
        }
        Ok(())
    }

    /// Error: never measured.
    pub fn seconds(&self) -> anyhow::Result<Spread> {
        Spread::of(&self.seconds).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_short_settings_are_of_three() {
        let setting = "band-toeplitz-2,n=20".parse().unwrap();
        let ours = Ours::alone(&setting).unwrap();
        assert_eq!(ours.seconds().unwrap().repeats, 3);
        assert!(!ours.stopped && ours.losses.named(Loss::Rms) < ours.losses.named(Loss::Max));
    }
}
