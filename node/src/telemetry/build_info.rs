//! The running build, as a gauge that is always 1 (the usual way to join a version onto other series).

use metrics::gauge;

use crate::telemetry::metric_definitions::BUILD_INFO;

/// Pass the binary's own `env!("CARGO_PKG_VERSION")`; call after the recorder is installed.
pub fn record_build_info(version: &'static str) {
    gauge!(BUILD_INFO, "version" => version).set(1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_names_the_version() {
        let recorder = crate::telemetry::recorder::builder().build_recorder();
        metrics::with_local_recorder(&recorder, || record_build_info("1.2.3"));
        let text = recorder.handle().render();
        assert!(text.contains(r#"rustle_build_info{version="1.2.3"} 1"#), "{text}");
    }
}
