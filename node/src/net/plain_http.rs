//! A server of HTTP/1.1 without TLS for readers of metrics and health: few connections, and none that stays idle.

use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::admission::ConnectionLimit;
use crate::net::peer::network;

/// Connections of all, and of one IP address: there are few scrapers, and the page of one is made in milliseconds.
const CONNECTIONS: usize = 64;
const CONNECTIONS_PER_ADDRESS: usize = 32;
/// Time for the headers of a request; an idle connection is closed after it, also between two requests.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection, which ends one that does not read its answers.
const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Pause after a failed accept. Most likely there are no descriptors left, and other connections close in the meantime.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is cancelled and the answers in progress are sent.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let slots = ConnectionLimit::new(CONNECTIONS, CONNECTIONS_PER_ADDRESS);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = shutdown.cancelled() => break,
        };
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(ERROR_PAUSE).await;
            continue;
        };
        // One too many is closed as it came.
        if let Some(slot) = slots.take(network(from.ip().to_canonical())) {
            let router = router.clone();
            let shutdown = shutdown.clone();
            let answering = async move {
                let _late = timeout(CONNECTION_AGE, answer(stream, router, shutdown)).await;
                drop(slot);
            };
            connections.spawn(answering.boxed());
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn answer(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_TIMEOUT);
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        // Whatever went wrong, the other side knows it better.
        _ended = connection.as_mut() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn start() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "ok" }));
        tokio::spawn(serve(listener, router, CancellationToken::new()));
        address
    }

    async fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
        matches!(timeout(within, stream.read(&mut [0; 1])).await, Ok(Ok(0) | Err(_)))
    }

    #[tokio::test]
    async fn silent_connections_are_few_and_are_closed() {
        let address = start().await;
        let mut silent = Vec::new();
        for at in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // Some say a little.
            if at % 2 == 0 {
                let _may_be_closed = stream.write_all(b"GET / HTTP/1.1\r\nHo").await;
            }
            silent.push(stream);
        }
        let mut open = Vec::new();
        for mut stream in silent {
            if !is_closed(&mut stream, Duration::from_millis(20)).await {
                open.push(stream);
            }
        }
        assert_eq!(open.len(), CONNECTIONS_PER_ADDRESS);
        // What is said is nothing but that the request was late.
        let mut said = Vec::new();
        for stream in &mut open {
            timeout(HEADERS_TIMEOUT * 2, stream.read_to_end(&mut said)).await.expect("it is closed").unwrap();
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
            "there is room again: {answer}"
        );
    }
}
