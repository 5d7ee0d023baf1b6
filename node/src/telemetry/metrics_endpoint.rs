//! The plain HTTP endpoint for operators: `/metrics`, `/livez`, `/readyz`, `/status`, and `/` and `/events` where there is a
//! page.
//!
//! `/livez` asks nothing of any other process: if it did, one lost peer would restart its neighbours for
//! ever.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::net::plain_http;
use crate::process::memory;
use crate::process::readiness::Readiness;
use crate::telemetry::live_page::{LivePage, Text};
use crate::telemetry::metric_definitions::RESIDENT_MEMORY;

/// The recorder keeps every histogram sample until upkeep or a scrape folds it into its buckets.
const UPKEEP_PERIOD: Duration = Duration::from_secs(5);
/// A scraper that stalls half-way through its request must not hold up the end of the process.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// Makes the body of `/status`. It runs on an async thread, so it must not block.
pub type StatusReport = Arc<dyn Fn() -> serde_json::Value + Send + Sync>;

/// The pages and metrics that one kind of process serves beside those of all.
#[derive(Clone, Default)]
pub struct Extras {
    /// The page at `/`.
    pub page: Option<LivePage>,
    /// Series that live as long as what they are of, in Prometheus' text format, after the recorder's own.
    pub series: Option<Text>,
    /// What the body of a ready `/readyz` adds, such as shards that no worker serves, without making it unready.
    pub remarks: Option<Text>,
}

/// The HTTP endpoint for metrics, health and status.
#[derive(Clone)]
pub struct MetricsEndpoint {
    /// The recorder whose metrics it prints.
    pub recorder: PrometheusHandle,
    /// The readiness that it reports.
    pub readiness: Readiness,
    /// Returns the status object.
    pub status: StatusReport,
    /// Pages and metrics beside these.
    pub extras: Extras,
}

impl fmt::Debug for MetricsEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MetricsEndpoint").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

impl MetricsEndpoint {
    /// Serves until `shutdown` is cancelled, then lets answers in progress finish, for a second at most.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        let upkeep = run_upkeep(self.recorder.clone());
        let server = plain_http::serve(listener, self.router(shutdown.clone()), shutdown.clone());
        let too_late = async {
            shutdown.cancelled().await;
            tokio::time::sleep(CLOSING_TIME).await;
        };
        tokio::select! {
            () = server => Ok(()),
            () = too_late => Ok(()),
            never = upkeep => match never {},
        }
    }

    /// Returns the paths. Streams of events end when `shutdown` is cancelled.
    fn router(self, shutdown: CancellationToken) -> Router {
        Router::new()
            .route("/metrics", get(metrics_text))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/status", get(status))
            .route("/", get(page))
            .route("/events", get(|endpoint| events(endpoint, shutdown)))
            .with_state(self)
    }
}

async fn run_upkeep(recorder: PrometheusHandle) -> Infallible {
    let mut ticks = tokio::time::interval(UPKEEP_PERIOD);
    loop {
        ticks.tick().await;
        recorder.run_upkeep();
    }
}

async fn metrics_text(State(endpoint): State<MetricsEndpoint>) -> Response {
    if let Some(bytes) = memory::resident_bytes() {
        gauge!(RESIDENT_MEMORY).set(bytes as f64);
    }
    let mut text = endpoint.recorder.render();
    if let Some(series) = &endpoint.extras.series {
        text.push_str(&series());
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn page(State(endpoint): State<MetricsEndpoint>) -> Response {
    endpoint.extras.page.map_or_else(no_page, |page| page.answer())
}

async fn events(State(endpoint): State<MetricsEndpoint>, shutdown: CancellationToken) -> Response {
    endpoint.extras.page.map_or_else(no_page, |page| page.events(shutdown))
}

fn no_page() -> Response {
    (StatusCode::NOT_FOUND, "no page here; try /status or /metrics\n").into_response()
}

async fn ready(State(endpoint): State<MetricsEndpoint>) -> Response {
    match endpoint.readiness.check() {
        Ok(()) => {
            let remarks = endpoint.extras.remarks.as_ref().map_or(String::new(), |remarks| remarks());
            format!("ready\n{remarks}").into_response()
        }
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}

async fn status(State(endpoint): State<MetricsEndpoint>) -> Response {
    let body = format!("{}\n", (endpoint.status)());
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::telemetry::recorder::install_recorder;

    struct Running {
        address: SocketAddr,
        readiness: Readiness,
        shutdown: CancellationToken,
        server: JoinHandle<io::Result<()>>,
    }

    async fn start() -> Running {
        let readiness = Readiness::not_ready("starting");
        let endpoint = MetricsEndpoint {
            recorder: install_recorder().unwrap(),
            readiness: readiness.clone(),
            status: Arc::new(|| serde_json::json!({"shards": 3})),
            extras: Extras {
                page: Some(LivePage::new(
                    Arc::new(|| "<p>three shards</p>".into()),
                    Arc::new(|| "three\nshards".into()),
                    "alert(1)",
                )),
                series: Some(Arc::new(|| "rustle_job_rows_bound{job=\"j\"} 3\n".into())),
                remarks: Some(Arc::new(|| "1 of 3 shards is not served\n".into())),
            },
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(endpoint.serve(listener, shutdown.clone()));
        Running { address, readiness, shutdown, server }
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn answers_each_path_and_only_those() {
        let running = start().await;
        metrics::counter!("rustle_endpoint_test_total").increment(1);
        let metrics = get(running.address, "/metrics").await;
        assert!(
            metrics.starts_with("HTTP/1.1 200") && metrics.contains("rustle_endpoint_test_total"),
            "{metrics}"
        );
        #[cfg(target_os = "linux")]
        assert!(metrics.contains("rustle_process_resident_memory_bytes"), "{metrics}");
        assert!(get(running.address, "/livez").await.starts_with("HTTP/1.1 200"));
        assert!(get(running.address, "/status").await.ends_with("{\"shards\":3}\n"));
        assert!(metrics.ends_with("rustle_job_rows_bound{job=\"j\"} 3\n"), "{metrics}");
        let page = get(running.address, "/").await;
        assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
        // By openssl dgst -sha256 -binary | base64.
        assert!(page.contains("script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=';"), "{page}");
        assert!(page.ends_with("<p>three shards</p>"), "{page}");
        assert!(get(running.address, "/nothing").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn events_tell_the_content_and_end_with_the_process() {
        let running = start().await;
        let mut reader = TcpStream::connect(running.address).await.unwrap();
        reader.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains("data: three\ndata: shards\n\n") {
            assert!(reader.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
        }
        assert!(String::from_utf8_lossy(&answer).contains("content-type: text/event-stream"));
        running.shutdown.cancel();
        reader.read_to_end(&mut answer).await.unwrap();
        running.server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn readiness_decides_readyz_and_not_livez() {
        let running = start().await;
        let refused = get(running.address, "/readyz").await;
        assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("starting"), "{refused}");
        assert!(get(running.address, "/livez").await.starts_with("HTTP/1.1 200"));
        running.readiness.set_ready();
        let ready = get(running.address, "/readyz").await;
        assert!(
            ready.starts_with("HTTP/1.1 200") && ready.contains("1 of 3 shards is not served"),
            "{ready}"
        );
    }

    #[tokio::test]
    async fn a_stalled_client_does_not_hold_up_shutdown() {
        let running = start().await;
        let mut stalled = TcpStream::connect(running.address).await.unwrap();
        stalled.write_all(b"GET /livez HTTP/1.1\r\nHo").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        running.shutdown.cancel();
        tokio::time::timeout(CLOSING_TIME * 5, running.server).await.unwrap().unwrap().unwrap();
        assert!(TcpStream::connect(running.address).await.is_err());
    }
}
