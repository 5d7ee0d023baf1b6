//! `rustle plan suggest`: compares every mechanism at one (ε, δ) and recommends one.

use std::process::ExitCode;

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use plan::Mechanism;
use planner::{
    Entry, PlannerError, Recommendation, Request, Sampling, Suggestion, Watch, recommend, suggest,
};
use serde_json::{Value, json};

use super::make::RunArgs;
use super::workload::ReleaseArgs;
use crate::commands::cancel::Cancel;
use crate::commands::setting::ParticipationArgs;
use crate::out_file::OutFile;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;
use crate::rates;
use crate::streams;
use crate::values::Bytes;

/// Rows of the table; JSON has all mechanisms.
const SHOWN: usize = 16;

#[derive(Clone, Debug, Args)]
pub struct SuggestArgs {
    #[command(flatten)]
    run: RunArgs,
    /// ε to satisfy, above 0
    #[arg(long)]
    epsilon: f64,
    /// δ to satisfy, strictly between 0 and 1
    #[arg(long)]
    delta: f64,
    /// Mean fraction of the data in a batch, in (0, 1] [default: no sampling]
    #[arg(long, value_name = "Q")]
    sampling_probability: Option<f64>,
    /// Number of workers that share the parameter vector
    #[arg(long, value_name = "W", default_value_t = 1)]
    workers: u64,
    /// Maximum size of one worker's state, such as 16GiB [default: no maximum]
    #[arg(long, value_name = "BYTES")]
    memory_per_worker: Option<Bytes>,
    #[command(flatten)]
    release: ReleaseArgs,
    /// Skip the measurement of rows per second on this machine
    #[arg(long)]
    no_rates: bool,
}

pub fn run(args: &SuggestArgs, format: Format) -> anyhow::Result<ExitCode> {
    let request = args.request()?;
    request.check().map_err(bad_use)?;
    let out = args.run.open_out()?;
    let Suggestion { entries, left_out, stopped } = search(&request)?;
    for (name, reason) in &left_out {
        streams::note(format_args!("left out: {name}: {reason}"));
    }
    if stopped {
        streams::note("warning: the search was stopped; mechanisms are missing or not fully optimized");
    }
    let rates = if args.no_rates { Vec::new() } else { measured(&entries, &request) };
    let Some(chosen) = recommend(&entries) else {
        return Err(bad_use(
            "the search was stopped before it found a mechanism that fits; let it run longer",
        ));
    };
    let answer = args.deliver(&entries[chosen.index], &chosen, out)?.with("stopped", stopped);
    if args.run.is_out_stdout() {
        return Ok(ExitCode::SUCCESS);
    }
    match format {
        Format::Json => {
            let list: Vec<Value> = (0..entries.len()).map(|i| object(&entries[i], rate(&rates, i))).collect();
            let left_out: Vec<Value> = left_out
                .iter()
                .map(|(name, reason)| json!({ "mechanism": name, "reason": reason }))
                .collect();
            answer.with("mechanisms", list).with("left_out", left_out).print(format)?;
        }
        Format::Table => {
            streams::line(table(&entries, &rates, chosen.index))?;
            answer.print(format)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl SuggestArgs {
    fn request(&self) -> anyhow::Result<Request> {
        let n = self.run.iterations;
        let dimension = self.run.dimension.ok_or_else(|| {
            bad_use("--dimension is missing; allowed: 1 or more, as the size of the state depends on it")
        })?;
        Ok(Request {
            iterations: n,
            participation: self.run.rule()?,
            sampling_probability: self.sampling_probability,
            epsilon: self.epsilon,
            delta: self.delta,
            objective: self.release.objective(n)?,
            workload: self.release.workload(n)?,
            dimension,
            workers: self.workers,
            memory_per_worker: self.memory_per_worker.map(|bytes| bytes.0),
        })
    }

    /// Writes the plan of the recommended entry to `--out`.
    fn deliver(
        &self,
        entry: &Entry,
        chosen: &Recommendation,
        out: Option<OutFile>,
    ) -> anyhow::Result<Answer> {
        let mut run = self.run.clone();
        let sigma = plan::noise_multiplier_to_run(entry.noise_multiplier, run.clip_norm);
        let file = self.run.out.as_ref().map_or("PLAN".into(), |path| path.display().to_string());
        let mut account = format!("rustle account plan --plan {file} --delta {}", self.delta);
        if let Sampling::CyclicPoisson { bands, sampling_probability: q } = entry.sampling {
            // A plan does not state the sampling, so its own guarantee must hold without it: a record may be in every
            // batch of its group.
            run.participation =
                ParticipationArgs { min_sep: bands, max_participations: run.iterations.div_ceil(bands) };
            account = format!(
                "rustle account band-mf --noise-multiplier {} --sampling-probability {q} --bands {bands} \
                 --iterations {} --delta {}",
                entry.noise_multiplier / entry.sensitivity,
                run.iterations,
                self.delta
            );
        }
        let plan = run.plan_for_promise(Mechanism::try_from(&entry.strategy)?, sigma)?;
        let sigma = plan.noise_multiplier();
        let answer = Answer::new()
            .with("recommended", name(entry))
            .with("sampling", entry.sampling_name)
            .with("reason", chosen.reason.clone())
            .with("account", account)
            .with("epsilon", self.epsilon)
            .with("delta", self.delta)
            .with("noise_multiplier", sigma)
            .with("error", entry.error);
        self.run.deliver(&plan, out, answer)
    }
}

fn search(request: &Request) -> anyhow::Result<Suggestion> {
    let bar = Progress::bar(0, "mechanisms (Ctrl-C ends the search with those so far)");
    let cancel = Cancel::on_ctrl_c();
    let progress = |progress: planner::Progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
    };
    let found = suggest(request, Watch { progress: &progress, flow: &|| cancel.flow() });
    found.map_err(|error| match error {
        PlannerError::Accounting(accounting::AccountingError::OutOfReach { .. }) => error.into(),
        error => bad_use(error),
    })
}

/// Measures the rows per second of each entry: of one worker on this machine, for its shard.
fn measured(entries: &[Entry], request: &Request) -> Vec<Option<f64>> {
    let bar = Progress::bar(entries.len() as u64, "mechanisms measured");
    let mut seen: Vec<(String, Option<f64>)> = Vec::new();
    let rates = entries.iter().map(|entry| {
        bar.inc(1);
        // Sampling does not change the rate.
        let key = name(entry);
        if let Some((_, rate)) = seen.iter().find(|(name, _)| *name == key) {
            return *rate;
        }
        let rate = rates::coordinates_per_second(&entry.strategy, request.iterations);
        let rate = rate.map(|coordinates| coordinates / request.shard() as f64);
        seen.push((key, rate));
        rate
    });
    rates.collect()
}

fn rate(rates: &[Option<f64>], index: usize) -> Option<f64> {
    rates.get(index).copied().flatten()
}

/// Returns the mechanism with its size, such as `blt 3`.
fn name(entry: &Entry) -> String {
    match entry.size {
        Some(size) => format!("{} {size}", entry.mechanism),
        None => entry.mechanism.to_owned(),
    }
}

fn object(entry: &Entry, rate: Option<f64>) -> Value {
    let mut value = json!(entry);
    value["rows_per_second"] = json!(rate);
    value
}

fn table(entries: &[Entry], rates: &[Option<f64>], chosen: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "",
        "mechanism",
        "sampling",
        "error",
        "noise mult.",
        "loss",
        "state B/param",
        "state/worker",
        "fits",
        "rows/s",
        "ε if broken",
        "excess at n/2",
    ]);
    // The best of every pair of mechanism and sampling has a line, however far down.
    let first = |i: usize| {
        let kind = |entry: &Entry| (entry.mechanism, entry.sampling_name);
        !entries[..i].iter().any(|earlier| kind(earlier) == kind(&entries[i]))
    };
    let shown = (0..entries.len()).filter(|i| *i < SHOWN || *i == chosen || first(*i));
    for i in shown {
        let entry = &entries[i];
        table.add_row([
            if i == chosen { "→".into() } else { String::new() },
            name(entry),
            entry.sampling_name.into(),
            format!("{:.4}", entry.error),
            format!("{:.4}", entry.noise_multiplier),
            format!("{:.4}", entry.loss),
            entry.state_bytes_per_parameter.to_string(),
            Bytes(entry.state_bytes_per_worker).to_string(),
            if entry.fits { "yes" } else { "no" }.into(),
            rate(rates, i).map_or("-".into(), |rate| format!("{rate:.1}")),
            entry.epsilon_if_assumption_fails.map_or("-".into(), |epsilon| format!("{epsilon:.2}")),
            entry.excess_at_half.map_or("-".into(), |excess| format!("{:.1} %", 100.0 * excess)),
        ]);
    }
    table
}
