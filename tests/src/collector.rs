//! A collector of traces and log records in the test's own process: a real OTLP service.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node::process::runtime::Runtime;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
    logs_service_server::{LogsService, LogsServiceServer},
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Keeps all that it is sent.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    logs: Arc<Mutex<Vec<ExportLogsServiceRequest>>>,
}

#[tonic::async_trait]
impl LogsService for Collector {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.logs().push(request.into_inner());
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.requests().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A span, and the process that sent it.
#[derive(Clone, Debug)]
pub struct Sent {
    pub service: String,
    pub span: Span,
}

impl Collector {
    pub fn start(runtime: &Runtime) -> (Self, SocketAddr) {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_at(runtime, address)
    }

    /// Starts one at an address; port 0 is any.
    pub fn start_at(runtime: &Runtime, address: SocketAddr) -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(collector.clone()))
            .add_service(LogsServiceServer::new(collector.clone()));
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    /// Returns the event name and the text of every log record, in the order in which they came.
    pub fn records(&self) -> Vec<(String, String)> {
        let requests = self.logs();
        let scopes = requests.iter().flat_map(|request| &request.resource_logs).flat_map(|of| {
            assert_eq!(service(of.resource.as_ref().expect("a resource")), "rustle-coordinator");
            &of.scope_logs
        });
        let text = |body: Option<Value>| match body {
            Some(Value::StringValue(text)) => text,
            other => panic!("a record is {other:?}"),
        };
        let records = scopes.flat_map(|scope| scope.log_records.clone());
        records.map(|record| (record.event_name, text(record.body.and_then(|body| body.value)))).collect()
    }

    pub fn spans(&self) -> Vec<Sent> {
        let requests = self.requests();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let spans = resources.flat_map(|of| {
            let service = service(of.resource.as_ref().expect("a resource"));
            let spans = of.scope_spans.iter().flat_map(|scope| scope.spans.clone());
            spans.map(move |span| Sent { service: service.clone(), span })
        });
        spans.collect()
    }

    fn requests(&self) -> MutexGuard<'_, Vec<ExportTraceServiceRequest>> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self) -> MutexGuard<'_, Vec<ExportLogsServiceRequest>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that came, as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.requests().iter().flat_map(Message::encode_to_vec).collect();
        bytes.extend(self.logs().iter().flat_map(Message::encode_to_vec));
        bytes
    }
}

fn service(resource: &Resource) -> String {
    let found = resource.attributes.iter().find(|attribute| attribute.key == "service.name");
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(name)) => name,
        other => panic!("service.name is {other:?}"),
    }
}
