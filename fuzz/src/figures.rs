//! The report of each target, and one line for all.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    pub target: String,
    pub runs: u64,
    pub answers: usize,
    /// CPU time.
    pub seconds: f64,
    pub fault: Option<Fault>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub text: String,
    /// Path of the stored input; `None` where there is none.
    pub input: Option<PathBuf>,
}

impl fmt::Display for TargetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, runs, answers, seconds, fault } = self;
        write!(f, "{target:15} {runs:>10} runs in {seconds:.0} s of a processor, {answers} answers")?;
        let Some(Fault { text, input }) = fault else { return Ok(()) };
        // The input is stored, so that the text may be cut.
        let text: String = text.chars().take(2_000).collect();
        write!(f, "\nFAULT in {target}: {text}")?;
        input.as_ref().map_or(Ok(()), |input| write!(f, "\n  input kept as {}", input.display()))
    }
}

#[derive(Debug, Default)]
pub struct Total {
    targets: usize,
    runs: u64,
    faults: usize,
    seconds: f64,
}

impl Total {
    pub fn of(all: &[TargetReport]) -> Self {
        Self {
            targets: all.len(),
            runs: all.iter().map(|ran| ran.runs).sum(),
            faults: all.iter().filter(|ran| ran.fault.is_some()).count(),
            seconds: all.iter().map(|ran| ran.seconds).sum(),
        }
    }

    pub fn is_good(&self) -> bool {
        self.faults == 0
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { targets, runs, faults, seconds } = self;
        let minutes = seconds / 60.0;
        write!(f, "{targets} targets, {runs} runs, {faults} faults, {minutes:.1} processor-minutes")?;
        if *faults == 0 {
            // The rule of three: of N runs without a fault.
            write!(f, "; below {:.1e} faults a run at 95 % (3/N)", 3.0 / (*runs).max(1) as f64)?;
        }
        Ok(())
    }
}
