//! An honest job beside each attack. A slice asserts what holds on any machine; at size its times are measured, and
//! an attack that makes it more than twice as slow fails the run.

use std::{
    cell::Cell,
    fs,
    process::Command,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use node::auth::Role;
use tests::{TestCluster, job};
use tokio::runtime::Runtime;

use crate::{
    DIMENSION, Process,
    attacks::{
        ATTACKS, Attack, AttackTarget, BEGUN, giant_messages, no_attack, resets, silent, slow_handshakes,
        spinning, streams,
    },
    http2,
    processes::{Processes, processor},
    tenant,
};

/// Largest factor by which an attack may slow an honest fetch at the 99th percentile.
const LIMIT: f64 = 2.0;
const TURNS: usize = 5;
const AFTERMATH: Duration = Duration::from_millis(1_500);
/// Longest turn without an attack.
const NO_ATTACK: Duration = Duration::from_secs(30);
/// Time from the begin of one fetch to the next, at full size.
const STEP: Duration = Duration::from_millis(10);

type Attacker = (&'static str, Attack, Process);

/// The first two are no attacks: nothing, and processors that are busy with something else. In every turn each has its
/// place, so that what drifts, drifts for all. The last two are mild: little is left of them when it begins anew.
const ATTACKERS: [Attacker; 15] = [
    ("none", no_attack, Process::Coordinator),
    ("none, other processors spin", spinning, Process::Coordinator),
    ("giant messages", giant_messages, Process::Coordinator),
    ("streams", streams, Process::Coordinator),
    ("resets", resets, Process::Coordinator),
    ("pings", http2::pings, Process::Coordinator),
    ("settings", http2::settings, Process::Coordinator),
    ("header bombs", http2::bombs, Process::Coordinator),
    ("giant messages to the worker", giant_messages, Process::Worker),
    ("streams to the worker", streams, Process::Worker),
    ("resets to the worker", resets, Process::Worker),
    ("pings to the worker", http2::pings, Process::Worker),
    ("an authorised trainer", tenant::tenant, Process::Coordinator),
    ("silent connections", silent, Process::Coordinator),
    ("slow handshakes", slow_handshakes, Process::Coordinator),
];

fn number(variable: &str) -> Option<f64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Attackers of each kind at once.
fn count() -> usize {
    number("COUNT").map_or(60, |count| count as usize)
}

fn is_at_size() -> bool {
    count() > 100
}

/// All, or of the attacks those that `ATTACKS` names, with commas between.
fn attackers() -> Vec<Attacker> {
    let (none, attacks) = ATTACKERS.split_at(2);
    let chosen = std::env::var("ATTACKS").unwrap_or_default();
    let named = |name: &str| {
        let names = || attacks.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
        let found = attacks.iter().find(|(other, ..)| *other == name);
        *found.unwrap_or_else(|| panic!("ATTACKS: no {name:?}; there are {}", names()))
    };
    let chosen: Vec<_> =
        chosen.split(',').map(str::trim).filter(|name| !name.is_empty()).map(named).collect();
    [none, if chosen.is_empty() { attacks } else { &chosen }].concat()
}

/// The length of a turn.
#[derive(Clone, Copy)]
enum Length {
    Fetches(usize),
    Time(Duration),
}

/// `MINUTES`: of each attack, in all its turns together.
fn length(is_attack: bool) -> Length {
    match (number("MINUTES"), is_at_size()) {
        (Some(minutes), _) => {
            let longest = if is_attack { Duration::MAX } else { NO_ATTACK };
            Length::Time(Duration::from_secs_f64(minutes * 60.0 / turns() as f64).min(longest))
        }
        (None, true) => Length::Fetches(1_000),
        (None, false) => Length::Fetches(50),
    }
}

fn turns() -> usize {
    if is_at_size() { TURNS } else { 1 }
}

/// Who means no good has processors of their own, as on machines of their own: the thread that calls this, and all that
/// it starts, keeps to the first half, the attackers' threads to the second. A slice measures no times and needs no
/// such thing; nor is it to be had on one processor.
fn apart() -> Runtime {
    let all = processors();
    let (own, theirs) = all.split_at(all.len() / 2);
    let is_apart = is_at_size() && !own.is_empty();
    if is_apart {
        keep_to(own);
    }
    let threads = if is_apart { theirs.len() } else { all.len() };
    let theirs = theirs.to_vec();
    let elsewhere = move || {
        if is_apart {
            keep_to(&theirs);
        }
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(threads).enable_all().on_thread_start(elsewhere).build().unwrap()
}

/// Those that this process may run on.
fn processors() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let ranges = list.split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

/// This thread, and what it starts from now on.
fn keep_to(processors: &[usize]) {
    let processors = processors.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap();
    let set = Command::new("taskset").args(["--cpu-list", "--pid", &processors, thread]).output();
    let is_set = set.is_ok_and(|output| output.status.success());
    assert!(is_set, "a thread can't be kept to processors {processors} (taskset of util-linux)");
}

/// Trains: a new row each step, bound by the coordinator, made, noted and sent by the worker.
struct Honest<'a> {
    cluster: &'a TestCluster,
    client: client::Client,
    next_row: Cell<u64>,
}

impl<'a> Honest<'a> {
    fn at(cluster: &'a TestCluster) -> Self {
        let client = cluster.client_as(&Role::Job("honest".into()));
        Self { cluster, client, next_row: Cell::new(0) }
    }

    fn step(&self) -> Duration {
        let row = self.next_row.get();
        let started = Instant::now();
        let texts = vec![format!("step {row}")];
        let patience = Duration::from_secs(60);
        self.cluster
            .fetch_by(&self.client, &job("honest"), row..row + 1, 0..DIMENSION, texts, patience)
            .expect("honest calls go on");
        self.next_row.set(row + 1);
        started.elapsed()
    }

    /// Returns the times of the steps, in order.
    fn steps(&self, length: Length) -> Vec<Duration> {
        let begun = Instant::now();
        let mut times = Vec::new();
        while match length {
            Length::Fetches(count) => times.len() < count,
            Length::Time(time) => begun.elapsed() < time,
        } {
            let took = self.step();
            times.push(took);
            if is_at_size() {
                std::thread::sleep(STEP.saturating_sub(took));
            }
        }
        times.sort();
        times
    }
}

fn p99(times: &[Duration]) -> f64 {
    times[(times.len() - 1) * 99 / 100].as_secs_f64() * 1e3
}

/// The figures of one turn of an attack.
struct Turn {
    /// Milliseconds.
    p99: f64,
    begun: u64,
    attacks_per_second: f64,
    /// Of one processor, in percent.
    coordinator: f64,
}

fn turn(
    against: &AttackTarget<'_>,
    honest: &Honest<'_>,
    attackers: &Runtime,
    attack: Attack,
    length: Length,
) -> Turn {
    let begun_before = BEGUN.load(Ordering::Relaxed);
    let mut at_it = attack(against, attackers, count());
    std::thread::sleep(Duration::from_millis(500));
    let cluster = against.cluster;
    let begun = Instant::now();
    let attacks = ATTACKS.load(Ordering::Relaxed);
    let used = processor(cluster);
    let p99 = p99(&honest.steps(length));
    let seconds = begun.elapsed().as_secs_f64();
    let turn = Turn {
        p99,
        begun: BEGUN.load(Ordering::Relaxed) - begun_before,
        attacks_per_second: (ATTACKS.load(Ordering::Relaxed) - attacks) as f64 / seconds,
        coordinator: 100.0 * (processor(cluster) - used) / seconds,
    };
    at_it.abort_all();
    while attackers.block_on(at_it.join_next()).is_some() {}
    // What the service still has to work off must not count as the next one's.
    if is_at_size() {
        std::thread::sleep(AFTERMATH);
    }
    turn
}

fn median(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> f64 {
    let mut values: Vec<f64> = turns.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn an_honest_job_goes_on_under_each_attack() {
    let kinds = attackers();
    let attackers = apart();
    let cluster = tenant::shared_cluster();
    let honest = Honest::at(&cluster);
    honest.steps(Length::Fetches(10));
    let before = Processes::of(&cluster);
    let mut found: Vec<Vec<Turn>> = kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..turns() {
        for (number, (name, attack, of)) in kinds.iter().enumerate() {
            let against = AttackTarget { cluster: &cluster, of: *of };
            found[number].push(turn(&against, &honest, &attackers, *attack, length(number > 1)));
            before.check(&cluster, name);
        }
    }
    for ((name, ..), found) in kinds.iter().zip(&found).skip(2) {
        assert!(found.iter().all(|turn| turn.begun > 0), "{name}: no attack was made");
    }
    let misses = report(&kinds, &found);
    println!(
        "flood: coordinator and worker grew by {:?} MiB",
        before.grown().iter().map(|b| b >> 20).collect::<Vec<_>>()
    );
    drop(honest);
    cluster.cluster.stop().expect("both processes end as they should");
    // A slice beside other tests can't tell the attackers from the machine.
    assert!(misses.is_empty() || !is_at_size(), "beyond {LIMIT} times what it takes alone: {misses:#?}");
}

/// One line an attack; those over the limit.
fn report(kinds: &[Attacker], found: &[Vec<Turn>]) -> Vec<String> {
    let [alone, beside] = [0, 1].map(|number| median(&found[number], |turn| turn.p99));
    println!("flood: honest p99 alone {alone:.1} ms; medians of {} turns:", turns());
    let mut misses = Vec::new();
    for (number, ((name, ..), found)) in kinds.iter().zip(found).enumerate() {
        let p99 = median(found, |turn| turn.p99);
        let line = format!(
            "{name}, {} attackers, {:.0} done a second: honest p99 {p99:.1} ms, {:.2} times that alone, \
             {:.2} times that beside threads that spin, coordinator at {:.0} % of a processor",
            count(),
            median(found, |turn| turn.attacks_per_second),
            p99 / alone,
            p99 / beside,
            median(found, |turn| turn.coordinator),
        );
        println!("flood: {line}");
        if number > 1 && p99 / alone > LIMIT {
            misses.push(line);
        }
    }
    misses
}
