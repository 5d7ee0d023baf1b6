//! Log records to an OpenTelemetry collector, OTLP over gRPC, sent while the caller waits, so that it learns what arrived.

use std::time::SystemTime;

use opentelemetry::InstrumentationScope;
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry_otlp::{LogExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLogger, SdkLoggerProvider};
use tokio::runtime::Runtime;

use crate::telemetry::error::TelemetryError;
use crate::telemetry::otlp::{check, failed};

/// A connection to a collector that takes log records.
pub struct LogExport {
    exporter: LogExporter,
    /// Makes records; nothing is processed by it.
    logger: SdkLogger,
    scope: InstrumentationScope,
    runtime: Option<Runtime>,
}

impl LogExport {
    /// Prepares records of the service `service` for the collector at `url`, which need not be there yet.
    /// `OTEL_RESOURCE_ATTRIBUTES` is heeded.
    ///
    /// # Errors
    /// The URL is not `http://host:port`, or no thread can be started.
    pub fn start(url: &str, service: &'static str) -> Result<Self, TelemetryError> {
        check(url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp-logs")
            .enable_all()
            .build()
            .map_err(|error| failed(url, error))?;
        let exporter = {
            let _inside = runtime.enter();
            LogExporter::builder().with_tonic().with_endpoint(url).build()
        };
        let mut exporter = exporter.map_err(|error| failed(url, error))?;
        exporter.set_resource(&Resource::builder().with_service_name(service).build());
        let logger = SdkLoggerProvider::builder().build().logger("rustle");
        let scope = InstrumentationScope::builder("rustle").build();
        Ok(Self { exporter, logger, scope, runtime: Some(runtime) })
    }

    /// Sends a record for each body, in order, and waits until the collector has accepted them or ten seconds have passed.
    /// Must not be called from an async task.
    ///
    /// # Errors
    /// The collector can't be reached, refuses, or does not answer; it may have them all the same.
    pub fn send<'a>(
        &self,
        event: &'static str,
        bodies: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), String> {
        let now = SystemTime::now();
        let records = bodies.into_iter().map(|body| {
            let mut record = self.logger.create_log_record();
            record.set_event_name(event);
            record.set_observed_timestamp(now);
            record.set_severity_number(Severity::Info);
            record.set_body(AnyValue::from(body.to_owned()));
            record
        });
        let records: Vec<_> = records.collect();
        let batch: Vec<_> = records.iter().map(|record| (record, &self.scope)).collect();
        let Some(runtime) = &self.runtime else { return Err("it has ended".to_owned()) };
        runtime.block_on(self.exporter.export(LogBatch::new(&batch))).map_err(|error| error.to_string())
    }
}

impl Drop for LogExport {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
