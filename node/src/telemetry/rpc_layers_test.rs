//! Both layers on a real tonic server and client, with the standard health service as the service.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Server, server::TcpIncoming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::util::MapRequestLayer;

use crate::telemetry::rpc_metrics::RpcMetricsLayer;
use crate::telemetry::trace_context::TraceContext;
use crate::telemetry::trace_propagation::{TraceInterceptor, TraceLayer};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

type Seen = Arc<Mutex<Vec<TraceContext>>>;

/// Starts a server that notes each call's trace where a handler would see it.
async fn start(seen: Seen) -> SocketAddr {
    let (_, health) = tonic_health::server::health_reporter();
    let note = move |request: http::Request<tonic::body::Body>| {
        seen.lock().unwrap().extend(TraceContext::current());
        request
    };
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = Server::builder()
        .layer(TraceLayer)
        .layer(RpcMetricsLayer::new([CHECK, WATCH]))
        .layer(MapRequestLayer::new(note))
        .add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

async fn connect(address: SocketAddr) -> HealthClient<InterceptedService<Channel, TraceInterceptor>> {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    HealthClient::with_interceptor(channel, TraceInterceptor)
}

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn wait_for(recorder: &PrometheusHandle, line: &str) {
    for _ in 0..200 {
        if recorder.render().lines().any(|rendered| rendered == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no line {line} in\n{}", recorder.render());
}

/// The recorder is this thread's, so the runtime must be of this thread too.
fn on_this_thread<F: Future>(test: impl FnOnce(PrometheusHandle) -> F) {
    let recorder = crate::telemetry::recorder::builder().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(recorder.handle())));
}

#[test]
fn the_trace_crosses_from_client_to_handler() {
    on_this_thread(|_| async {
        let seen = Seen::default();
        let mut client = connect(start(seen.clone()).await).await;
        let trace = TraceContext::root();
        trace.scope(client.check(about(""))).await.unwrap();
        client.check(about("")).await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].trace_id(), trace.trace_id());
        assert_ne!(seen[0].span_id(), trace.span_id());
        assert_ne!(seen[1].trace_id(), trace.trace_id());
    });
}

#[test]
fn calls_are_counted_by_method_and_code() {
    on_this_thread(|recorder| async move {
        let mut client = connect(start(Seen::default()).await).await;
        client.check(about("")).await.unwrap();
        client.check(about("")).await.unwrap();
        client.check(about("no such service")).await.unwrap_err();
        wait_for(&recorder, &format!(r#"rustle_rpc_requests_total{{method="{CHECK}",code="ok"}} 2"#)).await;
        wait_for(&recorder, &format!(r#"rustle_rpc_requests_total{{method="{CHECK}",code="not_found"}} 1"#))
            .await;
        wait_for(&recorder, &format!(r#"rustle_rpc_duration_seconds_count{{method="{CHECK}",code="ok"}} 2"#))
            .await;
        wait_for(&recorder, &format!(r#"rustle_rpc_in_flight_requests{{method="{CHECK}"}} 0"#)).await;
    });
}

#[test]
fn a_stream_is_in_flight_until_its_caller_leaves_and_then_cancelled() {
    on_this_thread(|recorder| async move {
        let mut client = connect(start(Seen::default()).await).await;
        let mut stream = client.watch(about("")).await.unwrap().into_inner();
        stream.message().await.unwrap().unwrap();
        wait_for(&recorder, &format!(r#"rustle_rpc_in_flight_requests{{method="{WATCH}"}} 1"#)).await;
        drop(stream);
        wait_for(&recorder, &format!(r#"rustle_rpc_requests_total{{method="{WATCH}",code="cancelled"}} 1"#))
            .await;
        wait_for(&recorder, &format!(r#"rustle_rpc_in_flight_requests{{method="{WATCH}"}} 0"#)).await;
    });
}

#[test]
fn paths_that_do_not_exist_make_no_labels() {
    on_this_thread(|recorder| async move {
        let address = start(Seen::default()).await;
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let request = http::Request::post(format!("http://{address}/made.up/Path"));
        let request =
            request.header("content-type", "application/grpc").body(tonic::body::Body::empty()).unwrap();
        tower::ServiceExt::oneshot(channel, request).await.unwrap();
        wait_for(&recorder, r#"rustle_rpc_requests_total{method="other",code="unimplemented"} 1"#).await;
        assert!(!recorder.render().contains("made.up"));
    });
}
