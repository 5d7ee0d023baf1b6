//! The listeners of a worker: its address, and for its own host a socket and the lending socket.

use std::sync::Arc;

use node::{
    admission::Budget,
    net::listener::{ListenAddress, Listener},
    net::local_socket::{LocalSocket, host_id},
    process::runtime::spawn,
    security::ServerSecurity,
};
use proto::model::LocalAccess;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    config::WorkerArgs,
    regions::Regions,
    service::NoiseService,
    transport::{lending, server},
};

/// All listeners of a worker.
pub struct Listeners {
    /// The address that other hosts reach.
    pub main: Listener,
    unix: Option<Listener>,
    lending: Option<LocalSocket>,
}

impl Listeners {
    /// Binds the addresses and sockets of `args`. Fails where one of them can't be bound, or may not be without TLS.
    pub async fn bind(args: &WorkerArgs, security: &ServerSecurity) -> anyhow::Result<Self> {
        let unix = match &args.unix_socket {
            Some(path) => Some(ListenAddress::Unix(path.clone()).bind(false).await?),
            None => None,
        };
        let lending = args.shm_socket.as_deref().map(LocalSocket::bind).transpose()?;
        Ok(Self { main: args.listen.bind(security.may_leave_host()).await?, unix, lending })
    }

    /// Returns how processes on this host reach the worker; `None` where they have no way of their own.
    pub fn local(&self) -> anyhow::Result<Option<LocalAccess>> {
        let endpoint = self.unix.as_ref().map(|unix| unix.endpoint(false)).transpose()?;
        let lending = self.lending.as_ref().map(|socket| socket.path().display().to_string());
        let is_reachable = endpoint.is_some() || lending.is_some();
        Ok(is_reachable.then(|| LocalAccess { host: host_id(), endpoint, lending }))
    }

    /// Serves on all listeners until `ended`.
    pub fn serve(
        self,
        service: &Arc<NoiseService>,
        regions: &Arc<Regions>,
        security: &ServerSecurity,
        ended: &CancellationToken,
    ) -> Vec<JoinHandle<()>> {
        let budget = Budget::new(security.limits.slice_bytes);
        let mut tasks: Vec<_> = [Some(self.main), self.unix]
            .into_iter()
            .flatten()
            .map(|listener| {
                let security = security.clone();
                let budget = budget.clone();
                spawn(serve(listener, service.clone(), security, budget, ended.clone()))
            })
            .collect();
        tasks
            .extend(self.lending.map(|socket| spawn(lending::serve(socket, regions.clone(), ended.clone()))));
        tasks
    }
}

async fn serve(
    listener: Listener,
    service: Arc<NoiseService>,
    security: ServerSecurity,
    budget: Budget,
    ended: CancellationToken,
) {
    let served = server::serve(security.incoming(listener), service, &security, budget, ended).await;
    if let Err(error) = served {
        tracing::error!(%error, "a server ended");
    }
}
