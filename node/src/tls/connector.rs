//! Dials a server over TLS, for tonic's channels.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::credentials::Credentials;
use super::expected::ExpectedServer;

/// Time for a TLS handshake, on both sides.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// Time for a TCP connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Connects over TLS, whatever the URI's scheme, with the credentials that are in force at the time.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The certificates that this process shows and trusts.
    pub credentials: Credentials,
    /// The server that must be at the other end.
    pub expected: ExpectedServer,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let config = self.credentials.client(self.expected.clone());
        Box::pin(async move {
            let host =
                uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(host.clone()).map_err(refused)?;
            let dialing = TcpStream::connect((host, uri.port_u16().unwrap_or(443)));
            let stream = within(CONNECT_LIMIT, dialing).await?;
            stream.set_nodelay(true)?;
            let stream = within(HANDSHAKE_LIMIT, TlsConnector::from(config).connect(name, stream)).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}"))),
    }
}

fn refused(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}
