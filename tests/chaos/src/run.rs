//! A session: the cluster, two competing trainers, the prober of lost leases, and the nemesis between them.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::Context;
use client::{Client, Connections};
use dice::Dice;
use ledger::Ledger;
use node::net::dial::DialOptions;
use node::process::runtime::Runtime;
use proto::Commitment;

use crate::{
    Session,
    cases::{Case, Cases},
    cluster::{Cluster, LEASE_TTL},
    environment::Environment,
    figures::Figures,
    history::{History, Violation},
    nemesis::{Fault, Nemesis},
    stale, trainer,
};

/// A service that delivers no new row for so long has not begun.
const START: Duration = Duration::from_secs(60);

pub struct Options {
    pub program: PathBuf,
    pub dir: PathBuf,
    pub workers: usize,
    /// Seed of each round.
    pub seeds: std::ops::Range<u64>,
    /// Faults to choose from; empty for all.
    pub faults: Vec<Fault>,
}

/// Runs the rounds and calls `round` at the end of each. Stops at the first round with a violation. Call it from the
/// program's first thread.
pub fn run(options: &Options, mut round: impl FnMut(u64, &str)) -> anyhow::Result<Figures> {
    let began = Instant::now();
    let loses_power = options.faults.contains(&Fault::PowerCut);
    anyhow::ensure!(
        !(loses_power && options.faults.contains(&Fault::DiskFull)),
        "disk-full and power-cut need disks of two kinds; allowed: one of them a run"
    );
    let environment = Environment::prepare(&options.dir, options.workers, loses_power)?;
    let mut figures = Figures { skipped: environment.missing.clone(), ..Figures::default() };
    let wanted = if options.faults.is_empty() { &Fault::ALL[..] } else { &options.faults };
    let faults: Vec<_> = wanted.iter().copied().filter(|fault| fault.is_possible(&environment)).collect();
    anyhow::ensure!(!faults.is_empty(), "none of these faults is possible here: {:?}", environment.missing);

    let mut cluster = Cluster::start(&options.program, &options.dir, &environment, options.workers)?;
    let runtime = Runtime::new()?;
    let session = begin(&runtime, &cluster)?;
    let trainers = ["a", "b"].map(|who| {
        let dice = Dice::new(options.seeds.start ^ u64::from(who.as_bytes()[0]));
        runtime.spawn(trainer::train(session.clone(), who, dice))
    });
    let prober = runtime.spawn(stale::probe(session.clone(), LEASE_TTL));
    await_rows(&session, 1, START).context("before the first round")?;

    for seed in options.seeds.clone() {
        // In turn, so that few rounds have seen every fault; all else is the seed's.
        let fault = faults[(seed % faults.len() as u64) as usize];
        let turn = seed / faults.len() as u64;
        let runtime = runtime.handle().clone();
        let nemesis = Nemesis {
            cluster: &mut cluster,
            environment: &environment,
            session: &session,
            figures: &mut figures,
            runtime,
        };
        let what = play(nemesis, (fault, turn), seed).with_context(|| format!("seed {seed}, {fault}"));
        // A process that does not start again may be the violation's own doing, which says more.
        figures.take(&session.history, seed);
        match what {
            Err(error) if figures.violations.is_empty() => return Err(error),
            what => round(seed, &what.unwrap_or_else(|error| format!("{error:#}"))),
        }
        if !figures.violations.is_empty() {
            break;
        }
    }

    session.is_over.store(true, Ordering::Relaxed);
    for trainer in trainers {
        runtime.block_on(trainer)?;
    }
    figures.stale_refused = runtime.block_on(prober)?;
    if figures.violations.is_empty() {
        runtime.block_on(read_all_again(&session));
    }
    // Not in order: what counts is what is on disk.
    drop(cluster);
    session.history.check_ledger(&Ledger::open(&environment.data_dir().join("ledger.redb"))?);
    figures.take(&session.history, options.seeds.start + figures.rounds.saturating_sub(1));
    figures.rows_bound = session.history.rows() as u64;
    figures.rows_checked = session.history.checked();
    figures.seconds = began.elapsed().as_secs_f64();
    Ok(figures)
}

/// One fault, its end, the recovery, and a look at what was bound; says what was done.
fn play(mut nemesis: Nemesis, (fault, turn): (Fault, u64), seed: u64) -> anyhow::Result<String> {
    let mut dice = Dice::new(seed);
    let what = nemesis.round(fault, turn, &mut dice)?;
    recover(nemesis.session, nemesis.cluster, fault.patience(), nemesis.figures);
    nemesis.runtime.block_on(check_some_bindings(nemesis.session, &mut dice));
    let figures = nemesis.figures;
    *figures.faults.entry(fault).or_default() += 1;
    figures.rounds += 1;
    figures.take(&nemesis.session.history, seed);
    Ok(what)
}

fn begin(runtime: &Runtime, cluster: &Cluster) -> anyhow::Result<Arc<Session>> {
    let client = {
        let _inside = runtime.enter();
        // Namespaces have addresses of their own, and these are not loopback.
        let dialing = DialOptions { insecure: true, ..DialOptions::default() };
        Client::with_connections(&cluster.processes.url(), Connections::dialing(dialing))?
    };
    let cases = Cases::default();
    let first = Case::new(0)?;
    let created = runtime.block_on(client.jobs().create(first.request.clone()))?;
    cases.add(first.created(&created)?);
    Ok(Arc::new(Session { client, cases, history: History::default(), is_over: false.into() }))
}

/// Waits until both trainers have bound new rows. Processes that end meanwhile are started again, as by a supervisor.
fn recover(session: &Session, cluster: &mut Cluster, patience: Duration, figures: &mut Figures) {
    let began = Instant::now();
    let mut outcome = Err(anyhow::anyhow!("not tried"));
    while outcome.is_err() && began.elapsed() < patience {
        let left = patience.saturating_sub(began.elapsed()).min(Duration::from_secs(2));
        outcome = cluster.mend().and_then(|()| await_rows(session, 4, left));
    }
    match outcome {
        Ok(()) => figures.recovered_after(began.elapsed()),
        Err(error) => session.history.violation(Violation::Stuck, format!("{error:#}")),
    }
}

/// Waits until so many more rows are delivered.
fn await_rows(session: &Session, rows: u64, patience: Duration) -> anyhow::Result<()> {
    let began = Instant::now();
    let before = session.history.checked();
    while session.history.checked() < before + rows {
        anyhow::ensure!(began.elapsed() < patience, "fewer than {rows} rows were delivered in {patience:?}");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Checks that an acknowledged binding refuses every other commitment. A lost one would accept it.
async fn check_some_bindings(session: &Session, dice: &mut Dice) {
    for case in session.cases.lasting() {
        let rows = session.history.acked_rows(&case.job);
        for _ in 0..rows.len().min(12) {
            let (row, _) = &rows[dice.below(rows.len() as u64) as usize];
            let other = Commitment::of_text(&format!("thief {} {row}", case.job));
            // An error is a refusal; or no answer, which is no evidence.
            if trainer::bind(session, &case, *row, other).await.is_ok() {
                let text = format!("{} row {row} was bound, and took another commitment", case.job);
                session.history.violation(Violation::Lost, text);
            }
        }
    }
}

/// Every row of the jobs that are open, once more: in the bytes that it came in before.
async fn read_all_again(session: &Session) {
    for case in session.cases.lasting() {
        for (row, acked) in session.history.acked_rows(&case.job) {
            let mut tries = 0..10;
            while tries.next().is_some() && !trainer::fetch(session, &case, row, acked.commitment).await {}
            if tries.is_empty() {
                let text = format!("{} row {row} could not be fetched at the end", case.job);
                session.history.violation(Violation::Stuck, text);
            }
        }
    }
}

/// The binary beside the one that runs, or `RUSTLE_BIN`.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("RUSTLE_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).map(|folder| folder.join("rustle")).find(|path| path.is_file());
    beside.context("no rustle binary beside this one: build it (cargo build --release -p rustle)")
}
