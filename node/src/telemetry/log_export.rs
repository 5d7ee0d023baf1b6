//! Log records to an OpenTelemetry collector, OTLP over gRPC, sent while the caller waits, so that it learns what arrived.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::net::dial::is_loopback;
use crate::telemetry::error::{LogExportError, TelemetryError};
use crate::telemetry::otlp::{check, failed};

/// The time in which a collector has to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A connection to a collector that takes log records.
pub struct LogExport {
    client: LogsServiceClient<Channel>,
    resource: ResourceAttributesWithSchema,
    runtime: Option<Runtime>,
}

impl LogExport {
    /// Prepares records of the service `service` for the collector at `url`, which need not be there yet, but on this machine:
    /// the connection has no TLS. `OTEL_RESOURCE_ATTRIBUTES` is heeded.
    ///
    /// # Errors
    /// The URL is not `http://host:port` of this machine, or no thread can be started.
    pub fn start(url: &str, service: &'static str) -> Result<Self, TelemetryError> {
        check(url)?;
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| failed(url, error))?;
        if !endpoint.uri().host().is_some_and(is_loopback) {
            return Err(TelemetryError::CollectorBeyondHost { url: url.to_owned() });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp-logs")
            .enable_all()
            .build()
            .map_err(|error| failed(url, error))?;
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_lazy()
        };
        let resource = opentelemetry_sdk::Resource::builder().with_service_name(service).build();
        let client = LogsServiceClient::new(channel);
        Ok(Self { client, resource: (&resource).into(), runtime: Some(runtime) })
    }

    /// Sends a record for each body, in order, and waits until the collector has accepted them all or ten seconds have passed.
    /// Must not be called from an async task.
    ///
    /// # Errors
    /// The collector can't be reached, refuses some of them, or does not answer; it may have them all the same.
    pub fn send<'a>(
        &self,
        event: &str,
        bodies: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), LogExportError> {
        let unavailable = |reason: &str| LogExportError::Unavailable { reason: reason.to_owned() };
        let Some(runtime) = &self.runtime else { return Err(unavailable("the connection has ended")) };
        let request = self.request(event, bodies);
        let mut client = self.client.clone();
        let answer = runtime.block_on(async { timeout(ANSWER, client.export(request)).await });
        let response = answer.map_err(|_| unavailable("no answer within ten seconds"))?;
        let response = response.map_err(|status| classify(&status))?;
        match response.into_inner().partial_success {
            Some(partial) if partial.rejected_log_records > 0 => {
                let reason = format!("{} rejected: {}", partial.rejected_log_records, partial.error_message);
                Err(LogExportError::Refused { reason })
            }
            _ => Ok(()),
        }
    }

    fn request<'a>(
        &self,
        event: &str,
        bodies: impl IntoIterator<Item = &'a str>,
    ) -> ExportLogsServiceRequest {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let observed_time_unix_nano = u64::try_from(since.as_nanos()).unwrap_or_default();
        let record = |body: &str| LogRecord {
            observed_time_unix_nano,
            severity_number: SeverityNumber::Info.into(),
            body: Some(AnyValue { value: Some(Value::StringValue(body.to_owned())) }),
            event_name: event.to_owned(),
            ..LogRecord::default()
        };
        let log_records = bodies.into_iter().map(record).collect();
        let scope = InstrumentationScope { name: "rustle".to_owned(), ..InstrumentationScope::default() };
        let attributes = self.resource.attributes.0.clone();
        let resource_logs = vec![ResourceLogs {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_logs: vec![ScopeLogs { scope: Some(scope), log_records, ..ScopeLogs::default() }],
            schema_url: self.resource.schema_url.clone().unwrap_or_default(),
        }];
        ExportLogsServiceRequest { resource_logs }
    }
}

/// Returns what a collector's answer means for the same records.
fn classify(status: &Status) -> LogExportError {
    let reason = format!("{}: {}", status.code(), status.message());
    match status.code() {
        // gRPC servers call a message that is too large by one of the last two. Who has no room now sends details besides,
        // of when to try again.
        Code::InvalidArgument | Code::OutOfRange => LogExportError::Refused { reason },
        Code::ResourceExhausted if status.details().is_empty() => LogExportError::Refused { reason },
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Unavailable
        | Code::DataLoss => LogExportError::Unavailable { reason },
        _ => LogExportError::Failed { reason },
    }
}

impl Drop for LogExport {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_leave_this_machine_by_no_plain_connection() {
        for here in ["http://127.0.0.1:4317", "http://[::1]:4317", "http://localhost:4317/"] {
            LogExport::start(here, "test").unwrap();
        }
        for beyond in ["http://collector:4317", "http://10.0.0.1:4317", "http://localhost.example:4317"] {
            let error = LogExport::start(beyond, "test").err().unwrap().to_string();
            assert!(error.contains(beyond) && error.contains("127.0.0.1"), "{error}");
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_told_from_a_collector_without_room() {
        let is_refused = |status: &Status| matches!(classify(status), LogExportError::Refused { .. });
        for status in [Status::resource_exhausted(""), Status::out_of_range(""), Status::invalid_argument("")]
        {
            assert!(is_refused(&status), "{status}");
        }
        let full = Status::with_details(Code::ResourceExhausted, "", b"retry".as_slice().into());
        for status in [full, Status::unavailable(""), Status::unknown(""), Status::permission_denied("")] {
            assert!(!is_refused(&status), "{status}");
        }
    }
}
