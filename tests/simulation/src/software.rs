//! What runs on the simulated hosts: the real coordinator, the real workers.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Parser;
use ledger::{Clock, Ledger};
use noise_worker::SimulatedNetwork;
use noise_worker::config::WorkerArgs;

use crate::world::{WORKERS, World, worker};
use crate::{cases, net};

pub const COORDINATOR: &str = "coordinator";

pub async fn coordinator(world: Arc<World>) -> turmoil::Result {
    let error = match try_coordinator(&world).await {
        Ok(()) => "it ended on request".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    world.history().ended(COORDINATOR, &error);
    world.is_stopped.store(true, Ordering::Relaxed);
    pending().await
}

async fn try_coordinator(world: &World) -> anyhow::Result<()> {
    let is_new = !world.disk.is_named();
    let opened = Ledger::open_on(world.disk.open(), Path::new("ledger.redb"), world.ledger_id);
    if opened.is_err() && is_new {
        world.disk.erase();
    }
    let opened = opened.inspect_err(|error| {
        if matches!(error, ledger::LedgerError::Damaged { .. }) {
            world.history().violation(format!("the ledger does not open: {error}"));
        }
    })?;
    // The same seed makes the same chains.
    let clock = Clock::new(|| turmoil::sim_elapsed().unwrap_or_default().as_millis() as u64);
    let ledger = opened.with_clock(clock);
    world.history().check_ledger(&ledger);
    *world.ledger() = Some(ledger.clone());
    let accepting = net::accepting().await?;
    let with_probe = |probe| *world.probe() = Some(probe);
    let settings = world.settings();
    let stop = world.new_stop();
    coordinator::run_over(settings, ledger, net::connections(), accepting, stop, with_probe).await
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: WorkerArgs,
}

fn worker_args(name: &str, record: Option<&Path>) -> WorkerArgs {
    let coordinator = net::url(COORDINATOR);
    let flags = ["--coordinator", &coordinator, "--name", name, "--threads", "1", "--chunk-bytes", "16384"];
    let flags = flags.iter().chain(&["--ahead-rows", "4"]);
    let args = Cli::parse_from(std::iter::once("worker").chain(flags.copied())).args;
    WorkerArgs { state_dir: record.map(Path::to_owned), ..args }
}

pub async fn worker_process(world: Arc<World>, at: usize) -> turmoil::Result {
    if at + 1 == WORKERS && !world.is_grown.load(Ordering::Relaxed) {
        pending::<()>().await;
    }
    let name = worker(at);
    let network =
        SimulatedNetwork { endpoint: net::url(&name), incoming: net::accepting().await?, dial: net::dial };
    let record = world.record(&name);
    let args = worker_args(&name, record.as_deref());
    let ended = noise_worker::run_on(&args, cases::key(), network, world.new_drain(at)).await;
    let how = ended.map_or_else(|error| format!("{error:#}"), |()| "drained".into());
    world.history().ended(&name, &how);
    if record.is_some_and(|folder| how.contains(&folder.display().to_string())) {
        world.history().violation(format!("{name} does not take its own record: {how}"));
    }
    pending().await
}
