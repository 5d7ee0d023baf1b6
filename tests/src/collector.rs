//! A collector of traces in the test's own process: a real OTLP service.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node::process::runtime::Runtime;
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
pub struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

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
        let collector = Self::default();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server =
            tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that came, as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        self.requests().iter().flat_map(Message::encode_to_vec).collect()
    }
}

fn service(resource: &Resource) -> String {
    let found = resource.attributes.iter().find(|attribute| attribute.key == "service.name");
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(name)) => name,
        other => panic!("service.name is {other:?}"),
    }
}
