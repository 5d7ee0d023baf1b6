//! What runs on the simulated hosts: the real coordinator, the real workers.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Parser;
use ledger::{AnchorPlace, Clock, Ledger};
use node::process::rng;
use noise_worker::SimulatedNetwork;
use noise_worker::config::WorkerArgs;

use crate::site::{Site, Standing};
use crate::world::{COPY, WORKERS, World, worker};
use crate::{cases, net};

pub const COORDINATOR: &str = "coordinator";

/// The same seed makes the same chains.
pub fn clock() -> Clock {
    Clock::new(|| turmoil::sim_elapsed().unwrap_or_default().as_millis() as u64)
}

pub async fn coordinator(world: Arc<World>, at: usize) -> turmoil::Result {
    if at == COPY && !world.is_copy_on() {
        pending::<()>().await;
    }
    let site = world.site(at);
    let error = match try_coordinator(&world, at).await {
        Ok(()) => "it ended on request".to_owned(),
        Err(error) => site.volume().without_folder(&format!("{error:#}")),
    };
    world.history().ended(site.host, &error);
    site.stopped();
    pending().await
}

async fn try_coordinator(world: &World, at: usize) -> anyhow::Result<()> {
    let site = world.site(at);
    let ledger = open(world, site)?;
    *site.ledger() = Some(ledger.clone());
    let accepting = net::accepting().await?;
    let with_probe = |probe| *site.probe() = Some(probe);
    let settings = world.settings(at);
    let stop = world.new_stop();
    let anchors = world.anchors().map(|anchors| anchors.seen_from(at));
    coordinator::run_over(settings, ledger, anchors, net::connections(), accepting, stop, with_probe).await
}

/// Opens a site's ledger, and takes it up.
fn open(world: &World, site: &Site) -> anyhow::Result<Ledger> {
    let volume = site.volume();
    let path = volume.path();
    let standing = site.standing();
    if standing == Standing::Missing {
        // There is no file: the program's own call says what becomes of that.
        return Ok(Ledger::open(&path)?);
    }
    let is_new = !volume.disk.is_named();
    let opened = Ledger::open_on(volume.disk.open(), &path, world.ledger_id);
    if opened.is_err() && is_new {
        volume.disk.erase();
    }
    let opened = opened.inspect_err(|error| {
        if matches!(error, ledger::LedgerError::Damaged { .. }) {
            world.history().violation(format!("the ledger does not open: {error}"));
        }
    })?;
    let ledger = opened.with_clock(clock());
    if volume.has_anchor {
        ledger.take_up(&AnchorPlace::of_ledger(&path), rng::nonce()?)?;
    }
    let mut history = world.history();
    match (standing, ledger.copied()) {
        (Standing::Current, None) => history.check_ledger(&ledger),
        (Standing::Current | Standing::Adopted, Some(copied)) => {
            history.violation(format!("a false alarm: {copied}"));
        }
        (Standing::Copy, None) => history.violation("a copy was taken for the ledger"),
        _ => {}
    }
    Ok(ledger)
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
