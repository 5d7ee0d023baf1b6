//! Dialling servers: over TLS, or on this host alone, with the credentials to show.

use std::net::IpAddr;

use http::Uri;
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::auth::Bearer;
use crate::security::ServerSecurity;
use crate::telemetry::trace_propagation::TraceInterceptor;
use crate::tls::{Connector, Credentials, ExpectedServer};

/// The credentials that servers are shown and must show. The default has none, and connects on this host alone.
#[derive(Clone, Debug, Default)]
pub struct DialOptions {
    /// The TLS credentials; with them every TCP connection is TLS.
    pub credentials: Option<Credentials>,
    /// A token for coordinators alone: workers require release tokens instead.
    pub bearer: Option<Bearer>,
    /// Whether to connect beyond this host without TLS.
    pub insecure: bool,
}

/// The error of a URL that may not be dialled.
#[derive(Debug, thiserror::Error)]
#[error("endpoint is {endpoint:?}; allowed: {allowed}")]
pub struct DialError {
    /// The URL.
    pub endpoint: String,
    /// The URLs that are allowed.
    pub allowed: &'static str,
}

impl From<ServerSecurity> for DialOptions {
    fn from(secured: ServerSecurity) -> Self {
        Self { credentials: secured.credentials, bearer: None, insecure: secured.insecure }
    }
}

impl DialOptions {
    /// Returns a channel that connects on its first call. Call this inside a tokio runtime.
    pub fn connect(
        &self,
        url: &str,
        endpoint: Endpoint,
        expected: ExpectedServer,
    ) -> Result<Channel, DialError> {
        self.check(url, endpoint.uri().host().unwrap_or_default())?;
        Ok(match &self.credentials {
            Some(credentials) if !is_unix(url) => {
                let credentials = credentials.clone();
                endpoint.connect_with_connector_lazy(Connector { credentials, expected })
            }
            _ => endpoint.connect_lazy(),
        })
    }

    /// Returns the interceptor for calls to `expected`.
    pub fn interceptor(&self, expected: &ExpectedServer) -> CallInterceptor {
        CallInterceptor(self.bearer.clone().filter(|_| *expected == ExpectedServer::Coordinator))
    }

    fn check(&self, url: &str, host: &str) -> Result<(), DialError> {
        let is_tls = url.starts_with("https://");
        let allowed = match (&self.credentials, is_tls) {
            _ if is_unix(url) => return Ok(()),
            // A client with TLS never falls back to none, even if a routing says so.
            (Some(_), false) => "https://host:port or unix:///path, since --tls-dir is given",
            (None, true) => "http://host:port or unix:///path; https:// takes --tls-dir",
            (None, false) if !self.insecure && !is_loopback(host) => {
                "loopback without TLS (--tls-dir), or anything with --insecure-listen"
            }
            _ => return Ok(()),
        };
        Err(DialError { endpoint: url.to_owned(), allowed })
    }
}

/// Returns tonic's endpoint for `url`. TLS is done by our own connector, so tonic sees a URI of `http`: where it has TLS
/// of its own, which the feature `etcd` brings, it would refuse another connector under `https`.
pub fn endpoint(url: &str) -> Result<Endpoint, DialError> {
    let allowed = "http://host:port, https://host:port or unix:///path";
    let refused = || DialError { endpoint: url.to_owned(), allowed };
    let parsed = |url: &str| Endpoint::from_shared(url.to_owned()).map_err(|_| refused());
    if is_unix(url) {
        // The authority that other gRPC servers expect over a Unix socket.
        return Ok(parsed(url)?.origin(Uri::from_static("http://localhost")));
    }
    let endpoint = match url.strip_prefix("https://") {
        Some(address) => parsed(&format!("http://{address}"))?.origin(url.parse().map_err(|_| refused())?),
        None if url.starts_with("http://") => parsed(url)?,
        None => return Err(refused()),
    };
    if endpoint.uri().host().is_some() { Ok(endpoint) } else { Err(refused()) }
}

/// Returns whether `url` is a path on this host, `unix:///path`.
pub fn is_unix(url: &str) -> bool {
    url.strip_prefix("unix://").is_some_and(|path| path.starts_with('/'))
}

/// Returns whether the host of a URL is this machine by its name or address.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Adds the trace to every call, and the caller's token to those to a coordinator.
#[derive(Clone, Debug)]
pub struct CallInterceptor(Option<Bearer>);

impl Interceptor for CallInterceptor {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let mut request = TraceInterceptor.call(request)?;
        if let Some(bearer) = &self.0 {
            request.metadata_mut().insert("authorization", bearer.metadata());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether or not tonic was built with TLS of its own: one that sees https without it refuses every connection.
    #[test]
    fn tonic_sees_no_tls() {
        let tls = endpoint("https://node-1:7").unwrap();
        assert_eq!(tls.uri(), "http://node-1:7/");
        assert_eq!(endpoint("http://node-1:7").unwrap().uri(), "http://node-1:7/");
        for bad in ["", "https://", "http://", "node-1:7", "https:/x", "ftp://x:1", "unix:x"] {
            assert!(endpoint(bad).unwrap_err().to_string().contains(&format!("{bad:?}")), "{bad:?}");
        }
    }
}
