//! What one worker behind a slow link costs: whole rows beside that worker's part of a row alone, and the other workers'
//! parts beside the same when all links are fast.

use std::{ops::Range, path::Path, time::Instant};

use anyhow::{Context, ensure};
use client::{Client, Connections, FetchRequest, Route};
use dice::Dice;
use node::net::dial::DialOptions;
use node::process::runtime::Runtime;
use serde::Serialize;

use crate::{
    cluster::Cluster,
    environment::Environment,
    failover::all_ready,
    rows::{Rows, percentile},
};

/// A whole row takes as long as its slowest part, and so much for all else, in times of that part.
const WHOLE: f64 = 1.25;
/// Of parts that come from elsewhere, while a whole row is awaited.
const OTHERS: f64 = 2.0;
/// Fetches whose median is taken: of what is slow, and of what is not.
const SLOW: usize = 3;
const FAST: usize = 40;

pub struct Options {
    pub dimension: u64,
    pub workers: usize,
    pub turns: u64,
}

/// Seconds, medians of one turn.
#[derive(Debug, Serialize)]
pub struct Turn {
    /// The slow worker's part of a row.
    pub part: f64,
    pub whole: f64,
    /// Another worker's part, before any link was slow, and while a whole row was awaited.
    pub other_before: f64,
    pub other_beside: f64,
}

#[derive(Debug, Serialize)]
pub struct Figures {
    pub dimension: u64,
    pub workers: usize,
    pub turns: Vec<Turn>,
}

impl Figures {
    /// The median over all turns, and the worst.
    fn ratio(&self, of: impl Fn(&Turn) -> f64) -> (f64, f64) {
        let ratios: Vec<f64> = self.turns.iter().map(of).collect();
        (percentile(&ratios, 50.0), percentile(&ratios, 100.0))
    }

    fn whole(&self) -> (f64, f64) {
        self.ratio(|turn| turn.whole / turn.part)
    }

    fn others(&self) -> (f64, f64) {
        self.ratio(|turn| turn.other_beside / turn.other_before)
    }

    pub fn is_good(&self) -> bool {
        self.whole().0 <= WHOLE && self.others().0 <= OTHERS
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, whole_worst) = self.whole();
        let (others, others_worst) = self.others();
        let median = |of: fn(&Turn) -> f64| self.ratio(of).0;
        write!(
            f,
            "{} turns, one of {} workers at 1 Mbit/s, dimension {}: its part of a row takes {:.2} s, a whole row {:.2} s, \
             {whole:.2} times that (worst {whole_worst:.2}, limit {WHOLE}); another worker's part {:.1} ms before and \
             {:.1} ms meanwhile, {others:.2} times (worst {others_worst:.2}, limit {OTHERS})",
            self.turns.len(),
            self.workers,
            self.dimension,
            median(|turn| turn.part),
            median(|turn| turn.whole),
            1e3 * median(|turn| turn.other_before),
            1e3 * median(|turn| turn.other_beside),
        )
    }
}

/// From the program's first thread, as root: each worker is in a network namespace.
pub fn run(
    program: &Path,
    dir: &Path,
    options: &Options,
    mut turned: impl FnMut(),
) -> anyhow::Result<Figures> {
    let environment = Environment::prepare(dir, options.workers, false)?;
    ensure!(environment.has_network, "no link can be made slow here: {:?}", environment.missing);
    let cluster = Cluster::start(program, dir, &environment, options.workers)?;
    let runtime = Runtime::new()?;
    let client = {
        let _inside = runtime.enter();
        let dialing = DialOptions { insecure: true, ..DialOptions::default() };
        Client::with_connections(&cluster.processes.url(), Connections::dialing(dialing))?
    };
    let count = options.turns * 4 * (SLOW + FAST) as u64;
    let mut rows = Rows::begin(runtime, client, (options.dimension, options.workers as u32), count)?;
    rows.take()?;
    let mut turns = Vec::new();
    for number in 0..options.turns {
        let mut dice = Dice::new(number);
        let worker = dice.below(options.workers as u64) as usize;
        let endpoint = cluster.processes.worker(worker).context("the worker runs")?.grpc();
        turns.push(turn(&mut rows, &environment, (worker, endpoint), &mut dice)?);
        turned();
    }
    Ok(Figures { dimension: options.dimension, workers: options.workers, turns })
}

fn turn(
    rows: &mut Rows,
    environment: &Environment,
    (worker, endpoint): (usize, &str),
    dice: &mut Dice,
) -> anyhow::Result<Turn> {
    rows.runtime.block_on(all_ready(&rows.client, &rows.job))?;
    let routes = rows.runtime.block_on(rows.client.routing(&rows.job))?.routes;
    let is_slow = |route: &&Route| route.endpoint.as_deref() == Some(endpoint);
    let slow = routes.iter().find(is_slow).with_context(|| format!("{endpoint} serves nothing"))?;
    let other = routes.iter().find(|route| !is_slow(route)).context("no other worker serves")?;
    let [slow, other] = [slow, other].map(|route| route.range.start..route.range.end);
    let whole = 0..rows.dimension;

    let other_before = median(rows, &other, FAST)?;
    environment.slow(worker)?;
    let part = median(rows, &slow, SLOW)?;
    let whole_row = median(rows, &whole, SLOW)?;
    let awaited = rows.next(whole.clone());
    let awaited = rows.runtime.spawn(fetch(rows.client.clone(), awaited));
    let other_beside = median(rows, &other, FAST)?;
    ensure!(
        !awaited.is_finished(),
        "a row came before {FAST} parts of other workers: take a higher dimension"
    );
    rows.runtime.block_on(awaited)??;
    environment.heal(worker);

    let now = rows.runtime.block_on(rows.client.routing(&rows.job))?.routes;
    let is_same = now.iter().map(|route| &route.endpoint).eq(routes.iter().map(|route| &route.endpoint));
    ensure!(is_same, "shards have changed hands meanwhile: {routes:?}, then {now:?}");
    rows.take()?;
    rows.compare(dice)?;
    Ok(Turn { part, whole: whole_row, other_before, other_beside })
}

/// Seconds of so many fetches of the range, each of another row.
fn median(rows: &mut Rows, range: &Range<u64>, count: usize) -> anyhow::Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..count {
        let request = rows.next(range.clone());
        seconds.push(rows.runtime.block_on(fetch(rows.client.clone(), request))?);
    }
    Ok(percentile(&seconds, 50.0))
}

async fn fetch(client: Client, request: FetchRequest) -> anyhow::Result<f64> {
    let mut out = vec![0.0; (request.range.end - request.range.start) as usize];
    let began = Instant::now();
    client.fetch(request).into_slice(&mut out).await?;
    Ok(began.elapsed().as_secs_f64())
}
