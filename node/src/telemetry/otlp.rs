//! Spans to an OpenTelemetry collector: OTLP over gRPC, in batches, from threads of their own. Nothing of it exists
//! unless a collector is configured.

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Runtime;

use crate::telemetry::error::TelemetryError;

/// Time to send the remaining spans at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The export of spans. When dropped, it sends those that are left.
pub struct SpanExport {
    provider: SdkTracerProvider,
    runtime: Option<Runtime>,
}

impl SpanExport {
    /// Spans of the service `service` to the collector at `url`. A collector that is not there loses spans and delays
    /// no one. `OTEL_TRACES_SAMPLER` and `OTEL_RESOURCE_ATTRIBUTES` are heeded.
    pub fn start(url: &str, service: &'static str) -> Result<(Self, SdkTracer), TelemetryError> {
        check(url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp")
            .enable_all()
            .build()
            .map_err(|error| failed(url, error))?;
        let exporter = {
            let _inside = runtime.enter();
            SpanExporter::builder().with_tonic().with_endpoint(url).build()
        };
        let exporter = exporter.map_err(|error| failed(url, error))?;
        let resource = Resource::builder().with_service_name(service).build();
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let tracer = provider.tracer("rustle");
        Ok((Self { provider, runtime: Some(runtime) }, tracer))
    }
}

impl Drop for SpanExport {
    fn drop(&mut self) {
        // A collector that is gone is no reason to end otherwise.
        let _spans_lost = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) fn check(url: &str) -> Result<(), TelemetryError> {
    let uri = url.parse::<http::Uri>().ok();
    let is_plain = uri.is_some_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
    if is_plain { Ok(()) } else { Err(TelemetryError::BadCollector { url: url.to_owned() }) }
}

pub(super) fn failed(url: &str, error: impl std::fmt::Display) -> TelemetryError {
    TelemetryError::Exporter { url: url.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_reached_by_plain_grpc() {
        for good in ["http://127.0.0.1:4317", "http://[::1]:4317", "http://collector:4317/"] {
            check(good).unwrap();
        }
        for bad in ["", "127.0.0.1:4317", "https://collector:4317", "http://", "collector"] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("http://host:port"), "{error}");
        }
    }
}
