//! One HTTP/2 connection for each endpoint, opened on first use and shared by every call.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use node::net::dial::{self, CallInterceptor, DialError, DialOptions};
use node::net::leader_channel::{LeaderChannel, split_urls};
use node::net::local_socket::host_id;
use node::tls::ExpectedServer;
use proto::pb::{
    budgets_client::BudgetsClient, jobs_client::JobsClient, noise_client::NoiseClient,
    shards_client::ShardsClient, workers_client::WorkersClient,
};
use proto::{MAX_MESSAGE_BYTES, PROTOCOL_HEADER, PROTOCOL_VERSION, Result, ServiceError, WorkerId};
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::Route;

/// A host that is up answers within milliseconds; one that is not should be left for another soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between pings. A partition drops segments for good: only an answered ping shows that a slow peer is not lost.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval and timeout of pings where several coordinators stand by: one that has stopped is soon left for another.
const STANDBY_KEEPALIVE: Duration = Duration::from_secs(1);

/// HTTP/2 windows and frame size. The defaults were measured: docs/serving.md has the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Flow-control window of each stream, in bytes.
    pub stream_window: u32,
    /// Flow-control window of each connection, in bytes.
    pub connection_window: u32,
    /// Largest frame that peers may send, in bytes.
    pub frame_bytes: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { stream_window: 16 << 20, connection_window: 64 << 20, frame_bytes: 128 << 10 }
    }
}

/// A channel to a worker. Every call carries the caller's trace and protocol version.
pub type WorkerChannel = InterceptedService<Channel, VersionInterceptor>;
/// A channel to the leading coordinator. Every call carries the caller's trace, protocol version and bearer token.
pub type CoordinatorChannel = InterceptedService<LeaderChannel, VersionInterceptor>;

/// Adds the protocol version to calls.
#[derive(Clone, Debug)]
pub struct VersionInterceptor(CallInterceptor);

impl Interceptor for VersionInterceptor {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let mut request = self.0.call(request)?;
        request.metadata_mut().insert(PROTOCOL_HEADER, MetadataValue::from(PROTOCOL_VERSION));
        Ok(request)
    }
}

type Dialer = Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>;

/// The connections of a process to coordinators and workers. Clones share them.
#[derive(Clone)]
pub struct Connections {
    /// Makes connections by other means than sockets.
    dialer: Option<Dialer>,
    dialing: DialOptions,
    /// Sorted, so that they close in the same order in every run.
    open: Arc<Mutex<BTreeMap<(String, ExpectedServer), Channel>>>,
    /// By their URLs as they were given.
    coordinators: Arc<Mutex<BTreeMap<String, LeaderChannel>>>,
    host: Arc<str>,
    tuning: Tuning,
}

impl Default for Connections {
    fn default() -> Self {
        Self::dialing(DialOptions::default())
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    /// Returns connections without TLS, on this host alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns connections that `dialer` makes by other means than sockets, for simulations.
    pub fn with_dialer(dialer: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Self {
        Self { dialer: Some(Arc::new(dialer)), ..Self::default() }
    }

    /// Returns connections with the given credentials.
    pub fn dialing(dialing: DialOptions) -> Self {
        Self {
            dialer: None,
            dialing,
            open: Arc::default(),
            coordinators: Arc::default(),
            host: host_id().into(),
            tuning: Tuning::default(),
        }
    }

    /// Replaces the HTTP/2 settings of connections made from now on.
    pub fn tuned(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Reaches workers of this host over TCP too.
    pub fn without_local(self) -> Self {
        Self { host: "".into(), ..self }
    }

    /// Returns the channel to a server. It connects on its first call. Call this inside a tokio runtime.
    pub fn channel(&self, endpoint: &str, expected: ExpectedServer) -> Result<Channel> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (endpoint.to_owned(), expected.clone());
        if let Some(channel) = open.get(&key) {
            return Ok(channel.clone());
        }
        let configured = configured(endpoint, self.tuning).map_err(refused)?;
        let channel = self.maker().dial(endpoint, configured, expected).map_err(refused)?;
        open.insert(key, channel.clone());
        Ok(channel)
    }

    /// Returns the endpoint of a route's worker: its Unix socket where that is on this host and answers.
    pub(crate) fn nearest(&self, route: &Route) -> Option<String> {
        let local = route.local.as_ref().filter(|local| !local.host.is_empty() && *local.host == *self.host);
        let local = local.and_then(|local| local.endpoint.clone()).filter(|endpoint| self.answers(endpoint));
        local.or_else(|| route.endpoint.clone())
    }

    fn answers(&self, endpoint: &str) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = open.keys().any(|(known, _)| known == endpoint);
        drop(open);
        is_open || endpoint.strip_prefix("unix://").is_some_and(|path| UnixStream::connect(path).is_ok())
    }

    /// Closes the connection to an endpoint, so that the next call connects anew. Call it after a transport failure;
    /// endpoints that are gone then don't pile up.
    pub fn forget(&self, endpoint: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(open, _), _| open != endpoint);
    }

    pub(crate) fn worker_channel(&self, endpoint: &str, worker: &WorkerId) -> Result<WorkerChannel> {
        let expected = ExpectedServer::worker(worker.as_str());
        let interceptor = VersionInterceptor(self.dialing.interceptor(&expected));
        Ok(InterceptedService::new(self.channel(endpoint, expected)?, interceptor))
    }

    /// Returns the channel to the coordinator that leads. `urls` are one or more, separated by commas. It connects on its
    /// first call. Call this inside a tokio runtime.
    pub fn coordinator(&self, urls: &str) -> Result<CoordinatorChannel> {
        let mut open = self.coordinators.lock().unwrap_or_else(PoisonError::into_inner);
        let following = match open.get(urls) {
            Some(following) => following.clone(),
            None => {
                let maker = self.maker();
                let tuning = self.tuning;
                let is_one = split_urls(urls).count() == 1;
                let dial = move |url: &str| {
                    let endpoint = configured(url, tuning)?;
                    let endpoint = if is_one { endpoint } else { near_deadline(endpoint) };
                    maker.dial(url, endpoint, ExpectedServer::Coordinator)
                };
                let following = LeaderChannel::new(urls, dial).map_err(refused)?;
                open.insert(urls.to_owned(), following.clone());
                following
            }
        };
        Ok(InterceptedService::new(
            following,
            VersionInterceptor(self.dialing.interceptor(&ExpectedServer::Coordinator)),
        ))
    }

    fn maker(&self) -> ConnectionMaker {
        ConnectionMaker { dialer: self.dialer.clone(), dialing: self.dialing.clone() }
    }

    /// Returns a client of a worker's shards. With TLS it accepts that worker alone at the endpoint.
    pub fn shards(&self, endpoint: &str, worker: &WorkerId) -> Result<ShardsClient<WorkerChannel>> {
        Ok(ShardsClient::new(self.worker_channel(endpoint, worker)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Returns a client of a coordinator's noise service.
    pub fn noise(&self, endpoint: &str) -> Result<NoiseClient<CoordinatorChannel>> {
        Ok(NoiseClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Returns a client of a coordinator's jobs.
    pub fn jobs(&self, endpoint: &str) -> Result<JobsClient<CoordinatorChannel>> {
        Ok(JobsClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Returns a client of a coordinator's data sets.
    pub fn budgets(&self, endpoint: &str) -> Result<BudgetsClient<CoordinatorChannel>> {
        Ok(BudgetsClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Returns a client of a coordinator's workers.
    pub fn workers(&self, endpoint: &str) -> Result<WorkersClient<CoordinatorChannel>> {
        Ok(WorkersClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }
}

/// The means to make a connection.
struct ConnectionMaker {
    dialer: Option<Dialer>,
    dialing: DialOptions,
}

impl ConnectionMaker {
    fn dial(&self, url: &str, endpoint: Endpoint, expected: ExpectedServer) -> Result<Channel, DialError> {
        match &self.dialer {
            Some(dialer) => Ok(dialer(endpoint)),
            None => self.dialing.connect(url, endpoint, expected),
        }
    }
}

fn near_deadline(endpoint: Endpoint) -> Endpoint {
    endpoint.http2_keep_alive_interval(STANDBY_KEEPALIVE).keep_alive_timeout(STANDBY_KEEPALIVE)
}

fn refused(error: DialError) -> ServiceError {
    ServiceError::invalid("endpoint", format!("{:?}", error.endpoint), error.allowed)
}

fn configured(endpoint: &str, tuning: Tuning) -> Result<Endpoint, DialError> {
    Ok(dial::endpoint(endpoint)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(tuning.stream_window)
        .initial_connection_window_size(tuning.connection_window)
        .max_frame_size(tuning.frame_bytes))
}

/// Returns the error that a service sent, or `Unavailable` where the connection failed.
///
/// tonic reports some broken connections with the code INTERNAL, which from a service would end a fetch; a status that
/// the transport made has a source. Use it only for requests that may be repeated.
pub fn from_status(status: Status) -> ServiceError {
    match status.source() {
        Some(source) => ServiceError::Unavailable { what: format!("{}: {source}", status.message()) },
        None => ServiceError::from(status),
    }
}

#[cfg(test)]
mod tests;
