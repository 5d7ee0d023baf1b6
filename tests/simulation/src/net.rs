//! tonic over the simulated network.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use client::Connections;
use futures::{Stream, stream};
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint};
use turmoil::net::{TcpListener, TcpStream};

pub const PORT: u16 = 7300;

pub fn url(host: &str) -> String {
    format!("http://{host}:{PORT}")
}

/// An accepted connection.
pub struct Socket(TcpStream);

impl Connected for Socket {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(task, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}

pub async fn accepting() -> io::Result<impl Stream<Item = io::Result<Socket>> + Send + 'static> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    Ok(stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| Socket(stream));
        Some((accepted, listener))
    }))
}

pub fn dial(endpoint: Endpoint) -> Channel {
    endpoint.connect_with_connector_lazy(tower::service_fn(|to: Uri| async move {
        let host = to.host().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let stream = TcpStream::connect((host, to.port_u16().unwrap_or(PORT))).await?;
        Ok::<_, io::Error>(TokioIo::new(stream))
    }))
}

pub fn connections() -> Connections {
    Connections::with_dialer(dial).without_local()
}
