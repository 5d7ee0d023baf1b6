//! A noise rank: joins its launch, and runs to its end. Also the training rank that `--train` asks for.

use std::sync::Arc;

use anyhow::Context;
use node::config::kept_commitment::KeptCommitment;
use node::process::cpu_pool::CpuPool;
use node::process::hardening::forbid_cores;
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use noise_worker::{
    Limits,
    config::WorkerArgs,
    release_log::ReleaseLog,
    shard_runner::{ShardRunner, ShardSource},
};
use prost::Message;
use proto::{Commitment, CoordinateRange, ElementType, JobId, RowRange, model::LeaseGrant, pb};
use rsmpi::topology::Communicator;
use serde_json::json;
use tokio::signal::unix::SignalKind;
use zeroize::Zeroizing;

use crate::{
    args::MpiArgs,
    deadlines::end_launch,
    handshake::Handshake,
    launch::{Launch, MpiProcess},
    launch_options::LaunchOptions,
    root_ledger::RootLedger,
    service::Service,
    sink::Sink,
    step::Steps,
    training::Training,
    watermark_exchange::{WatermarkSender, Watermarks},
};

const NOTHING_TO_SERVE: &str = "no rank of this launch is a training rank, so there would be no requests; start one beside \
                                (docs/mpi.md), or leave --serve away";
const NOT_SERVING: &str = "this launch has training ranks; start the noise ranks with --serve";

/// Runs this rank to its end. To be called on the process's first thread. An error ends the whole launch.
pub fn run(args: &MpiArgs) {
    let limit = args.limit();
    let started = MpiProcess::start(limit).unwrap_or_else(|error| end_launch(format_args!("{error:#}")));
    let done = if args.train { train(args, started) } else { noise(args, started) };
    if let Err(error) = done {
        end_launch(format_args!("{error:#}"));
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Runtime::new().context("start a runtime")
}

fn noise(args: &MpiArgs, started: MpiProcess) -> anyhow::Result<()> {
    args.check()?;
    let runtime = runtime()?;
    if args.serve {
        ignore_signals(&runtime)?;
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

/// Ignores the signals that stop a whole launch: training ranks act on them, are served until they are done, and
/// the last checkpoint is written after that.
fn ignore_signals(runtime: &Runtime) -> anyhow::Result<()> {
    let _within = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::user_defined1()] {
        // The handler stays when its listener is dropped.
        drop(tokio::signal::unix::signal(kind)?);
    }
    Ok(())
}

/// A noise rank that has its shard.
pub struct NoiseRank {
    runner: Arc<ShardRunner>,
    /// Present on the first noise rank.
    root_ledger: Option<RootLedger>,
    copying: CpuPool,
    /// The launch that the rank is part of.
    pub launch: Launch,
}

impl NoiseRank {
    /// Forms the launch, reads or receives the key, receives its shard from the first noise rank, and restores it.
    pub fn join(args: &MpiArgs, started: MpiProcess, runtime: &Runtime) -> anyhow::Result<Self> {
        forbid_cores().context("forbid core dumps of this rank")?;
        let plan = args.plan()?;
        let dimension = args.dimension(&plan)?;
        let settings = args.worker(1)?;
        let own_key = if args.broadcast_key { None } else { Some(read_key(args, &settings, runtime)?) };
        // `none` has the meaning that it has for a worker, whose variable this is.
        let folder = args.state_dir.as_ref().filter(|folder| *folder != "none");
        let log_folder = folder.map(|folder| folder.join(format!("rank-{}", started.rank())));
        let log = Arc::new(ReleaseLog::open(log_folder.as_deref())?);
        let handshake = Handshake {
            dimension,
            plan_digest: plan.digest(),
            key_commitment: own_key.as_ref().map(JobKey::commitment).unwrap_or_default(),
            job: Handshake::job_digest(&args.job),
            iterations: plan.iterations(),
            element: if plan.on_grid().is_some() { ElementType::I32 } else { ElementType::F32 },
            ..Handshake::noise()
        };
        let launch = started.agree(handshake)?;
        match (args.serve, launch.training_ranks().is_empty()) {
            (true, true) => launch.refuse(NOTHING_TO_SERVE),
            (false, false) => launch.refuse(NOT_SERVING),
            _ => {}
        }
        let watermarks = exchange_watermarks(&launch, &log, &args.job);
        let key = match own_key {
            Some(key) => key,
            None => broadcast_key(args, &settings, &launch, runtime)?,
        };
        let root_ledger = if launch.is_root() {
            Some(RootLedger::open(args, &plan, &key, &ranges(&launch), &watermarks)?)
        } else {
            None
        };
        let grants = root_ledger.as_ref().map(|ledger| grants(args, ledger)).transpose()?;
        let grants = grants.map(|grants| grants.encode_to_vec()).unwrap_or_default();
        let grants = launch.broadcast_any("the first noise rank, to open the ledger", grants);
        let grants =
            pb::HeartbeatResponse::decode(&grants[..]).context("the grants of the first noise rank")?;
        let own =
            grants.grants.get(launch.role.rank() as usize).cloned().context("no shard for this rank")?;
        let grant = LeaseGrant::try_from(own)?;
        let branches = vec![(grant.identity(), grant.branch())];
        runtime.block_on(log.observe(grant.ledger, grants.coordinator_epoch, branches))?;
        let settings = args.worker(launch.ranks_on_node())?;
        noise_worker::check_every_core(settings.backend).context("make rows of known noise on every core")?;
        let pool = CpuPool::new(settings.pool_threads()).context("start the CPU pool")?;
        let copying = CpuPool::named("copy", settings.pool_threads()).context("start the copying threads")?;
        let limits = Arc::new(Limits::new(pool, &settings)?);
        let plan = Arc::new(plan);
        let epoch = grants.coordinator_epoch;
        let source = ShardSource { plan, key, limits, release_log: log, epoch, row_timeout: args.time_limit };
        let runner = runtime.block_on(ShardRunner::start(grant, source))?;
        Ok(Self { runner, root_ledger, copying, launch })
    }

    /// Returns the service for the training ranks, which takes the ledger over. `checkpoint_every`: rows between checkpoints;
    /// 0 for one at the end only.
    pub fn service<'a>(&'a mut self, runtime: &'a Runtime, checkpoint_every: u64) -> Service<'a> {
        let runner = self.runner.clone();
        let copying = self.copying.clone();
        Service::new(&self.launch, runtime, runner, copying, self.root_ledger.take(), checkpoint_every)
    }

    /// Frees the window and ends MPI in this process, once all others do.
    pub fn end(self) {
        let Self { runner, launch, .. } = self;
        drop(runner);
        launch.end();
    }

    fn steps(&mut self, args: &MpiArgs, runtime: &Runtime) -> anyhow::Result<()> {
        let mut options = [0; _];
        let mut drawn = None;
        if let Some(ledger) = &self.root_ledger {
            let end = self.launch.iterations();
            let rows = args.steps.unwrap_or(RowRange { start: ledger.next_row()?.min(end), end });
            let checkpoint_every = args.checkpoint_every;
            drawn = match args.commitment {
                Some(_) => None,
                None => Some(KeptCommitment::beside(&args.commitment_place())?),
            };
            let text = args.commitment.as_deref().or(drawn.as_ref().map(KeptCommitment::text));
            let commitment = Commitment::of_text(text.context("no commitment")?);
            options = LaunchOptions { rows, checkpoint_every, commitment }.to_bytes();
        }
        self.launch.broadcast("the first rank, to send the options of the launch", &mut options);
        let LaunchOptions { rows, checkpoint_every, commitment } = LaunchOptions::from_bytes(&options)?;
        let runner = self.runner.clone();
        let root_ledger = self.root_ledger.take();
        let launch = &self.launch;
        let mut steps =
            Steps { launch, runtime, runner, root_ledger, rows, commitment, drawn, checkpoint_every };
        if let Some(mut summary) = steps.run(args.out.as_deref())? {
            if let Some(drawn) = &steps.drawn {
                summary["commitment"] = json!(drawn.text());
            }
            println!("{summary}");
        }
        Ok(())
    }
}

/// Returns how far the noise ranks have released rows of the job, by their own logs.
fn exchange_watermarks(launch: &Launch, log: &ReleaseLog, job: &JobId) -> Watermarks {
    let mut sender = WatermarkSender::new(log, job);
    let mut watermarks = Watermarks::default();
    loop {
        let parts = launch.gather("the noise ranks, to send what they have released", sender.next_part());
        let ranks = launch.shards.iter().map(|(rank, _)| *rank);
        if !watermarks.take(ranks.zip(parts)) {
            return watermarks;
        }
    }
}

fn ranges(launch: &Launch) -> Vec<CoordinateRange> {
    launch.shards.iter().map(|(_, range)| *range).collect()
}

fn grants(args: &MpiArgs, ledger: &RootLedger) -> anyhow::Result<pb::HeartbeatResponse> {
    // Rows that are requested again are replayed; generation continues at the job's position.
    let next_row = match args.steps {
        Some(steps) => steps.start,
        None => ledger.next_row()?,
    };
    Ok(ledger.grants(next_row)?)
}

fn read_key(args: &MpiArgs, settings: &WorkerArgs, runtime: &Runtime) -> anyhow::Result<JobKey> {
    let keyring = runtime.block_on(settings.keyring())?;
    Ok(keyring.key(&args.job)?)
}

/// Reads the key on the first noise rank and sends it to the others.
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

/// Runs a training rank that fetches rows one by one and does nothing with them: to try a launch, and in tests.
fn train(args: &MpiArgs, started: MpiProcess) -> anyhow::Result<()> {
    let steps = args.steps.context("--steps is missing")?;
    let commitment = Commitment::of_text(args.commitment.as_deref().context("--commitment is missing")?);
    let bytes =
        args.window.then_some(args.range).map_or(0, |range| range.map_or(u64::MAX, |range| 4 * range.len()));
    anyhow::ensure!(
        bytes != u64::MAX,
        "--window needs --range: memory is lent before the dimension is known"
    );
    let mut training = Training::join_started(started, bytes)?;
    let range = args.range.unwrap_or(CoordinateRange { start: 0, end: training.dimension() });
    let out = args.out.as_deref().filter(|_| training.is_first());
    let element = training.element();
    let mut sink = Sink::create(out, range.len(), element)?;
    let mut row = vec![0f32; if args.window { 0 } else { usize::try_from(range.len())? }];
    for step in steps.as_range() {
        match (args.window, element) {
            (true, ElementType::I32) => {
                sink.write(training.fetch_integers_in_window(step, range, commitment, 0)?)?;
            }
            (true, _) => sink.write(training.fetch_in_window(step, range, commitment, 0)?)?,
            (false, ElementType::I32) => {
                training.fetch_integers_into(step, range, commitment, bytemuck::cast_slice_mut(&mut row))?;
                sink.write(&row)?;
            }
            (false, _) => {
                training.fetch_into(step, range, commitment, &mut row)?;
                sink.write(&row)?;
            }
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
