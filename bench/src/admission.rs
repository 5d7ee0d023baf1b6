//! `bench admission`: the time to decide on a job of a data set that is charged for many jobs of mixed kinds, under a budget that
//! clearly holds it and under one that hardly does.

use std::time::Instant;

use ::ledger::{DataSetRecord, Ledger, LedgerError};
use accounting::{Account, Event, Neighbouring};
use anyhow::{Context, bail, ensure};
use comfy_table::Table;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::model::{BudgetedAccount, NeighbouringRelation, PrivacyBudget, PrivacyUnit};
use proto::{DataSetId, JobId, Nonce};
use release::budget::{admit, create_admitted, grant, planned_event};
use release::job::define;
use reproduce::measure::Machine;
use serde::Serialize;
use strategy::series;

use crate::arguments;
use crate::coordinator::latency::Quantiles;
use crate::output::{self, Output};

const DELTA: f64 = 1e-6;
const ITERATIONS: u64 = 1000;
/// Most seconds of a decision that `--check` accepts at p99.
const LIMIT: f64 = 0.1;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Jobs that the data set is charged for at the end
    #[arg(long, value_parser = arguments::positive, default_value_t = 1000)]
    jobs: usize,
    /// Kinds of jobs, one ledger for each number
    #[arg(long, value_delimiter = ',', value_parser = arguments::positive, default_value = "10,300")]
    kinds: Vec<usize>,
    /// Last jobs, whose budget hardly holds them
    #[arg(long, value_parser = arguments::positive, default_value_t = 10)]
    last: usize,
    /// Jobs beyond the budget
    #[arg(long, default_value_t = 1)]
    refused: usize,
    /// Fail where a budget clearly holds jobs and p99 of the decisions is above 100 ms
    #[arg(long)]
    check: bool,
}

#[derive(Serialize)]
struct Report {
    jobs: usize,
    data_sets: Vec<Row>,
}

/// Seconds of decisions, without what is written then.
#[derive(Serialize)]
struct Row {
    kinds: usize,
    /// Of all jobs together.
    epsilon: f64,
    /// Under twice that.
    clearly_held: Quantiles,
    /// Sum of the decisions on the first job of each kind, and so about the first decision of a new process.
    first_of_each_kind: f64,
    /// The last jobs, under 1.00001 times that.
    hardly_held: Quantiles,
    /// Jobs beyond the budget, with what the refusal says of noise that would fit.
    refused: Option<Quantiles>,
}

/// A job to decide on.
struct Asked {
    plan: Plan,
    account: BudgetedAccount,
    event: Event,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.last < args.jobs, "--last is {}; allowed: fewer than the {} --jobs", args.last, args.jobs);
    let data_sets =
        args.kinds.iter().map(|kinds| measure(args, *kinds)).collect::<anyhow::Result<Vec<_>>>()?;
    let slow: Vec<String> = data_sets
        .iter()
        .filter(|row| row.clearly_held.p99 > LIMIT)
        .map(|row| format!("{} kinds: {:.3} s", row.kinds, row.clearly_held.p99))
        .collect();
    let report = Report { jobs: args.jobs, data_sets };
    let title = format!("Decisions on jobs of a data set, up to {} of them charged, ms", args.jobs);
    args.output.give(
        "admission",
        &Machine::current(1),
        &report,
        &[(title, table(&report.data_sets))],
        &[],
    )?;
    if args.check && !slow.is_empty() {
        bail!("--check: p99 above {LIMIT} s: {}", slow.join(", "));
    }
    Ok(())
}

fn measure(args: &Args, kinds: usize) -> anyhow::Result<Row> {
    let asked = (0..kinds).map(kind).collect::<anyhow::Result<Vec<Asked>>>()?;
    let jobs: Vec<&Asked> = asked.iter().cycle().take(args.jobs).collect();
    let events = jobs.iter().map(|asked| asked.event.clone()).collect();
    let epsilon = Account::new(&Event::Composed { events }, Neighbouring::ZeroOut)?.epsilon(DELTA)?;
    let folder = tempfile::tempdir().context("make a folder for the ledger")?;
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, Nonce::from_bytes([1; 32]))?;
    let ledger = Ledger::open(&path)?;
    ledger.create_data_set(&data_set(2.0 * epsilon)?)?;
    let (held, last) = jobs.split_at(args.jobs - args.last);
    let clear = held.iter().enumerate().map(|(number, asked)| decide(&ledger, number, asked));
    let clear = clear.collect::<anyhow::Result<Vec<f64>>>()?;
    grant(&ledger, &data_set_id()?, PrivacyBudget::new(1.000_01 * epsilon, DELTA)?)?;
    let hard = last.iter().enumerate().map(|(number, asked)| decide(&ledger, held.len() + number, asked));
    let hard = hard.collect::<anyhow::Result<Vec<f64>>>()?;
    let refused = asked.iter().cycle().take(args.refused).map(|asked| refuse(&ledger, asked));
    let refused = refused.collect::<anyhow::Result<Vec<f64>>>()?;
    let nothing = "nothing was measured";
    Ok(Row {
        kinds,
        epsilon,
        clearly_held: Quantiles::of(&clear).context(nothing)?,
        first_of_each_kind: clear.iter().take(kinds).sum(),
        hardly_held: Quantiles::of(&hard).context(nothing)?,
        refused: Quantiles::of(&refused),
    })
}

/// Admits a job, in the seconds returned, and creates it.
fn decide(ledger: &Ledger, number: usize, Asked { plan, account, event }: &Asked) -> anyhow::Result<f64> {
    let job = JobId::new(format!("job-{number}"))?;
    let mut nonce = [0; 32];
    nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
    let text = plan.to_toml_string()?;
    let definition = define(job.clone(), plan, text, 1000, [7; 32], 1, Nonce::from_bytes(nonce))?;
    let started = Instant::now();
    let admission = admit(ledger, &job, account, event)?;
    let seconds = started.elapsed().as_secs_f64();
    create_admitted(ledger, &definition, &admission)?;
    Ok(seconds)
}

fn refuse(ledger: &Ledger, Asked { account, event, .. }: &Asked) -> anyhow::Result<f64> {
    let started = Instant::now();
    match admit(ledger, &JobId::new("one-more")?, account, event) {
        Err(LedgerError::BudgetExceeded(_)) => Ok(started.elapsed().as_secs_f64()),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("a job beyond the budget was admitted"),
    }
}

/// One kind of job: in turn independent noise and correlated noise over batches in any order, and cyclic Poisson sampling at
/// several rates. No two have the same noise.
fn kind(number: usize) -> anyhow::Result<Asked> {
    let banded =
        |bands| Mechanism::BandToeplitz { coefficients: series::band_sqrt(bands), column_normalised: false };
    let blt = Mechanism::Blt { theta: vec![0.5, 0.9, 0.98], omega: vec![0.25, 0.15, 0.09] };
    let (mechanism, min_sep, rate) = match number % 5 {
        0 => (Mechanism::Identity, ITERATIONS, None),
        1 => (blt, 100, None),
        2 => (banded(16), 100, None),
        3 => (banded(8), 8, Some([0.001, 0.002, 0.005][number / 5 % 3])),
        _ => (Mechanism::Identity, 1, Some([0.001, 0.01, 0.02][number / 5 % 3])),
    };
    let max_participations = ITERATIONS / min_sep;
    let participation = Participation { min_sep, max_participations };
    let spec = PlanSpec {
        chacha_rounds: 20,
        iterations: ITERATIONS,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation,
        mechanism,
        layout: None,
        grid: None,
    };
    let more = 1.0 + number as f64 / 1000.0;
    let sensitivity = Plan::new(spec.clone())?.accounted_sensitivity()?.value;
    let noise_multiplier = more * rate.map_or(25.0 * sensitivity, |rate| 2.0 + 100.0 * rate);
    let plan = Plan::new(PlanSpec { noise_multiplier, ..spec })?;
    let sampling = |rate: f64| {
        format!(
            "{{\"kind\":\"cyclic-poisson\",\"sampling_probability\":{rate},\"partition\":\"independent\"}}"
        )
    };
    let account = BudgetedAccount {
        data_set: data_set_id()?,
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        sampling: rate.map_or_else(String::new, sampling),
        tenant: None,
        blocks: Default::default(),
    };
    let event = planned_event(&plan, &account)?;
    Ok(Asked { plan, account, event })
}

fn data_set_id() -> anyhow::Result<DataSetId> {
    Ok(DataSetId::new("bench")?)
}

fn data_set(epsilon: f64) -> anyhow::Result<DataSetRecord> {
    Ok(DataSetRecord {
        data_set: data_set_id()?,
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        budget: PrivacyBudget::new(epsilon, DELTA)?,
        shares: Default::default(),
        blocks: Default::default(),
        per_block: false,
        approvals: None,
    })
}

fn table(rows: &[Row]) -> Table {
    let ms = |seconds: f64| format!("{:.2}", 1e3 * seconds);
    let line = |kinds: usize, budget: &str, times: Quantiles| {
        vec![kinds.to_string(), budget.to_owned(), ms(times.p50), ms(times.p99), ms(times.max)]
    };
    let lines = rows.iter().flat_map(|row| {
        let refused = row.refused.map(|times| line(row.kinds, "does not", times));
        let held = [line(row.kinds, "clearly", row.clearly_held), line(row.kinds, "hardly", row.hardly_held)];
        held.into_iter().chain(refused)
    });
    output::table(&["kinds", "the budget holds it", "p50", "p99", "max"], lines)
}
