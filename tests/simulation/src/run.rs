//! One seed, from an empty ledger to the last row.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Once};
use std::time::{Duration, UNIX_EPOCH};

use dice::Dice;
use futures::FutureExt;
use ledger::Ledger;
use rayon::ThreadPool;
use turmoil::{Builder, Sim};

use crate::buyers::BUYERS;
use crate::disk::Disk;
use crate::figures::Tally;
use crate::history::History;
use crate::nemesis::Nemesis;
use crate::pool::Pool;
use crate::site::Standing;
use crate::software::{coordinator, worker_process};
use crate::world::{COPY, ORIGINAL, WORKERS, World, worker};
use crate::{adversary, buyers, operator, trainer, twin};

/// Longest time of a message without faults.
pub const LATENCY: Duration = Duration::from_millis(20);
pub const SHORTEST_LATENCY: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(5);
/// After everything is mended, the jobs must end within this time. A connection whose segments a partition has
/// swallowed is given up after 30 s without an answer to a ping, and a row may need more than one connection.
const RECOVERY: Duration = Duration::from_secs(120);
const SAMPLED_EVERY: u64 = 8;
/// A lease may have been held so much longer than it was seen.
pub const UNSEEN: Duration = TICK.saturating_mul(SAMPLED_EVERY as u32);

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    pub virtual_time: Duration,
    /// The time from the end of all faults to the end of the jobs.
    pub recovery: Duration,
    pub tally: Tally,
    pub faults: BTreeMap<&'static str, u64>,
    pub violations: Vec<String>,
    /// A hash of all events with their times: equal for equal runs.
    pub trace: u64,
    /// A server has begun to shut down in order: tokio wakes its connections in an order that is not the seed's to say.
    pub has_shut_down: bool,
    /// Checkpoints are sealed and written by threads of their own, which say in what order tasks that wait at one
    /// virtual moment go on.
    pub has_store: bool,
}

impl Outcome {
    /// Returns whether the same seed must give the same trace.
    pub fn is_repeatable(&self) -> bool {
        !self.has_shut_down && !self.has_store
    }
}

pub fn run_seed(seed: u64, is_printed: bool) -> anyhow::Result<Outcome> {
    own_pool();
    catch_panics();
    node::process::simulation::begin(seed);
    let outcome = simulate(seed, is_printed);
    node::process::simulation::end();
    outcome
}

fn simulate(seed: u64, is_printed: bool) -> anyhow::Result<Outcome> {
    let world = World::new(seed, is_printed)?;
    let mut nemesis = Nemesis::new(&world);
    let mut sim = build(seed, &world);
    let mut steps = 0;
    let mut changes = 0;
    loop {
        let now = sim.elapsed();
        world.history().now = now;
        nemesis.act(&mut sim, &world);
        let stepped = catch_unwind(AssertUnwindSafe(|| sim.step()));
        let mut history = world.history();
        if let Some(panic) = PANIC.take() {
            history.violation(format!("panic: {panic}"));
        }
        let changes_now = world.site(ORIGINAL).disk().changes();
        let has_changed = changes != changes_now;
        if has_changed {
            changes = changes_now;
            history.event(format!("disk: {changes} changes"));
        }
        match stepped {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => break,
            Ok(Err(error)) => history.violation(format!("a node failed: {error}")),
            Err(_) => history.violation("the simulation panicked"),
        }
        if now > nemesis.healed() + RECOVERY {
            history.violation(format!("no end {RECOVERY:?} after everything was mended"));
        }
        if !history.violations.is_empty() {
            break;
        }
        drop(history);
        steps += 1;
        // A lease may come and go between two looks that far apart.
        if has_changed || steps % SAMPLED_EVERY == 0 {
            world.sample();
        }
    }
    let elapsed = sim.elapsed();
    for site in &world.sites {
        site.disk().process_ended();
        site.closed();
    }
    drop(sim);
    check_what_is_left(&world);
    let mut history = world.history();
    Ok(Outcome {
        seed,
        virtual_time: elapsed,
        recovery: elapsed.saturating_sub(nemesis.healed()),
        tally: history.tally,
        trace: history.trace,
        has_shut_down: history.has_shut_down || world.has_coordinator_begun_to_stop(),
        has_store: world.has_store(),
        faults: std::mem::take(&mut history.faults),
        violations: std::mem::take(&mut history.violations),
    })
}

fn build(seed: u64, world: &Arc<World>) -> Sim<'static> {
    let mut sim = Builder::new()
        .rng_seed(seed)
        .epoch(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(100_000))
        .min_message_latency(SHORTEST_LATENCY)
        .max_message_latency(LATENCY)
        .tcp_capacity(4096)
        .enable_random_order()
        .build();
    // Behind pointers, each part of the service is compiled once and not as often as turmoil names it.
    let on = world.clone();
    sim.host(world.site(ORIGINAL).host, move || coordinator(on.clone(), ORIGINAL).boxed_local());
    if world.mishap.is_some() {
        let on = world.clone();
        sim.host(world.site(COPY).host, move || coordinator(on.clone(), COPY).boxed_local());
        sim.client("twin", twin::train_on_copies(world.clone()).boxed_local());
    }
    for at in 0..WORKERS {
        let on = world.clone();
        sim.host(worker(at), move || worker_process(on.clone(), at).boxed_local());
    }
    for at in 0..2 {
        sim.client(world.cases[at].job.as_str(), trainer::train(world.clone(), at).boxed_local());
    }
    if let Some(pool) = Pool::of(seed) {
        for at in 0..BUYERS {
            sim.client(format!("buyer-{at}"), buyers::buy(world.clone(), at, pool).boxed_local());
        }
    }
    sim.client("rival", adversary::compete(world.clone()).boxed_local());
    sim.client("operator", operator::operate(world.clone()).boxed_local());
    sim
}

/// The power goes once more, and all that was not synced with it.
fn check_what_is_left(world: &World) {
    let disk = world.site(ORIGINAL).disk();
    disk.power_cut(1, &mut Dice::named(world.seed, "end"));
    if disk.is_named() {
        check_at_the_end(world, &disk, |history, ledger| {
            history.check_ledger(ledger);
            history.check_report(ledger, &world.cases);
            history.count_given_back(ledger);
        });
    } else {
        world.history().check_nothing_acked();
    }
    let copy = world.site(COPY);
    if copy.standing() == Standing::Adopted {
        check_at_the_end(world, &copy.disk(), |history, ledger| {
            history.check_adopted(ledger, &world.cases);
            history.check_budget(ledger, true);
        });
    }
}

fn check_at_the_end(world: &World, disk: &Disk, check: impl FnOnce(&mut History, &Ledger)) {
    disk.set_full(false);
    disk.power_cut(1, &mut Dice::named(world.seed, "end"));
    match Ledger::open_on(disk.open(), Path::new("ledger.redb"), world.ledger_id) {
        Ok(ledger) => check(&mut world.history(), &ledger),
        Err(error) => world.history().violation(format!("the ledger does not open at the end: {error}")),
    }
}

thread_local! {
    static POOL: Cell<Option<ThreadPool>> = const { Cell::new(None) };
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs the kernel's parallel work on this thread.
fn own_pool() {
    if rayon::current_thread_index().is_none() {
        POOL.set(rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok());
    }
}

/// A task that panics ends in silence, as tokio has it; here that is a violation.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if node::process::simulation::is_on() {
                PANIC.set(Some(panic.to_string()))
            } else {
                before(panic)
            }
        }));
    });
}
