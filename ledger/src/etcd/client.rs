//! Calls of etcd, from threads that may block: one member at a time, and the next one after a failure.

use std::{
    error::Error as _,
    fs,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use futures::FutureExt;
use tokio::runtime::Runtime;

use super::config::{EtcdConfig, EtcdTls, EtcdUser};
use crate::{LedgerError, Result};

const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// The time between pings: a member that vanished silently is noticed within two seconds.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The reason why a call has no answer.
#[derive(Debug)]
pub enum CallError {
    /// etcd refused the call: nothing was done.
    Refused(String),
    /// The outcome of the call is unknown.
    Unknown(String),
}

/// Connections to all members of one etcd cluster, on a runtime of their own.
pub struct EtcdClient {
    /// The client's own runtime, so that leases are renewed however busy the process is. Empty once it is dropped.
    runtime: Option<Runtime>,
    members: Vec<Member>,
    user: Option<EtcdUser>,
    current: AtomicUsize,
    name: PathBuf,
}

struct Member {
    address: String,
    client: Client,
    /// True once its client has a token of etcd's. The client renews an expired token by itself, but not one that is
    /// older than etcd's users: see [`has_old_token`].
    is_authenticated: AtomicBool,
}

impl EtcdClient {
    /// Creates the clients, which connect on the first call of each member.
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
            .with_keep_alive_while_idle(true)
            .with_auto_token_refresh(true);
        if let Some(tls) = &config.tls {
            options = options.with_tls(tls_options(tls).map_err(|error| io(&error))?);
        }
        let mut members = Vec::new();
        for member in &config.members {
            let connecting = Client::connect([config.endpoint(member)], Some(options.clone()));
            let client = runtime.block_on(connecting).map_err(|error| io(&error))?;
            members.push(Member {
                address: member.clone(),
                client,
                is_authenticated: AtomicBool::new(false),
            });
        }
        let user = config.user.clone();
        Ok(Self { runtime: Some(runtime), members, user, current: AtomicUsize::new(0), name })
    }

    /// Returns what errors call the store.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns `host:port` of every member.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.address.as_str())
    }

    /// Waits for the work, on the client's runtime; `None` while the client is dropped. Never call this on a thread
    /// that must not block.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        // Behind a pointer it is compiled once, and not for each of tokio's schedulers.
        let work: Pin<&mut dyn Future<Output = T>> = pin!(work);
        self.runtime.as_ref().map(|runtime| runtime.block_on(work))
    }

    /// Runs the work in the background, on the client's runtime.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(work.boxed()));
        }
    }

    /// Makes one attempt at the member that answered last; after a failure the next attempt goes to another.
    pub async fn call<T>(
        &self,
        limit: Duration,
        call: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, CallError> {
        let current = self.current.load(Ordering::Relaxed);
        let failure = match self.call_member(current % self.members.len(), limit, call).await {
            Err(failure) => failure,
            answer => return answer,
        };
        if matches!(failure, CallError::Unknown(_)) {
            let next = current.wrapping_add(1);
            let _ = self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Err(failure)
    }

    /// Makes one attempt at the member with this index in [`EtcdClient::members`].
    pub async fn call_member<T>(
        &self,
        index: usize,
        limit: Duration,
        call: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, CallError> {
        let member = &self.members[index];
        let attempt = async {
            self.authenticate(member).await?;
            call(member.client.clone()).await
        };
        match tokio::time::timeout(limit, attempt).await {
            Ok(answer) => answer.map_err(|error| {
                if has_old_token(&error) {
                    member.is_authenticated.store(false, Ordering::Release);
                }
                classify(&member.address, &error)
            }),
            Err(_) => Err(CallError::Unknown(format!("{} did not answer within {limit:?}", member.address))),
        }
    }

    /// Requests a token for the user, once for each change of etcd's users: not on connecting, when a member may be
    /// down.
    async fn authenticate(&self, member: &Member) -> Result<(), Error> {
        let Some(EtcdUser { name, password }) = &self.user else { return Ok(()) };
        if !member.is_authenticated.load(Ordering::Acquire) {
            let user = (name.clone(), password.to_string());
            member.client.clone().update_user(Some(user)).await?;
            member.is_authenticated.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Makes up to two attempts at each member, for calls that may be repeated.
    pub async fn call_with_retry<T>(
        &self,
        limit: Duration,
        call: impl AsyncFn(Client) -> Result<T, Error>,
    ) -> Result<T, LedgerError> {
        let mut last = String::new();
        for _ in 0..2 * self.members.len() {
            match self.call(limit, async |client| call(client).await).await {
                Ok(answer) => return Ok(answer),
                Err(CallError::Refused(reason)) => {
                    return Err(LedgerError::Io { path: self.name.clone(), reason });
                }
                Err(CallError::Unknown(reason)) => last = reason,
            }
        }
        Err(LedgerError::Unreachable { path: self.name.clone(), reason: last })
    }
}

impl Drop for EtcdClient {
    fn drop(&mut self) {
        // Dropped anywhere, also where blocking is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns whether users or roles of etcd have changed since it issued the token. etcd refused the call before it did
/// anything, and accepts it with a new token.
fn has_old_token(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("revision of auth store is old"))
}

fn classify(member: &str, error: &Error) -> CallError {
    use tonic_code::*;
    let Error::GRpcStatus(status) = error else { return CallError::Unknown(format!("{member}: {error}")) };
    let mut reason = format!("{member}: {}", status.message());
    let mut cause = status.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    // What a certificate is refused for won't pass by waiting, but another member may have a better one.
    if reason.contains("invalid peer certificate") {
        reason += "; allowed: a certificate for this address, by the authority in ca.pem";
    }
    let is_busy = status.message().contains("too many requests");
    match status.code() as i32 {
        // Its code alone would be an invalid argument.
        _ if has_old_token(error) => CallError::Unknown(reason),
        INVALID_ARGUMENT | PERMISSION_DENIED | FAILED_PRECONDITION | OUT_OF_RANGE | UNIMPLEMENTED
        | UNAUTHENTICATED => CallError::Refused(reason),
        RESOURCE_EXHAUSTED if !is_busy => CallError::Refused(reason),
        _ => CallError::Unknown(reason),
    }
}

/// The numbers of gRPC's codes: etcd's client exports the status and not its type.
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
    let options = TlsOptions::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    Ok(match &tls.identity {
        Some((cert, key)) => options.identity(Identity::from_pem(read(cert)?, read(key)?)),
        None => options,
    })
}
