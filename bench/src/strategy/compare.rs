//! One setting, by both sides in turn: ours, the peer, ours, the peer again where that is short, ours.

use strategy::Strategy;

use super::peer::{self, Answer, Call};
use super::progress::Progress;
use super::rustle::{Losses, Ours};
use super::setting::Setting;
use crate::comparison::Comparison;
use crate::peers::environment::Environment;
use crate::peers::python::Python;

/// Two evaluations of one strategy differ by less than this, relatively, or one of them is wrong.
pub const AGREEMENT: f64 = 1e-9;

/// Seconds of a first call up to which there is a second.
const SHORT: f64 = 10.0;

const RUNNER: &str = include_str!("../../peers/strategy.py");

/// The library on the other side.
pub struct Library(Python);

/// What the peer did in a setting.
#[derive(Debug)]
pub struct Theirs {
    pub first: Call,
    pub second: Option<Call>,
    pub losses: Losses,
}

impl Library {
    pub fn new(environment: &Environment, progress: Progress) -> anyhow::Result<Self> {
        let waiting = Box::new(move || progress.tick());
        Ok(Self(Python::new(environment, "strategy.py", RUNNER, waiting)?))
    }

    /// Error: ours alone; what fails on the other side is a result.
    pub fn compare(&mut self, setting: &Setting) -> anyhow::Result<(Ours, Comparison<Theirs>)> {
        let mut ours = Ours::first(setting)?;
        let asked = peer::optimise(&mut self.0, setting);
        ours.again(setting)?;
        let beside = match asked {
            Err(error) => Comparison::Failed(format!("{error:#}")),
            Ok(Answer::Absent(why)) => self.checked(setting, &ours.strategy, Comparison::Absent(why)),
            Ok(Answer::Optimized(first, strategy)) => self.compared(setting, &ours, first, &strategy),
        };
        ours.again(setting)?;
        Ok((ours, beside))
    }

    fn compared(
        &mut self,
        setting: &Setting,
        ours: &Ours,
        first: Call,
        strategy: &Strategy,
    ) -> Comparison<Theirs> {
        let second = if first.seconds <= SHORT { peer::again(&mut self.0).map(Some) } else { Ok(None) };
        let found = second.and_then(|second| Ok((second, Losses::of(strategy, setting)?)));
        match found {
            Err(error) => Comparison::Failed(format!("{error:#}")),
            Ok((second, losses)) => {
                let beside = Comparison::Compared(Theirs { first, second, losses });
                match self.checked(setting, strategy, beside) {
                    Comparison::Compared(theirs) => {
                        self.checked(setting, &ours.strategy, Comparison::Compared(theirs))
                    }
                    other => other,
                }
            }
        }
    }

    /// `beside`, unless NumPy finds another loss for `strategy` than we do.
    fn checked(
        &mut self,
        setting: &Setting,
        strategy: &Strategy,
        beside: Comparison<Theirs>,
    ) -> Comparison<Theirs> {
        let evaluated = peer::evaluate(&mut self.0, setting, strategy);
        let both = evaluated.and_then(|plain| Ok((Losses::of(strategy, setting)?, plain)));
        match both.map(|(ours, plain)| agree(&ours, &plain)) {
            Ok(Ok(())) => beside,
            Ok(Err(apart)) => Comparison::Disagreed(format!("{apart:#}")),
            Err(error) => Comparison::Failed(format!("not evaluated: {error:#}")),
        }
    }
}

/// Error: which of the two losses and sensitivities differ, and by how much.
fn agree(ours: &Losses, plain: &Losses) -> anyhow::Result<()> {
    let pairs = [
        ("rms loss", ours.rms, plain.rms),
        ("max loss", ours.max, plain.max),
        ("sensitivity", ours.sensitivity, plain.sensitivity),
    ];
    for (what, ours, plain) in pairs {
        let apart = (ours / plain - 1.0).abs();
        // Not the other way round: NaN must not pass.
        let within = apart <= AGREEMENT;
        anyhow::ensure!(
            within,
            "{what} is {ours:.12} by ours and {plain:.12} by plain sums: {apart:.1e} apart"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_has_to_agree() {
        let losses = Losses { rms: 3.0, max: 4.0, sensitivity: 2.0 };
        assert!(agree(&losses, &Losses { rms: 3.0 * (1.0 + 5e-10), ..losses }).is_ok());
        for off in [1.0 + 2e-9, 1.0 - 2e-9, f64::NAN] {
            assert!(agree(&losses, &Losses { rms: 3.0 * off, ..losses }).is_err());
            assert!(agree(&losses, &Losses { max: 4.0 * off, ..losses }).is_err());
            assert!(agree(&Losses { sensitivity: 2.0 * off, ..losses }, &losses).is_err());
        }
    }
}
