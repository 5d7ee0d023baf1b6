//! The process's one metrics recorder.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::telemetry::metric_definitions::describe_metrics;

/// The buckets of durations, from a call inside one host to a long stream: about two buckets per decade.
const SECONDS_BUCKETS: &[f64] =
    &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

/// The error of a recorder that cannot be installed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the metrics recorder could not be installed: {reason}")]
pub struct RecorderError {
    reason: String,
}

static INSTALLED: OnceLock<Result<PrometheusHandle, RecorderError>> = OnceLock::new();

/// Installs the recorder the first time and returns its handle every time, so that a coordinator and workers
/// may share one process (tests do). Fails only where foreign code has installed another recorder.
pub fn install_recorder() -> Result<PrometheusHandle, RecorderError> {
    INSTALLED.get_or_init(install).clone()
}

fn install() -> Result<PrometheusHandle, RecorderError> {
    let handle = builder().install_recorder().map_err(|error| RecorderError { reason: error.to_string() })?;
    describe_metrics();
    Ok(handle)
}

/// The settings of our recorder; tests build local recorders from it.
pub fn builder() -> PrometheusBuilder {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)
        .expect("the bucket list is a non-empty constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_twice_gives_the_same_recorder() {
        let first = install_recorder().unwrap();
        let second = install_recorder().unwrap();
        metrics::counter!("rustle_recorder_test_total").increment(3);
        for handle in [first, second] {
            assert!(handle.render().contains("rustle_recorder_test_total 3"));
        }
    }

    #[test]
    fn durations_are_histograms_that_can_be_added_up() {
        let recorder = builder().build_recorder();
        metrics::with_local_recorder(&recorder, || metrics::histogram!("rustle_x_seconds").record(0.02));
        let text = recorder.handle().render();
        assert!(text.contains("# TYPE rustle_x_seconds histogram"), "{text}");
        assert!(text.contains(r#"rustle_x_seconds_bucket{le="0.03"} 1"#), "{text}");
        assert!(text.contains(r#"rustle_x_seconds_bucket{le="0.01"} 0"#), "{text}");
    }
}
