//! Leadership among several coordinators over one ledger in etcd. A coordinator stands by until it is elected, leads
//! until it can't be sure of its lease any more, and stands by again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use client::Connections;
use ledger::etcd::{Candidacy, Election, EtcdConfig, LeaderLease, Term};
use ledger::{Ledger, LedgerError};
use metrics::gauge;
use node::net::acceptor::Incoming;
use node::process::readiness::Readiness;
use node::process::ready_file::ReadyFile;
use node::process::runtime::spawn;
use node::process::shutdown::drain;
use node::security::ServerSecurity;
use node::telemetry::build_info::record_build_info;
use node::telemetry::metrics_endpoint::{Extras, MetricsEndpoint, StatusReport};
use node::telemetry::recorder::install_recorder;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::background::{DRAIN_DEADLINE, spawn_background, spawn_health_monitor, spawn_metering};
use crate::blocking::FatalStop;
use crate::config::{CoordinatorConfig, Settings};
use crate::coordinator::Coordinator;
use crate::data_dir::{check_data_dir, open_seen};
use crate::grpc::{ListenerHandoff, serve_over, serve_standby};
use crate::health;
use crate::health_watch::record_standing_by;
use crate::known_leader::{KnownLeader, LeaderView};
use crate::metric_definitions::{EPOCH, describe_metrics};
use crate::status_page;

mod current;

use current::Current;

/// The time that the standby server may take to end its connections before this coordinator leads.
const STANDBY_DRAIN_DEADLINE: Duration = Duration::from_secs(1);

/// The loop of standing by and leading, and the resources that outlast every change of leader.
struct LeaderLoop {
    settings: Settings,
    connections: Connections,
    security: ServerSecurity,
    handoff: ListenerHandoff<Incoming>,
    election: Arc<Election>,
    /// The URL at which others reach this coordinator.
    address: String,
    leader: KnownLeader,
    readiness: Readiness,
    current: Current,
    shutdown: CancellationToken,
}

/// What the status page shows while another coordinator leads.
const STANDING_BY: &str = "<h1>Rustle <span class=\"badge warn\">stands by</span></h1>\n\
    <p class=\"quiet\">Another coordinator leads, or none does: <a href=\"/status\">status as JSON</a> says which. This page \
    shows the cluster once this coordinator leads.</p>\n";

/// The end of a term as leader.
enum TermEnd {
    /// The lease was lost: another coordinator may lead by now.
    Lost,
    ShutDown,
}

/// Runs one of several coordinators until `shutdown` is cancelled. Fails if the ledger can't be trusted any more.
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
    let lease = etcd.lease;
    let election = Arc::new(node::process::blocking::run(move || Election::connect(&etcd)).await??);
    check_data_dir(&settings.data_dir, election.ledger())?;
    let own = listener.endpoint(security.credentials.is_some())?;
    let metrics_address = metrics_listener.local_addr()?;
    let leader_loop = LeaderLoop {
        handoff: ListenerHandoff::new(security.incoming(listener)),
        settings,
        connections,
        security,
        election,
        address: advertise.unwrap_or_else(|| own.clone()),
        leader: KnownLeader::new(lease),
        readiness: Readiness::not_ready("starting"),
        current: Current::default(),
        shutdown: shutdown.child_token(),
    };
    let metrics_shutdown = CancellationToken::new();
    let (status, extras) = leader_loop.status_sources();
    let endpoint = MetricsEndpoint { recorder, readiness: leader_loop.readiness.clone(), status, extras };
    let endpoint = spawn(endpoint.serve(metrics_listener, metrics_shutdown.clone()));
    if let Some(path) = &ready_file {
        // A connection made from now on is answered, if only with the leader's address.
        ReadyFile::new(own, metrics_address).write(path)?;
    }
    let outcome = leader_loop.run().await;
    leader_loop.readiness.set_not_ready("shutting down");
    metrics_shutdown.cancel();
    let _ = endpoint.await;
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }
    outcome
}

impl LeaderLoop {
    /// Returns the sources of `/status`, the page and the jobs' metrics, for whichever coordinator leads.
    fn status_sources(&self) -> (StatusReport, Extras) {
        let current = self.current.clone();
        let leader = self.leader.clone();
        let status = move || match current.get() {
            Some(coordinator) => coordinator.status(),
            None => health::status_standing_by(&leader.view()),
        };
        let extras = Extras {
            page: Some(status_page::live(self.current.text(STANDING_BY, Coordinator::page))),
            series: Some(self.current.text("", Coordinator::series)),
            remarks: Some(self.current.text("", Coordinator::readiness_remarks)),
        };
        (Arc::new(status), extras)
    }

    async fn run(&self) -> anyhow::Result<()> {
        loop {
            self.leader.set("");
            let answering = CancellationToken::new();
            let leader = self.leader.clone();
            let handoff = self.handoff.clone();
            let security = self.security.clone();
            let until = answering.clone();
            let standby = spawn(async move { serve_standby(leader, handoff, &security, until).await });
            let opened = match self.run_as_standby().await? {
                Some(term) => self.open(term).await?,
                None => None,
            };
            answering.cancel();
            if let Ok(Ok(Err(error))) = tokio::time::timeout(STANDBY_DRAIN_DEADLINE, standby).await {
                return Err(error);
            }
            let Some(opened) = opened else {
                if self.shutdown.is_cancelled() { return Ok(()) } else { continue }
            };
            if let TermEnd::ShutDown = self.run_as_leader(opened).await? {
                return Ok(());
            }
        }
    }

    /// Stands by until this coordinator is elected. Returns `None` at shutdown.
    async fn run_as_standby(&self) -> anyhow::Result<Option<Term>> {
        let mut logged = None;
        loop {
            match self.campaign(&mut logged).await? {
                Ok(Candidacy::Elected(term)) => {
                    self.leader.elected();
                    self.readiness.set_not_ready("elected; reading the ledger");
                    return Ok(Some(term));
                }
                // This process's own earlier lease, under which it no longer leads.
                Ok(Candidacy::LedBy(leader)) if leader == self.address => self.leader.set(""),
                Ok(Candidacy::LedBy(leader)) => self.leader.set(&leader),
                Err(error @ LedgerError::Unreachable { .. }) => self.leader.unanswered(error.to_string()),
                Err(error) => return Err(error.into()),
            }
            self.report(&mut logged);
            tokio::select! {
                () = self.shutdown.cancelled() => return Ok(None),
                () = tokio::time::sleep(self.election.pause()) => {}
            }
        }
    }

    /// Campaigns once. A store that is silent takes up to seconds for each member: what is known gets older meanwhile, and is
    /// reported as that.
    async fn campaign(
        &self,
        logged: &mut Option<LeaderView>,
    ) -> anyhow::Result<Result<Candidacy, LedgerError>> {
        let election = self.election.clone();
        let address = self.address.clone();
        let mut campaign = node::process::blocking::run(move || election.campaign(&address));
        loop {
            match tokio::time::timeout(self.election.pause(), &mut campaign).await {
                Ok(outcome) => return Ok(outcome?),
                Err(_) => self.report(logged),
            }
        }
    }

    /// Reports what is known of the leader, in `/readyz` and in metrics, and in the log where it differs from what is there.
    fn report(&self, logged: &mut Option<LeaderView>) {
        let view = self.leader.view();
        let state = health::obstacle(&view);
        record_standing_by(&view);
        if logged.as_ref() != Some(&view) {
            match view {
                LeaderView::Known { .. } => info!(state, "standing by"),
                LeaderView::Unknown { .. } => warn!(state, "standing by, and can't take over"),
            }
            *logged = Some(view);
        }
        self.readiness.set_not_ready(state);
    }

    /// Reads the ledger. Returns `None` if the lease was lost meanwhile.
    async fn open(&self, term: Term) -> anyhow::Result<Option<LeaderTerm>> {
        let seat = term.lease().clone();
        let session = self.shutdown.child_token();
        let stop = FatalStop::new(session.clone());
        let settings = self.settings.clone();
        let connections = self.connections.clone();
        let opening = stop.clone();
        let opened = node::process::blocking::run(move || {
            let ledger = Ledger::lead(term)?;
            let folder = settings.data_dir.clone();
            open_seen(&folder, &ledger.clone(), || Coordinator::open(ledger, settings, connections, opening))
        });
        match opened.await? {
            Ok(coordinator) => {
                Ok(Some(LeaderTerm { coordinator: Arc::new(coordinator), seat, session, stop }))
            }
            Err(error) if seat.left().is_none() => {
                warn!(%error, "the leader lease was lost while the ledger was read");
                Ok(None)
            }
            Err(error) => Err(error).context("opening"),
        }
    }

    /// Leads until the lease is lost or the process shuts down. Fails if the ledger can't be trusted any more.
    async fn run_as_leader(&self, opened: LeaderTerm) -> anyhow::Result<TermEnd> {
        let LeaderTerm { coordinator, seat, session, stop } = opened;
        gauge!(EPOCH).set(coordinator.epoch() as f64);
        self.current.set(&coordinator, &seat);
        self.readiness.set_ready();
        info!(address = self.address, epoch = coordinator.epoch(), "this coordinator leads");
        let tasks = TaskTracker::new();
        spawn_background(&coordinator, &tasks, &session);
        spawn_metering(&coordinator, &tasks, &session);
        spawn_health_monitor(&coordinator, self.security.credentials.clone(), &tasks, &session);
        let lease = seat.clone();
        let until = session.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = lease.lost() => until.cancel(),
                () = until.cancelled() => {}
            }
        });
        let served = serve_over(coordinator, self.handoff.clone(), &self.security, session.clone()).await;
        self.readiness.set_not_ready("no longer leading");
        session.cancel();
        if let Err(late) = drain(&session, &tasks, DRAIN_DEADLINE).await {
            warn!(%late, "standing by before these tasks have ended");
        }
        served?;
        if seat.left().is_none() && !self.shutdown.is_cancelled() {
            warn!("this coordinator no longer leads");
            return Ok(TermEnd::Lost);
        }
        let election = self.election.clone();
        let reason = stop.reason();
        node::process::blocking::run(move || election.resign(&seat)).await?;
        match reason {
            Some(reason) => {
                error!(reason, "giving up the leader lease");
                bail!("the coordinator stopped: {reason}")
            }
            None => Ok(TermEnd::ShutDown),
        }
    }
}

/// A term as leader, ready to begin.
struct LeaderTerm {
    coordinator: Arc<Coordinator>,
    seat: Arc<LeaderLease>,
    /// Ends with the term.
    session: CancellationToken,
    stop: FatalStop,
}
