//! The figures as Kubernetes takes them.

use serde_json::{Value, json};

use super::Sizing;

/// Seconds between two probes of a worker that starts.
const PROBE_PERIOD: f64 = 10.0;
/// Seconds of a start apart from replay.
const START: f64 = 60.0;

impl Sizing {
    /// Returns the resources of a worker's container. Memory can't be shared, so its request and its limit are equal;
    /// CPU has a request alone.
    pub fn kubernetes(&self) -> Value {
        let memory = self.value("memory_per_worker").unwrap_or(0.0);
        let memory = format!("{}Mi", (memory / (1 << 20) as f64).ceil());
        let cpu =
            self.value("cores_per_worker").map(|cores| format!("{}m", (1000.0 * cores).ceil().max(100.0)));
        json!({ "requests": { "memory": memory, "cpu": cpu }, "limits": { "memory": memory } })
    }

    /// Returns a patch for `kubectl patch statefulset worker --patch-file`. A worker may take as long to start as the
    /// longest possible replay: all rows of the plan, from the key.
    pub fn kubernetes_patch(&self, workers: u32) -> Value {
        let replay = self.value("replay_seconds_at_most").unwrap_or(0.0);
        let failures = ((START + replay) / PROBE_PERIOD).ceil() as u64;
        json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": "worker", "namespace": "rustle" },
            "spec": { "replicas": workers, "template": { "spec": { "containers": [{
                "name": "worker",
                "resources": self.kubernetes(),
                "startupProbe": {
                    "httpGet": { "path": "/readyz", "port": "metrics" },
                    "periodSeconds": PROBE_PERIOD as u64,
                    "failureThreshold": failures,
                },
            }] } } },
        })
    }
}
