//! One setting, by both sides in turn: ours, the peer, ours, the peer again where that is short, ours.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use strategy::Strategy;

use super::ours::{LIMIT, Losses, Ours};
use super::peer::{Answer, Call, Peer};
use super::progress::Progress;
use super::setting::Setting;
use crate::peers::environment::Environment;

/// Two evaluations of one strategy differ by less than this, relatively, or one of them is wrong.
pub const AGREEMENT: f64 = 1e-9;

/// Seconds of a first call up to which there is a second.
const SHORT: f64 = 10.0;

const RUNNER: &str = include_str!("../../peers/strategy.py");

/// The library on the other side, started when it is first needed and again after it was given up.
pub struct Library {
    environment: Environment,
    runner: PathBuf,
    progress: Progress,
    running: Option<Peer>,
}

/// What the peer did in a setting.
#[derive(Debug)]
pub struct Theirs {
    pub first: Call,
    pub second: Option<Call>,
    pub losses: Losses,
}

/// How a setting came out on the other side.
#[derive(Debug)]
pub enum Beside {
    Compared(Theirs),
    /// It has no such optimiser.
    Absent(String),
    /// It gave no answer in time, or none that is of use.
    Failed(String),
    /// Two evaluations of one strategy differ, so no loss of this setting can be trusted.
    Disagreed(String),
    /// There was nobody to ask.
    Alone,
}

impl Library {
    pub fn new(environment: Environment, progress: Progress) -> anyhow::Result<Self> {
        let runner = environment.folder().join("strategy.py");
        fs::write(&runner, RUNNER).with_context(|| format!("write {}", runner.display()))?;
        Ok(Self { environment, runner, progress, running: None })
    }

    /// Error: ours alone; what fails on the other side is a result.
    pub fn compare(&mut self, setting: &Setting) -> anyhow::Result<(Ours, Beside)> {
        let mut ours = Ours::first(setting)?;
        let asked = self.ask(|peer| peer.optimise(setting));
        ours.again(setting)?;
        let beside = match asked {
            Err(error) => Beside::Failed(format!("{error:#}")),
            Ok(Answer::Absent(why)) => self.checked(setting, &ours.strategy, Beside::Absent(why)),
            Ok(Answer::Optimised(first, strategy)) => self.compared(setting, &ours, first, &strategy),
        };
        ours.again(setting)?;
        Ok((ours, beside))
    }

    fn compared(&mut self, setting: &Setting, ours: &Ours, first: Call, strategy: &Strategy) -> Beside {
        let second = if first.seconds <= SHORT { self.ask(Peer::again).map(Some) } else { Ok(None) };
        let found = second.and_then(|second| Ok((second, Losses::of(strategy, setting)?)));
        match found {
            Err(error) => Beside::Failed(format!("{error:#}")),
            Ok((second, losses)) => {
                let beside = Beside::Compared(Theirs { first, second, losses });
                match self.checked(setting, strategy, beside) {
                    Beside::Compared(theirs) => {
                        self.checked(setting, &ours.strategy, Beside::Compared(theirs))
                    }
                    other => other,
                }
            }
        }
    }

    /// `beside`, unless NumPy finds another loss for `strategy` than we do.
    fn checked(&mut self, setting: &Setting, strategy: &Strategy, beside: Beside) -> Beside {
        let evaluated = self.ask(|peer| peer.evaluate(setting, strategy));
        let both = evaluated.and_then(|plain| Ok((Losses::of(strategy, setting)?, plain)));
        match both.map(|(ours, plain)| agree(&ours, &plain)) {
            Ok(Ok(())) => beside,
            Ok(Err(apart)) => Beside::Disagreed(format!("{apart:#}")),
            Err(error) => Beside::Failed(format!("not evaluated: {error:#}")),
        }
    }

    fn ask<T>(&mut self, question: impl FnOnce(&mut Peer) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let peer = match &mut self.running {
            Some(peer) => peer,
            None => {
                let python = self.environment.python();
                let errors = self.environment.folder().join("stderr.txt");
                let progress = self.progress.clone();
                let waiting = Box::new(move || progress.tick());
                self.running.insert(Peer::start(&python, &self.runner, &errors, LIMIT, waiting)?)
            }
        };
        let answer = question(peer);
        if answer.is_err() {
            // It may have ended, or be busy still with what took too long.
            self.running = None;
        }
        answer
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
