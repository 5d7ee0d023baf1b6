//! Runs many seeds and sums them up in one line.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::run::{Outcome, run_seed};

/// Counts of actions and observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub rows_delivered: u64,
    /// Branches that rewinds of a training job opened.
    pub rewinds: u64,
    /// Pairs of rows of one number and two branches, both delivered and held against each other.
    pub rows_drawn_anew: u64,
    /// Released, not of the last branch, and in the accountant's input.
    pub rows_abandoned: u64,
    /// Requests for a branch that was left.
    pub refused_by_ledger: u64,
    pub refused_by_workers: u64,
    /// Rows that a clone of the ledger's volume bound, in place of the original.
    pub rows_bound_on_clones: u64,
    /// Rows that an adopted copy bound, beside the original.
    pub rows_bound_on_copies: u64,
    /// Requests that a copy refused.
    pub refused_by_copies: u64,
    /// Jobs of adopted copies whose charge was compared with all that was released.
    pub costs_compared: u64,
    /// Requests for jobs of a data set that its budget held.
    pub jobs_admitted: u64,
    /// Requests for jobs that it did not hold.
    pub jobs_refused: u64,
    /// Rewinds that it did not hold.
    pub rewinds_refused: u64,
    /// Budgets that took the place of others.
    pub budgets_granted: u64,
    /// Charges that were given back by the end of a run.
    pub charges_given_back: u64,
    /// Charges of ended jobs that asked for no row, which were not given back: a worker had not reported yet.
    pub charges_kept_of_unused_jobs: u64,
    /// Prefixes of data sets' chains that were composed by the plain accountant.
    pub compositions_read: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.rows_delivered += other.rows_delivered;
        self.rewinds += other.rewinds;
        self.rows_drawn_anew += other.rows_drawn_anew;
        self.rows_abandoned += other.rows_abandoned;
        self.refused_by_ledger += other.refused_by_ledger;
        self.refused_by_workers += other.refused_by_workers;
        self.rows_bound_on_clones += other.rows_bound_on_clones;
        self.rows_bound_on_copies += other.rows_bound_on_copies;
        self.refused_by_copies += other.refused_by_copies;
        self.costs_compared += other.costs_compared;
        self.jobs_admitted += other.jobs_admitted;
        self.jobs_refused += other.jobs_refused;
        self.rewinds_refused += other.rewinds_refused;
        self.budgets_granted += other.budgets_granted;
        self.charges_given_back += other.charges_given_back;
        self.charges_kept_of_unused_jobs += other.charges_kept_of_unused_jobs;
        self.compositions_read += other.compositions_read;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows_delivered, rewinds, rows_drawn_anew, rows_abandoned, .. } = self;
        write!(
            f,
            "{rows_delivered} rows delivered; {rewinds} rewinds, {rows_drawn_anew} rows held against those of the \
             branches before, {rows_abandoned} abandoned rows listed, {} requests for branches that were left refused \
             by the ledger and {} by workers; {} rows bound on clones and {} on adopted copies, {} requests refused by \
             copies, {} costs compared; {} jobs admitted by budgets and {} refused, {} rewinds refused, {} budgets changed, {} \
             charges given back and {} of unused jobs kept, {} compositions read",
            self.refused_by_ledger,
            self.refused_by_workers,
            self.rows_bound_on_clones,
            self.rows_bound_on_copies,
            self.refused_by_copies,
            self.costs_compared,
            self.jobs_admitted,
            self.jobs_refused,
            self.rewinds_refused,
            self.budgets_granted,
            self.charges_given_back,
            self.charges_kept_of_unused_jobs,
            self.compositions_read
        )
    }
}

#[derive(Debug, Default)]
pub struct Figures {
    pub seeds: u64,
    pub virtual_time: Duration,
    pub longest_recovery: Duration,
    pub tally: Tally,
    pub faults: BTreeMap<&'static str, u64>,
    /// The violations, each with its seed.
    pub violations: Vec<(u64, String)>,
    /// Runs that went another way the second time.
    pub unrepeatable: Vec<u64>,
    pub repeated: u64,
    pub took: Duration,
}

impl Figures {
    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.virtual_time += outcome.virtual_time;
        self.longest_recovery = self.longest_recovery.max(outcome.recovery);
        self.tally.add(outcome.tally);
        outcome.faults.iter().for_each(|(kind, count)| *self.faults.entry(kind).or_default() += count);
        self.violations.extend(outcome.violations.into_iter().map(|text| (outcome.seed, text)));
    }

    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.unrepeatable.is_empty()
    }

    pub fn json(&self) -> Value {
        json!({
            "seeds": self.seeds,
            "virtual_hours": self.virtual_time.as_secs_f64() / 3600.0,
            "longest_recovery_s": self.longest_recovery.as_secs_f64(),
            "tally": self.tally,
            "faults": self.faults,
            "violations": self.violations,
            "unrepeatable": self.unrepeatable,
            "repeated": self.repeated,
            "took_s": self.took.as_secs_f64(),
        })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let failed: std::collections::BTreeSet<_> = self.violations.iter().map(|(seed, _)| seed).collect();
        write!(
            f,
            "{} seeds, {:.1} virtual hours, {}; {}; {} of {} repeated alike; longest recovery {:.1} s; \
             {} seeds with violations",
            self.seeds,
            self.virtual_time.as_secs_f64() / 3600.0,
            self.tally,
            faults.join(", "),
            self.repeated - self.unrepeatable.len() as u64,
            self.repeated,
            self.longest_recovery.as_secs_f64(),
            failed.len(),
        )?;
        if failed.is_empty() {
            write!(f, " (below {:.1e} a run at 95 %)", 3.0 / self.seeds.max(1) as f64)?;
        }
        let each = self.took.as_secs_f64() * 1000.0 / self.seeds.max(1) as f64;
        write!(f, "; {:.1} s, {each:.1} ms a seed", self.took.as_secs_f64())
    }
}

/// Runs `seeds` on so many threads; one seed in `repeat_every` twice, which must come out alike. Stops after the
/// first violation where `first` is set.
pub fn simulate(
    seeds: std::ops::Range<u64>,
    threads: usize,
    repeat_every: u64,
    first: bool,
) -> anyhow::Result<Figures> {
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let figures = Mutex::new(Figures::default());
    let work = || -> anyhow::Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let has_failed = first && !lock(&figures).is_good();
            if seed >= seeds.end || has_failed {
                return Ok(());
            }
            let outcome = run_seed(seed, false)?;
            let is_repeated =
                repeat_every > 0 && seed.is_multiple_of(repeat_every) && outcome.is_repeatable();
            let is_alike = !is_repeated || run_seed(seed, false)? == outcome;
            let mut figures = lock(&figures);
            figures.repeated += u64::from(is_repeated);
            if !is_alike {
                figures.unrepeatable.push(seed);
            }
            figures.add(outcome);
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(_) => Err(anyhow::anyhow!("a thread of the simulation panicked")),
        })
    })?;
    let figures = figures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Figures { took: began.elapsed(), ..figures })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
