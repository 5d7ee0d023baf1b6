//! `rustle plan lint`: what in a plan is risky or odd, though it may be run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use plan::{Plan, PlanError};
use serde_json::{Value, json};

use self::checks::findings;
use crate::output::{self, Colour, Format};
use crate::streams;
use crate::wrap::wrapped;

mod checks;

#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
    rustle plan lint plan.toml --delta 1e-6 --dataset-size 60000\n  \
    rustle plan lint plan.toml --format json | jq '.findings[] | select(.severity == \"error\")'")]
pub struct LintArgs {
    /// File of the plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// δ in (0, 1) at which ε is looked at
    #[arg(long, default_value_t = 1e-6, allow_negative_numbers = true)]
    delta: f64,
    /// Number of records or users, which δ must be far below the inverse of [default: δ is not judged]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    dataset_size: Option<u64>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// To know; nothing need be done.
    Note,
    /// Risky: to be understood before the plan is run.
    Warning,
    /// The plan can't be run, or gives no privacy.
    Error,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    fn coloured(self) -> String {
        let padded = format!("{:<7}", self.as_str());
        match self {
            Self::Note => padded,
            Self::Warning => output::coloured(&padded, Colour::Yellow),
            Self::Error => output::coloured(&padded, Colour::Red),
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// The check's name: scripts compare it.
    pub check: &'static str,
    pub what: String,
    pub next_step: String,
}

impl Finding {
    pub fn new(
        severity: Severity,
        check: &'static str,
        what: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self { severity, check, what: what.into(), next_step: next_step.into() }
    }

    fn to_json(&self) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "check": self.check,
            "what": self.what,
            "next_step": self.next_step,
        })
    }
}

pub fn run(args: &LintArgs, format: Format) -> anyhow::Result<ExitCode> {
    checks::check_delta(args.delta)?;
    let mut found = match Plan::from_path(&args.plan) {
        Ok(plan) => findings(&plan, args.delta, args.dataset_size),
        Err(error @ PlanError::Read { .. }) => return Err(error.into()),
        Err(error) => vec![no_plan(&error)],
    };
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let is_ok = found.iter().all(|finding| finding.severity != Severity::Error);
    let printed = match format {
        Format::Json => streams::line(json!({
            "plan": args.plan.display().to_string(),
            "ok": is_ok,
            "findings": found.iter().map(Finding::to_json).collect::<Vec<_>>(),
        })),
        Format::Table => streams::line(text_of(&found)),
    };
    output::status_of_check(is_ok, printed)
}

fn no_plan(error: &PlanError) -> Finding {
    let next_step = "mend that field, or make a plan anew: rustle plan from, optimize or suggest";
    Finding::new(Severity::Error, "no_plan", error.to_string().trim_end(), next_step)
}

/// Columns before the text of a finding: the severity and two spaces.
const INDENT: usize = 9;

fn text_of(found: &[Finding]) -> String {
    if found.is_empty() {
        return "nothing found".to_owned();
    }
    let line = |finding: &Finding| {
        let Finding { severity, check, what, next_step } = finding;
        let what = wrapped(&format!("{check}: {what}"), INDENT);
        let next = wrapped(&format!("next: {next_step}"), INDENT);
        format!("{}  {what}\n{}{next}", severity.coloured(), " ".repeat(INDENT))
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}
