//! Noise under MPI: one launch of `mpirun` whose ranks own a shard each (docs/mpi.md).
//!
//! Everything that is MPI's lies in this module, everything that is a shard's is the code behind gRPC: [`owner`]
//! restores, makes and replays by it, [`keeper`] binds in the same ledger and lists the same checkpoints. [`step`] runs
//! a launch by itself; [`serve`] answers training ranks of the same launch, in Rust ([`training`]) or in Python. MPI has
//! neither names nor encryption nor recovery: a launch is one domain of trust, and a rank that fails ends it.

mod agreed;
mod args;
mod asks;
mod bindings;
mod checkpoint;
mod hello;
mod keeper;
pub mod launch;
pub mod limit;
mod message;
mod owner;
mod place;
mod rounds;
mod rows;
pub mod serve;
mod sink;
mod step;
mod step_size;
mod told;
pub mod training;
mod window;

use std::sync::Arc;

use anyhow::Context;
use mpi::topology::Communicator;
use node::cpu_pool::CpuPool;
use node::hardening::forbid_cores;
use node::runtime::Runtime;
use noise_kernel::JobKey;
use prost::Message;
use proto::{CoordinateRange, JobId, RowRange, model::LeaseGrant, pb};
use serde_json::json;
use tokio::signal::unix::SignalKind;
use zeroize::Zeroizing;

pub use args::MpiArgs;

use self::{
    agreed::Agreed,
    hello::Hello,
    keeper::Keeper,
    launch::{Launch, Started},
    limit::end_launch,
    owner::{Owner, Source},
    serve::Service,
    sink::Sink,
    step::Steps,
    told::{Telling, Told},
    training::Training,
};
use crate::{config::WorkerArgs, limits::Limits, marks::Marks};

const NOBODY: &str = "no rank of this launch is a training rank: nobody would ask; start one beside (docs/mpi.md), or \
                      leave --serve away";
const NOT_SERVING: &str = "this launch has training ranks; give the noise ranks --serve";

/// Runs this rank to its end. Call on the process's first thread. An error ends the whole launch.
pub fn run(args: &MpiArgs) {
    let limit = args.limit();
    let started = Started::start(limit).unwrap_or_else(|error| end_launch(format_args!("{error:#}")));
    let done = if args.train { train(args, started) } else { noise(args, started) };
    if let Err(error) = done {
        end_launch(format_args!("{error:#}"));
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Runtime::new().context("start a runtime")
}

fn noise(args: &MpiArgs, started: Started) -> anyhow::Result<()> {
    let runtime = runtime()?;
    if args.serve {
        outlive_signals(&runtime)?;
    }
    let mut rank = NoiseRank::join(args, started, &runtime)?;
    if args.serve {
        rank.service(&runtime, args.checkpoint_every).run()?
    } else {
        rank.steps(args, &runtime)?
    }
    rank.end();
    Ok(())
}

/// What tells a whole launch to stop is for training ranks to follow: until they are done they are served, and the last
/// checkpoint is written after that.
fn outlive_signals(runtime: &Runtime) -> anyhow::Result<()> {
    let _within = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::user_defined1()] {
        // The handler stays when what listens to it is gone.
        drop(tokio::signal::unix::signal(kind)?);
    }
    Ok(())
}

/// A noise rank that has its shard.
pub struct NoiseRank {
    owner: Arc<Owner>,
    keeper: Option<Keeper>,
    copying: CpuPool,
    pub launch: Launch,
}

impl NoiseRank {
    /// Agrees with the launch, takes the key, gets its shard from the first noise rank, and restores it.
    pub fn join(args: &MpiArgs, started: Started, runtime: &Runtime) -> anyhow::Result<Self> {
        forbid_cores().context("forbid core dumps of this rank")?;
        let plan = args.plan()?;
        let settings = args.worker(1)?;
        let own_key = if args.broadcast_key { None } else { Some(read_key(args, &settings, runtime)?) };
        // As of a worker, whose variable it shares.
        let folder = args.state_dir.as_ref().filter(|folder| *folder != "none");
        let record = folder.map(|folder| folder.join(format!("rank-{}", started.rank())));
        let marks = Arc::new(Marks::open(record.as_deref())?);
        let hello = Hello {
            dimension: args.dimension(&plan)?,
            plan_digest: plan.digest(),
            key_commitment: own_key.as_ref().map(JobKey::commitment).unwrap_or_default(),
            job: Hello::of_job(&args.job),
            iterations: plan.iterations(),
            ..Hello::noise()
        };
        let launch = started.agree(hello)?;
        match (args.serve, launch.training_ranks().is_empty()) {
            (true, true) => launch.refuse(NOBODY),
            (false, false) => launch.refuse(NOT_SERVING),
            _ => {}
        }
        let told = told(&launch, &marks, &args.job);
        let key = match own_key {
            Some(key) => key,
            None => broadcast_key(args, &settings, &launch, runtime)?,
        };
        let keeper = if launch.is_root() {
            Some(Keeper::open(args, &plan, &key, &ranges(&launch), &told)?)
        } else {
            None
        };
        let grants = keeper.as_ref().map(|keeper| grants(args, keeper)).transpose()?;
        let said = grants.map(|grants| grants.encode_to_vec()).unwrap_or_default();
        let said = launch.broadcast_any("the first noise rank, to open the ledger", said);
        let said = pb::HeartbeatResponse::decode(&said[..]).context("what the first noise rank grants")?;
        let own = said.grants.get(launch.role.rank() as usize).cloned().context("no shard for this rank")?;
        let grant = LeaseGrant::try_from(own)?;
        runtime.block_on(marks.see(said.coordinator_epoch, vec![(grant.job.clone(), grant.branch())]))?;
        let settings = args.worker(launch.ranks_on_node())?;
        let pool = CpuPool::new(settings.pool_threads()).context("start the CPU pool")?;
        let copying = CpuPool::named("copy", settings.pool_threads()).context("start the copying threads")?;
        let limits = Arc::new(Limits::new(pool, &settings));
        let plan = Arc::new(plan);
        let epoch = said.coordinator_epoch;
        let source = Source { plan, key, limits, marks, epoch, patience: args.time_limit };
        let started = Owner::start(grant, source);
        Ok(Self { owner: runtime.block_on(started)?, keeper, copying, launch })
    }

    /// Serves the training ranks. The first noise rank keeps the ledger for as long.
    pub fn service<'a>(&'a mut self, runtime: &'a Runtime, checkpoint_every: u64) -> Service<'a> {
        let owner = self.owner.clone();
        let copying = self.copying.clone();
        Service::new(&self.launch, runtime, owner, copying, self.keeper.take(), checkpoint_every)
    }

    /// Gives the window back and ends MPI here, once all others do.
    pub fn end(self) {
        let Self { owner, launch, .. } = self;
        drop(owner);
        launch.end();
    }

    fn steps(&mut self, args: &MpiArgs, runtime: &Runtime) -> anyhow::Result<()> {
        let mut said = [0; _];
        if let Some(keeper) = &self.keeper {
            let end = self.launch.iterations();
            let rows = args.steps.unwrap_or(RowRange { start: keeper.next_row()?.min(end), end });
            let checkpoint_every = args.checkpoint_every;
            let commitment = args.commitment();
            said = Agreed { rows, checkpoint_every, commitment }.to_bytes();
        }
        self.launch.broadcast("the first rank, to say which rows", &mut said);
        let Agreed { rows, checkpoint_every, commitment } = Agreed::of(&said)?;
        let owner = self.owner.clone();
        let keeper = self.keeper.take();
        let launch = &self.launch;
        let mut steps = Steps { launch, runtime, owner, keeper, rows, commitment, checkpoint_every };
        if let Some(answer) = steps.run(args.out.as_deref())? {
            println!("{answer}");
        }
        Ok(())
    }
}

/// What all noise ranks have released of the job, by their own records.
fn told(launch: &Launch, marks: &Marks, job: &JobId) -> Told {
    let mut telling = Telling::of(marks, job);
    let mut told = Told::default();
    loop {
        let parts = launch.gather("the noise ranks, to say what they have released", telling.next_part());
        let ranks = launch.shards.iter().map(|(rank, _)| *rank);
        if !told.take(ranks.zip(parts)) {
            return told;
        }
    }
}

fn ranges(launch: &Launch) -> Vec<CoordinateRange> {
    launch.shards.iter().map(|(_, range)| *range).collect()
}

fn grants(args: &MpiArgs, keeper: &Keeper) -> anyhow::Result<pb::HeartbeatResponse> {
    // Rows that are asked for again are drawn again; making goes on where the job stands.
    let next_row = match args.steps {
        Some(steps) => steps.start,
        None => keeper.next_row()?,
    };
    Ok(keeper.grants(next_row)?)
}

fn read_key(args: &MpiArgs, settings: &WorkerArgs, runtime: &Runtime) -> anyhow::Result<JobKey> {
    let keyring = runtime.block_on(settings.keyring())?;
    Ok(keyring.key(&args.job)?)
}

/// The first noise rank reads the key and gives it to the others.
fn broadcast_key(
    args: &MpiArgs,
    settings: &WorkerArgs,
    launch: &Launch,
    runtime: &Runtime,
) -> anyhow::Result<JobKey> {
    let mut bytes = Zeroizing::new([0u8; 32]);
    if launch.is_root() {
        bytes.copy_from_slice(read_key(args, settings, runtime)?.secret_bytes());
    }
    launch.broadcast("the first noise rank, to read the key", &mut bytes[..]);
    Ok(JobKey::from_bytes(&bytes[..])?)
}

/// A training rank that fetches rows one by one and does nothing with them: to try a launch, and in tests.
fn train(args: &MpiArgs, started: Started) -> anyhow::Result<()> {
    let steps = args.steps.context("--steps is missing")?;
    let bytes =
        args.window.then_some(args.range).map_or(0, |range| range.map_or(u64::MAX, |range| 4 * range.len()));
    anyhow::ensure!(
        bytes != u64::MAX,
        "--window needs --range: memory is lent before the dimension is known"
    );
    let mut training = Training::join_started(started, bytes)?;
    let range = args.range.unwrap_or(CoordinateRange { start: 0, end: training.dimension() });
    let out = args.out.as_deref().filter(|_| training.is_first());
    let mut sink = Sink::create(out, range.len())?;
    let mut row = vec![0f32; if args.window { 0 } else { usize::try_from(range.len())? }];
    for step in steps.as_range() {
        if args.window {
            sink.write(training.fetch_in_window(step, range, args.commitment(), 0)?)?;
        } else {
            training.fetch_into(step, range, args.commitment(), &mut row)?;
            sink.write(&row)?;
        }
    }
    let is_first = training.is_first();
    training.close();
    let (sha256, rows) = sink.finish()?;
    if is_first {
        println!("{}", json!({ "rows": rows, "sha256": sha256, "window": args.window }));
    }
    Ok(())
}
