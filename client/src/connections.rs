//! One HTTP/2 connection an endpoint, opened on first use and shared by every call.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use node::net::dial::{self, CallInterceptor, DialError, Dialing};
use node::net::leader_channel::{Following, each_of};
use node::net::local_socket::host_id;
use node::tls::Expected;
use proto::pb::{
    jobs_client::JobsClient, noise_client::NoiseClient, shards_client::ShardsClient,
    workers_client::WorkersClient,
};
use proto::{MAX_MESSAGE_BYTES, PROTOCOL_HEADER, PROTOCOL_VERSION, Result, ServiceError, WorkerId};
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::Route;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A partition drops segments for good: only an answered ping tells a slow peer from a lost one.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Where another coordinator can take over, one that has stopped is not waited for.
const KEEPALIVE_OF_MANY: Duration = Duration::from_secs(1);

/// What HTTP/2 is told, by measurement: docs/serving.md has the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    pub stream_window: u32,
    pub connection_window: u32,
    /// Largest frame that peers may send.
    pub frame_bytes: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { stream_window: 16 << 20, connection_window: 64 << 20, frame_bytes: 128 << 10 }
    }
}

/// Every call carries the caller's trace and protocol version.
pub(crate) type Traced = InterceptedService<Channel, Versioned>;
/// As [`Traced`], and the caller's token, to the coordinator that leads.
pub type Led = InterceptedService<Following, Versioned>;

/// Adds the version to what calls carry.
#[derive(Clone, Debug)]
pub struct Versioned(CallInterceptor);

impl Interceptor for Versioned {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let mut request = self.0.call(request)?;
        request.metadata_mut().insert(PROTOCOL_HEADER, MetadataValue::from(PROTOCOL_VERSION));
        Ok(request)
    }
}

type Dialer = Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>;

/// Clones share their connections.
#[derive(Clone)]
pub struct Connections {
    /// By other means than sockets.
    dialer: Option<Dialer>,
    dialing: Dialing,
    /// In order, so that they close in the same order in every run.
    open: Arc<Mutex<BTreeMap<(String, Expected), Channel>>>,
    /// By their URLs as given.
    coordinators: Arc<Mutex<BTreeMap<String, Following>>>,
    host: Arc<str>,
    tuning: Tuning,
}

impl Default for Connections {
    fn default() -> Self {
        Self::dialing(Dialing::default())
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    pub fn new() -> Self {
        Self::default()
    }

    /// Dials by other means than sockets: simulations.
    pub fn with_dialer(dialer: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Self {
        Self { dialer: Some(Arc::new(dialer)), ..Self::default() }
    }

    pub fn dialing(dialing: Dialing) -> Self {
        Self {
            dialer: None,
            dialing,
            open: Arc::default(),
            coordinators: Arc::default(),
            host: host_id().into(),
            tuning: Tuning::default(),
        }
    }

    pub fn tuned(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Reaches workers of this host as others do.
    pub fn without_local(self) -> Self {
        Self { host: "".into(), ..self }
    }

    /// Connects on the first call through it. Must be called inside a tokio runtime.
    pub fn channel(&self, endpoint: &str, expected: Expected) -> Result<Channel> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (endpoint.to_owned(), expected.clone());
        if let Some(channel) = open.get(&key) {
            return Ok(channel.clone());
        }
        let configured = configured(endpoint, self.tuning).map_err(refused)?;
        let channel = self.dials().dial(endpoint, configured, expected).map_err(refused)?;
        open.insert(key, channel.clone());
        Ok(channel)
    }

    /// How to reach the worker of a route: by its Unix socket where that is on this host and answers.
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

    /// The next call dials anew: after a transport failure, and so that endpoints that are gone don't pile up.
    pub fn forget(&self, endpoint: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(open, _), _| open != endpoint);
    }

    pub(crate) fn traced(&self, endpoint: &str, worker: &WorkerId) -> Result<Traced> {
        let expected = Expected::worker(worker.as_str());
        let interceptor = Versioned(self.dialing.interceptor(&expected));
        Ok(InterceptedService::new(self.channel(endpoint, expected)?, interceptor))
    }

    /// `urls`: one or more, with commas between. Connects on the first call. Must be called inside a tokio runtime.
    pub fn coordinator(&self, urls: &str) -> Result<Led> {
        let mut open = self.coordinators.lock().unwrap_or_else(PoisonError::into_inner);
        let following = match open.get(urls) {
            Some(following) => following.clone(),
            None => {
                let dials = self.dials();
                let tuning = self.tuning;
                let is_one = each_of(urls).count() == 1;
                let dial = move |url: &str| {
                    let endpoint = configured(url, tuning)?;
                    let endpoint = if is_one { endpoint } else { soon_given_up(endpoint) };
                    dials.dial(url, endpoint, Expected::Coordinator)
                };
                let following = Following::new(urls, dial).map_err(refused)?;
                open.insert(urls.to_owned(), following.clone());
                following
            }
        };
        Ok(InterceptedService::new(following, Versioned(self.dialing.interceptor(&Expected::Coordinator))))
    }

    fn dials(&self) -> Dials {
        Dials { dialer: self.dialer.clone(), dialing: self.dialing.clone() }
    }

    /// Of the worker and of nobody else at its endpoint, where there is TLS.
    pub fn shards(&self, endpoint: &str, worker: &WorkerId) -> Result<ShardsClient<Traced>> {
        Ok(ShardsClient::new(self.traced(endpoint, worker)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    pub fn noise(&self, endpoint: &str) -> Result<NoiseClient<Led>> {
        Ok(NoiseClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    pub fn jobs(&self, endpoint: &str) -> Result<JobsClient<Led>> {
        Ok(JobsClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    pub fn workers(&self, endpoint: &str) -> Result<WorkersClient<Led>> {
        Ok(WorkersClient::new(self.coordinator(endpoint)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }
}

/// How connections are made.
struct Dials {
    dialer: Option<Dialer>,
    dialing: Dialing,
}

impl Dials {
    fn dial(&self, url: &str, endpoint: Endpoint, expected: Expected) -> Result<Channel, DialError> {
        match &self.dialer {
            Some(dialer) => Ok(dialer(endpoint)),
            None => self.dialing.connect(url, endpoint, expected),
        }
    }
}

fn soon_given_up(endpoint: Endpoint) -> Endpoint {
    endpoint.http2_keep_alive_interval(KEEPALIVE_OF_MANY).keep_alive_timeout(KEEPALIVE_OF_MANY)
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

/// The error a service sent, or `Unavailable` where the connection failed. tonic gives some broken connections the
/// code INTERNAL, which from a service would end a fetch; a status made by the transport is told by its source.
/// Use only for requests that may be repeated.
pub fn from_status(status: Status) -> ServiceError {
    match status.source() {
        Some(source) => ServiceError::Unavailable { what: format!("{}: {source}", status.message()) },
        None => ServiceError::from(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_lazy_shared_and_checked() {
        let connections = Connections::new();
        let channel = |endpoint| connections.channel(endpoint, Expected::Coordinator);
        channel("http://127.0.0.1:9").unwrap();
        channel("http://127.0.0.1:9").unwrap();
        assert_eq!(connections.open.lock().unwrap().len(), 1);
        connections.forget("http://127.0.0.1:9");
        assert!(connections.open.lock().unwrap().is_empty());
        channel("unix:///tmp/none").unwrap();
        channel("http://[::1]:9").unwrap();
        for bad in ["", "127.0.0.1:9", "ftp://x:1", "http://", "a b", "unix:x", "unix://x"] {
            assert!(matches!(channel(bad), Err(ServiceError::InvalidArgument { .. })), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn beyond_this_host_there_is_tls_or_a_flag() {
        let plain = Connections::new();
        for remote in
            ["http://10.0.0.1:7", "http://node-1:7", "http://[2001:db8::1]:7", "https://127.0.0.1:7"]
        {
            let error = plain.channel(remote, Expected::worker("w")).unwrap_err().to_string();
            assert!(error.contains("--tls-dir") && error.contains(remote), "{error}");
        }
        let insecure = Connections::dialing(Dialing { insecure: true, ..Dialing::default() });
        insecure.channel("http://10.0.0.1:7", Expected::worker("w")).unwrap();
    }

    #[tokio::test]
    async fn a_refused_connection_is_safe_to_retry() {
        let connections = Connections::new();
        let mut jobs = connections.jobs("http://127.0.0.1:1").unwrap();
        let status = jobs.list_jobs(proto::pb::ListJobsRequest {}).await.unwrap_err();
        assert!(from_status(status).retry_safe());
    }
}
