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
    members: Vec<Member>,
    user: Option<EtcdUser>,
    current: AtomicUsize,
    name: PathBuf,
}

struct Member {
    address: String,
    client: Client,
    /// Its client has a token of etcd's, which it renews by itself once that has expired, but not when it is older than
    /// etcd's users: see [`has_old_token`].
    is_known: AtomicBool,
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
            .with_keep_alive_while_idle(true)
            .with_auto_token_refresh(true);
        if let Some(tls) = &config.tls {
            options = options.with_tls(tls_options(tls).map_err(|error| io(&error))?);
        }
        let mut members = Vec::new();
        for member in &config.members {
            let connecting = Client::connect([config.endpoint(member)], Some(options.clone()));
            let client = runtime.block_on(connecting).map_err(|error| io(&error))?;
            members.push(Member { address: member.clone(), client, is_known: AtomicBool::new(false) });
        }
        let user = config.user.clone();
        Ok(Self { runtime: Some(runtime), members, user, current: AtomicUsize::new(0), name })
    }

    pub fn name(&self) -> &Path {
        &self.name
    }

    /// `host:port` of every member.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.address.as_str())
    }

    /// Never call on a thread of another runtime that must not block.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        // Behind a pointer it is compiled once, and not for each of tokio's schedulers.
        let work: Pin<&mut dyn Future<Output = T>> = pin!(work);
        self.runtime.as_ref().map(|runtime| runtime.block_on(work))
    }

    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(work.boxed()));
        }
    }

    /// One attempt at the member that answered last; after a failure the next attempt goes to another.
    pub async fn call<T>(
        &self,
        limit: Duration,
        call: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let current = self.current.load(Ordering::Relaxed);
        let failure = match self.call_member(current % self.members.len(), limit, call).await {
            Err(failure) => failure,
            answer => return answer,
        };
        if matches!(failure, Failure::Open(_)) {
            let next = current.wrapping_add(1);
            let _ = self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Err(failure)
    }

    /// One attempt at the member so numbered in [`Wire::members`].
    pub async fn call_member<T>(
        &self,
        index: usize,
        limit: Duration,
        call: impl AsyncFnOnce(Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let member = &self.members[index];
        let asking = async {
            self.introduce(member).await?;
            call(member.client.clone()).await
        };
        match tokio::time::timeout(limit, asking).await {
            Ok(answer) => answer.map_err(|error| {
                if has_old_token(&error) {
                    member.is_known.store(false, Ordering::Release);
                }
                judged(&member.address, &error)
            }),
            Err(_) => Err(Failure::Open(format!("{} gave no answer within {limit:?}", member.address))),
        }
    }

    /// Gets a token for the user, once for each change of etcd's users: not on connecting, when a member may be down.
    async fn introduce(&self, member: &Member) -> Result<(), Error> {
        let Some(EtcdUser { name, password }) = &self.user else { return Ok(()) };
        if !member.is_known.load(Ordering::Acquire) {
            let user = (name.clone(), password.to_string());
            member.client.clone().update_user(Some(user)).await?;
            member.is_known.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Up to two attempts at each member, for calls that may be repeated.
    pub async fn ask<T>(
        &self,
        limit: Duration,
        call: impl AsyncFn(Client) -> Result<T, Error>,
    ) -> Result<T, LedgerError> {
        let mut last = String::new();
        for _ in 0..2 * self.members.len() {
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

/// Users or roles of etcd have changed since it gave the token. It refused the call before it did anything, and takes it
/// with a new token.
fn has_old_token(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("revision of auth store is old"))
}

fn judged(member: &str, error: &Error) -> Failure {
    use tonic_code::*;
    let Error::GRpcStatus(status) = error else { return Failure::Open(format!("{member}: {error}")) };
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
        // An invalid argument by its code.
        _ if has_old_token(error) => Failure::Open(reason),
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
    let options = TlsOptions::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    Ok(match &tls.identity {
        Some((cert, key)) => options.identity(Identity::from_pem(read(cert)?, read(key)?)),
        None => options,
    })
}
