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

/// Mechanisms in the table, besides the recommended one and independent noise; `--all` and JSON have all.
const SHOWN: usize = 6;

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
    /// Largest excess over the least error for which less state is preferred, in per cent, such as 10%
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    within: f64,
    /// Show every mechanism and every figure: a wide table
    #[arg(long)]
    all: bool,
    /// Skip the measurement of rows per second on this machine
    #[arg(long)]
    no_rates: bool,
}

pub fn run(args: &SuggestArgs, format: Format) -> anyhow::Result<ExitCode> {
    let request = args.request()?;
    request.check().map_err(bad_use)?;
    args.run.check(1.0)?;
    let out = args.run.open_out()?;
    let Suggestion { entries, left_out, stopped } = search(&request)?;
    for (name, reason) in &left_out {
        streams::note(format_args!("left out: {name}: {reason}"));
    }
    if stopped {
        streams::note("warning: the search was stopped; mechanisms are missing or not fully optimized");
    }
    let rates = if args.no_rates { Vec::new() } else { measured(&entries, &request) };
    let Some(chosen) = recommend(&entries, args.within) else {
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
            streams::line(if args.all {
                whole(&entries, &rates, chosen.index)
            } else {
                short(&entries, &rates, chosen.index)
            })?;
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
        if self.memory_per_worker.is_some_and(|bytes| bytes.0 == 0) {
            return Err(bad_use("--memory-per-worker is 0; allowed: 1 byte or more, such as 16GiB"));
        }
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
            on_grid: self.run.grid.is_on_grid(),
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
            .with("recommended", entry.name())
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
        let key = entry.name();
        if let Some((_, rate)) = seen.iter().find(|(name, _)| *name == key) {
            return *rate;
        }
        let rate = rates::coordinates_per_second(&entry.strategy, request.iterations, request.on_grid);
        let rate = rate.map(|coordinates| coordinates / request.shard() as f64);
        seen.push((key, rate));
        rate
    });
    rates.collect()
}

fn rate(rates: &[Option<f64>], index: usize) -> Option<f64> {
    rates.get(index).copied().flatten()
}

fn object(entry: &Entry, rate: Option<f64>) -> Value {
    let mut value = json!(entry);
    value["rows_per_second"] = json!(rate);
    value
}

/// The text of a mechanism in one column of the table, by the mechanism's place.
type Cell<'a> = &'a dyn Fn(usize) -> String;

/// The columns that fit in a terminal, for the mechanisms in front. What is the same for all is left out.
fn short(entries: &[Entry], rates: &[Option<f64>], chosen: usize) -> Table {
    let is_sampled = entries.iter().any(|entry| matches!(entry.sampling, Sampling::CyclicPoisson { .. }));
    let is_limited = entries.iter().any(|entry| !entry.fits);
    let columns: [(&str, bool, Cell<'_>); 8] = [
        ("", true, &|i| arrow(i == chosen)),
        ("mechanism", true, &|i| entries[i].name()),
        ("sampling", is_sampled, &|i| entries[i].sampling_name.into()),
        ("error", true, &|i| format!("{:.3}", entries[i].error)),
        ("noise mult.", true, &|i| format!("{:.3}", entries[i].noise_multiplier)),
        ("state/param", true, &|i| Bytes(entries[i].state_bytes_per_parameter).to_string()),
        ("fits", is_limited, &|i| fits(&entries[i])),
        ("rows/s", !rates.is_empty(), &|i| per_second(rate(rates, i))),
    ];
    let columns: Vec<_> = columns.iter().filter(|(_, is_shown, _)| *is_shown).collect();
    let header: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
    let mut table = new_table(&header);
    let is_independent = |i: usize| entries[i].mechanism == "identity";
    for i in (0..entries.len()).filter(|i| *i < SHOWN || *i == chosen || is_independent(*i)) {
        table.add_row(columns.iter().map(|(.., cell)| cell(i)));
    }
    table
}

/// Every mechanism with every figure.
fn whole(entries: &[Entry], rates: &[Option<f64>], chosen: usize) -> Table {
    let mut table = new_table(&[
        "",
        "mechanism",
        "sampling",
        "error",
        "noise mult.",
        "loss",
        "state/param",
        "state/worker",
        "fits",
        "rows/s",
        "ε if broken",
        "excess at n/2",
    ]);
    for (i, entry) in entries.iter().enumerate() {
        table.add_row([
            arrow(i == chosen),
            entry.name(),
            entry.sampling_name.into(),
            format!("{:.4}", entry.error),
            format!("{:.4}", entry.noise_multiplier),
            format!("{:.4}", entry.loss),
            Bytes(entry.state_bytes_per_parameter).to_string(),
            Bytes(entry.state_bytes_per_worker).to_string(),
            fits(entry),
            per_second(rate(rates, i)),
            entry.epsilon_if_assumption_fails.map_or("-".into(), |epsilon| format!("{epsilon:.2}")),
            entry.excess_at_half.map_or("-".into(), |excess| format!("{:.1} %", 100.0 * excess)),
        ]);
    }
    table
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().copied());
    table
}

fn arrow(is_chosen: bool) -> String {
    if is_chosen { "→".into() } else { String::new() }
}

fn fits(entry: &Entry) -> String {
    if entry.fits { "yes" } else { "no" }.into()
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or("-".into(), |rate| if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") })
}

/// Parses a share in per cent, with or without the sign, to a fraction.
pub fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().trim_end_matches('%').trim_end().parse().ok();
    match number {
        Some(number) if (0.0..=1000.0).contains(&number) => Ok(number / 100.0),
        _ => Err(format!("{text} is no share in per cent; allowed: 0% to 1000%, such as 10%")),
    }
}
