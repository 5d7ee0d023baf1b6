//! One of several coordinators over a ledger in etcd: it stands by until it leads, leads until it can't be sure of that
//! any more, and stands by again.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use client::Connections;
use futures::FutureExt;
use ledger::etcd::{Election, EtcdConfig, Seat, Standing, Term};
use ledger::{Ledger, LedgerError};
use metrics::gauge;
use node::net::acceptor::Incoming;
use node::process::readiness::Readiness;
use node::process::ready_file::ReadyFile;
use node::process::runtime::spawn;
use node::process::shutdown::drain;
use node::security::ServerSecurity;
use node::telemetry::build_info::record_build_info;
use node::telemetry::metrics_endpoint::{Extras, MetricsEndpoint, StatusReport, Text};
use node::telemetry::recorder::install_recorder;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::blocking::Stop;
use crate::config::{CoordinatorConfig, Settings};
use crate::coordinator::Coordinator;
use crate::grpc::{Door, Leader, serve_over, serve_standby};
use crate::metric_definitions::{EPOCH, describe_metrics};
use crate::run::{DRAIN_DEADLINE, create_data_dir, keep_going};

/// Connections to a server that has ended its part are waited for this long.
const CHANGE_OVER: Duration = Duration::from_secs(1);
/// The ledger that this data folder belongs to.
pub const LEDGER_ID: &str = "etcd-ledger";

/// What lasts over all changes of the lead.
struct House {
    settings: Settings,
    connections: Connections,
    security: ServerSecurity,
    door: Door<Incoming>,
    election: Arc<Election>,
    /// By which others reach this coordinator.
    address: String,
    leader: Leader,
    readiness: Readiness,
    current: Current,
    shutdown: CancellationToken,
}

/// The coordinator that this process is, while it leads.
#[derive(Clone, Default)]
struct Current(Arc<Mutex<Option<Leading>>>);

#[derive(Clone)]
struct Leading {
    coordinator: Weak<Coordinator>,
    seat: Arc<Seat>,
}

impl Current {
    fn set(&self, coordinator: &Arc<Coordinator>, seat: &Arc<Seat>) {
        let leading = Leading { coordinator: Arc::downgrade(coordinator), seat: seat.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(leading);
    }

    fn get(&self) -> Option<Arc<Coordinator>> {
        let leading = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        leading.filter(|leading| leading.seat.left().is_some())?.coordinator.upgrade()
    }

    fn text(&self, otherwise: &'static str, text: fn(&Coordinator) -> String) -> Text {
        let current = self.clone();
        Arc::new(move || current.get().map_or_else(|| otherwise.to_owned(), |coordinator| text(&coordinator)))
    }
}

enum Led {
    /// Another may lead by now.
    Lost,
    ShutDown,
}

/// Runs until `shutdown` is cancelled, or until the ledger can't be trusted any more, which is an error.
pub async fn run(
    config: CoordinatorConfig,
    etcd: EtcdConfig,
    connections: Connections,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let CoordinatorConfig { settings, listener, metrics_listener, security, ready_file, advertise, .. } =
        config;
    let recorder = install_recorder()?;
    describe_metrics();
    record_build_info(env!("CARGO_PKG_VERSION"));
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }
    let election = Arc::new(node::process::blocking::run(move || Election::connect(&etcd)).await??);
    check_data_dir(&settings.data_dir, election.ledger())?;
    let own = listener.endpoint(security.credentials.is_some())?;
    let metrics_address = metrics_listener.local_addr()?;
    let house = House {
        door: Door::new(security.incoming(listener)),
        settings,
        connections,
        security,
        election,
        address: advertise.unwrap_or_else(|| own.clone()),
        leader: Leader::default(),
        readiness: Readiness::not_ready("starting"),
        current: Current::default(),
        shutdown: shutdown.child_token(),
    };
    let metrics_shutdown = CancellationToken::new();
    let (status, extras) = house.shown();
    let endpoint = MetricsEndpoint { recorder, readiness: house.readiness.clone(), status, extras };
    let endpoint = spawn(endpoint.serve(metrics_listener, metrics_shutdown.clone()));
    if let Some(path) = &ready_file {
        // Whoever connects from now on is answered, be it with the leader's address.
        ReadyFile::new(own, metrics_address).write(path)?;
    }
    let outcome = house.take_turns().await;
    house.readiness.set_not_ready("shutting down");
    metrics_shutdown.cancel();
    let _ = endpoint.await;
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }
    outcome
}

impl House {
    /// What the status page and its kin show, whoever leads.
    fn shown(&self) -> (StatusReport, Extras) {
        let current = self.current.clone();
        let leader = self.leader.clone();
        let status = move || match current.get() {
            Some(coordinator) => coordinator.status(),
            None => json!({ "standing_by": true, "leader": leader.get() }),
        };
        let extras = Extras {
            page: Some(self.current.text("<!doctype html><p>This coordinator stands by.", Coordinator::page)),
            series: Some(self.current.text("", Coordinator::job_series)),
        };
        (Arc::new(status), extras)
    }

    async fn take_turns(&self) -> anyhow::Result<()> {
        loop {
            self.leader.set("");
            let answering = CancellationToken::new();
            let leader = self.leader.clone();
            let door = self.door.clone();
            let security = self.security.clone();
            let until = answering.clone();
            let standby = spawn(async move { serve_standby(leader, door, &security, until).await });
            let opened = match self.stand_by().await? {
                Some(term) => self.open(term).await?,
                None => None,
            };
            answering.cancel();
            if let Ok(Ok(Err(error))) = tokio::time::timeout(CHANGE_OVER, standby).await {
                return Err(error);
            }
            let Some(opened) = opened else {
                if self.shutdown.is_cancelled() { return Ok(()) } else { continue }
            };
            if let Led::ShutDown = self.lead(opened).await? {
                return Ok(());
            }
        }
    }

    /// Until this coordinator leads; `None` at shutdown.
    async fn stand_by(&self) -> anyhow::Result<Option<Term>> {
        let mut said = String::new();
        loop {
            let election = self.election.clone();
            let address = self.address.clone();
            let state = match node::process::blocking::run(move || election.stand(&address)).await? {
                Ok(Standing::Elected(term)) => return Ok(Some(term)),
                // This process's own lease of before: it leads no more.
                Ok(Standing::Behind(leader)) if leader == self.address => self.behind(""),
                Ok(Standing::Behind(leader)) => self.behind(&leader),
                Err(LedgerError::Unreachable { path, reason }) => {
                    format!("{} can't be reached: {reason}", path.display())
                }
                Err(error) => return Err(error.into()),
            };
            self.readiness.set_not_ready(state.clone());
            if state != said {
                info!(state, "standing by");
                said = state;
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return Ok(None),
                () = tokio::time::sleep(self.election.pause()) => {}
            }
        }
    }

    fn behind(&self, leader: &str) -> String {
        self.leader.set(leader);
        match leader {
            "" => "standing by; nobody leads".to_owned(),
            leader => format!("standing by; {leader} leads"),
        }
    }

    /// Reads the ledger; `None` where the lead was lost meanwhile.
    async fn open(&self, term: Term) -> anyhow::Result<Option<Opened>> {
        let seat = term.seat().clone();
        let session = self.shutdown.child_token();
        let stop = Stop::new(session.clone());
        let settings = self.settings.clone();
        let connections = self.connections.clone();
        let opening = stop.clone();
        let opened = node::process::blocking::run(move || {
            Coordinator::open(Ledger::lead(term)?, settings, connections, opening)
        });
        match opened.await? {
            Ok(coordinator) => Ok(Some(Opened { coordinator: Arc::new(coordinator), seat, session, stop })),
            Err(error) if seat.left().is_none() => {
                warn!(%error, "the lead was lost while the ledger was read");
                Ok(None)
            }
            Err(error) => Err(error).context("opening"),
        }
    }

    async fn lead(&self, opened: Opened) -> anyhow::Result<Led> {
        let Opened { coordinator, seat, session, stop } = opened;
        gauge!(EPOCH).set(coordinator.epoch as f64);
        self.current.set(&coordinator, &seat);
        self.readiness.set_ready();
        info!(address = self.address, epoch = coordinator.epoch, "this coordinator leads");
        let tasks = TaskTracker::new();
        keep_going(&coordinator, &tasks, &session);
        tasks.spawn(coordinator.clone().keep_watching(session.clone()).boxed());
        let watched = seat.clone();
        let until = session.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = watched.lost() => until.cancel(),
                () = until.cancelled() => {}
            }
        });
        let served = serve_over(coordinator, self.door.clone(), &self.security, session.clone()).await;
        self.readiness.set_not_ready("leading no more");
        session.cancel();
        if let Err(late) = drain(&session, &tasks, DRAIN_DEADLINE).await {
            warn!(%late, "going on without them");
        }
        served?;
        if seat.left().is_none() && !self.shutdown.is_cancelled() {
            warn!("this coordinator leads no more");
            return Ok(Led::Lost);
        }
        let election = self.election.clone();
        let reason = stop.reason();
        node::process::blocking::run(move || election.give_up(&seat)).await?;
        match reason {
            Some(reason) => {
                error!(reason, "the lead is given up");
                bail!("the coordinator stopped: {reason}")
            }
            None => Ok(Led::ShutDown),
        }
    }
}

/// A term of leading that can begin.
struct Opened {
    coordinator: Arc<Coordinator>,
    seat: Arc<Seat>,
    /// Ends with the term.
    session: CancellationToken,
    stop: Stop,
}

/// A folder that has served one ledger serves no other: rows released there may not be known here.
fn check_data_dir(folder: &Path, ledger: &str) -> anyhow::Result<()> {
    create_data_dir(folder)?;
    let file = folder.join("ledger.redb");
    ensure!(
        !file.exists(),
        "{} is the ledger of jobs that the store does not know; move it away, or leave out --store",
        file.display()
    );
    let path = folder.join(LEDGER_ID);
    match std::fs::read_to_string(&path) {
        Ok(known) => ensure!(
            known.trim() == ledger,
            "the store holds ledger {ledger}, and {} says {}: this is another cluster's store, or etcd was set up \
             anew; check --store, or remove the file once you know that no job of the old ledger goes on",
            path.display(),
            known.trim()
        ),
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => {
            write_whole(&path, ledger).with_context(|| path.display().to_string())?;
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    }
    Ok(())
}

/// Under its name only when it is whole and on disk: an empty one would be another ledger's.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let draft = path.with_extension("new");
    ledger::end_where_asked("etcd_ledger::create::begin");
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    ledger::end_where_asked("etcd_ledger::create::written");
    file.sync_all()?;
    ledger::end_where_asked("etcd_ledger::create::before_rename");
    std::fs::rename(&draft, path)?;
    ledger::end_where_asked("etcd_ledger::create::after_rename");
    std::fs::File::open(folder)?.sync_all()?;
    ledger::end_where_asked("etcd_ledger::create::end");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_ledger() {
        let folder = tempfile::tempdir().unwrap();
        check_data_dir(folder.path(), "aa").unwrap();
        check_data_dir(folder.path(), "aa").unwrap();
        let other = check_data_dir(folder.path(), "bb").unwrap_err().to_string();
        assert!(other.contains("aa") && other.contains("bb"), "{other}");
        std::fs::write(folder.path().join("ledger.redb"), "").unwrap();
        let file = check_data_dir(folder.path(), "aa").unwrap_err().to_string();
        assert!(file.contains("ledger.redb"), "{file}");
    }
}
