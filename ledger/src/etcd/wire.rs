//! Calls of etcd, from threads that may block: one member at a time, and the next one after a failure.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use tokio::runtime::Runtime;

use super::config::{EtcdConfig, EtcdTls};
use crate::{LedgerError, Result};

const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// So that a member that is gone without a word is known to be within two seconds.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Why a call gave no answer.
#[derive(Debug)]
pub enum Failure {
    /// etcd said no: it was not done.
    Refused(String),
    /// Whether it was done is open.
    Open(String),
}

pub struct Wire {
    /// Of its own, so that leases are kept however busy the process is. Empty once it is dropped.
    runtime: Option<Runtime>,
    clients: Vec<(String, Client)>,
    current: AtomicUsize,
    name: PathBuf,
}

impl Wire {
    /// Connects on the first call of each member.
    pub fn new(config: &EtcdConfig) -> Result<Self> {
        let name = config.name();
        let io =
            |error: &dyn std::fmt::Display| LedgerError::Io { path: name.clone(), reason: error.to_string() };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|error| io(&error))?;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_keep_alive(PING_EVERY, PING_EVERY)
            .with_keep_alive_while_idle(true);
        if let Some(tls) = &config.tls {
            options = options.with_tls(tls_options(tls).map_err(|error| io(&error))?);
        }
        let mut clients = Vec::new();
        for member in &config.members {
            let connecting = Client::connect([config.endpoint(member)], Some(options.clone()));
            clients.push((member.clone(), runtime.block_on(connecting).map_err(|error| io(&error))?));
        }
        Ok(Self { runtime: Some(runtime), clients, current: AtomicUsize::new(0), name })
    }

    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Every member, by its name.
    pub fn members(&self) -> impl Iterator<Item = (&str, Client)> {
        self.clients.iter().map(|(member, client)| (member.as_str(), client.clone()))
    }

    /// Never call on a thread of another runtime that must not block.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.as_ref().map(|runtime| runtime.block_on(work))
    }

    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(work));
        }
    }

    /// One attempt at the member that answered last; after a failure the next attempt goes to another.
    pub async fn call<T>(
        &self,
        limit: Duration,
        call: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let current = self.current.load(Ordering::Relaxed);
        let (member, client) = &self.clients[current % self.clients.len()];
        let failure = match tokio::time::timeout(limit, call(client.clone())).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => judged(member, &error),
            Err(_) => Failure::Open(format!("{member} gave no answer within {limit:?}")),
        };
        if matches!(failure, Failure::Open(_)) {
            let next = current.wrapping_add(1);
            let _ = self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Err(failure)
    }

    /// Up to two attempts at each member, for calls that may be repeated.
    pub async fn ask<T>(
        &self,
        limit: Duration,
        call: impl AsyncFn(Client) -> Result<T, Error>,
    ) -> Result<T, LedgerError> {
        let mut last = String::new();
        for _ in 0..2 * self.clients.len() {
            match self.call(limit, async |client| call(client).await).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(reason)) => {
                    return Err(LedgerError::Io { path: self.name.clone(), reason });
                }
                Err(Failure::Open(reason)) => last = reason,
            }
        }
        Err(LedgerError::Unreachable { path: self.name.clone(), reason: last })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Dropped anywhere, also where blocking is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn judged(member: &str, error: &Error) -> Failure {
    use tonic_code::*;
    let reason = format!("{member}: {error}");
    let Error::GRpcStatus(status) = error else { return Failure::Open(reason) };
    let is_busy = status.message().contains("too many requests");
    match status.code() as i32 {
        INVALID_ARGUMENT | PERMISSION_DENIED | FAILED_PRECONDITION | OUT_OF_RANGE | UNIMPLEMENTED
        | UNAUTHENTICATED => Failure::Refused(reason),
        RESOURCE_EXHAUSTED if !is_busy => Failure::Refused(reason),
        _ => Failure::Open(reason),
    }
}

/// gRPC's numbers: etcd's client hands out the status and not its type.
mod tonic_code {
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const OUT_OF_RANGE: i32 = 11;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const UNAUTHENTICATED: i32 = 16;
}

fn tls_options(tls: &EtcdTls) -> Result<TlsOptions, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    Ok(TlsOptions::new()
        .ca_certificate(Certificate::from_pem(read(&tls.ca)?))
        .identity(Identity::from_pem(read(&tls.cert)?, read(&tls.key)?)))
}
