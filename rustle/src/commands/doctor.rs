//! `rustle doctor`: looks at everything that a cluster needs, and says what to do about what it finds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::online;
use super::status;
use crate::access::CoordinatorArg;
use crate::output::{self, BadUse, Colour, Format};
use crate::progress::Progress;
use crate::streams;

mod files;
mod machine;
mod reach;

/// Check ports, certificates, clocks, disk, memory, versions and key files, and say what to do; exit status 1 if one is bad
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  \
    rustle doctor --coordinator https://coordinator:7300 --tls-dir tls/operator")]
pub struct DoctorArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Folder of the coordinator's data, whose disk is looked at
    #[arg(long, value_name = "DIR", default_value = "rustle-data")]
    data_dir: PathBuf,
    /// File of a job's key [default: job.key in the data folder, if it is there]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// How good what was found is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Ok,
    Warn,
    Bad,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    fn colour(self) -> Colour {
        match self {
            Self::Ok => Colour::Green,
            Self::Warn => Colour::Yellow,
            Self::Bad => Colour::Red,
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
    pub what: String,
    /// What to do; empty where all is well.
    pub next_step: String,
}

impl Check {
    pub fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, what: what.into(), next_step: String::new() }
    }

    pub fn new(
        name: &'static str,
        verdict: Verdict,
        what: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self { name, verdict, what: what.into(), next_step: next_step.into() }
    }

    fn to_json(&self) -> Value {
        let next_step = Some(&self.next_step).filter(|text| !text.is_empty());
        json!({ "check": self.name, "verdict": self.verdict.as_str(), "what": self.what, "next_step": next_step })
    }
}

pub fn run(args: &DoctorArgs, format: Format) -> anyhow::Result<ExitCode> {
    let progress = Progress::spinner("looking around");
    let mut checks = vec![files::certificate(&args.coordinator.access)?];
    checks.extend(files::token(&args.coordinator.access));
    checks.extend(files::key(&key_file(args)));
    checks.push(machine::disk(&args.data_dir));
    checks.push(machine::memory());
    let asked = online::block_on(&args.coordinator, status::fetch(&args.coordinator));
    match asked {
        Ok(status) => checks.extend(reach::of_status(&status)),
        Err(error) if error.is::<BadUse>() => return Err(error),
        Err(error) => checks
            .extend(reach::without_answer(&args.coordinator.coordinator, &output::without_repeats(&error))),
    }
    drop(progress);
    let is_well = checks.iter().all(|check| check.verdict != Verdict::Bad);
    let printed = match format {
        Format::Json => streams::line(json!({
            "ok": is_well,
            "checks": checks.iter().map(Check::to_json).collect::<Vec<_>>(),
        })),
        Format::Table => streams::line(text_of(&checks)),
    };
    output::status_of_check(is_well, printed)
}

fn key_file(args: &DoctorArgs) -> Option<PathBuf> {
    let own = || Some(args.data_dir.join("job.key")).filter(|file| Path::exists(file));
    args.key_file.clone().or_else(own)
}

fn text_of(checks: &[Check]) -> String {
    let mut lines = Vec::new();
    for check in checks {
        // Padded before it is coloured: a terminal does not count the colour.
        let verdict = output::coloured(&format!("{:<4}", check.verdict.as_str()), check.verdict.colour());
        lines.push(format!("{verdict}  {}: {}", check.name, check.what));
        if !check.next_step.is_empty() {
            lines.push(format!("      next: {}", check.next_step));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_line_and_each_bad_one_a_next_step() {
        let checks =
            [Check::ok("disk", "9 GiB free"), Check::new("clock", Verdict::Bad, "70 s apart", "run NTP")];
        assert_eq!(text_of(&checks), "ok    disk: 9 GiB free\nbad   clock: 70 s apart\n      next: run NTP");
        assert_eq!(checks[0].to_json()["next_step"], Value::Null);
    }
}
