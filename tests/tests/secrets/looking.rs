//! Everything that leaves a watched cluster's processes, searched.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use checkpoint_store::CheckpointStore;
use noise_kernel::JobKey;
use noise_worker::generation_spec::GenerationSpec;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, trace_service_client::TraceServiceClient},
    common::v1::{AnyValue, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use sha2::{Digest, Sha256};
use tests::get;

use crate::watched::{DIMENSION, WatchedCluster, key, plan};

impl WatchedCluster {
    pub fn look(&mut self) {
        self.look_at_files();
        self.look_at_chain();
        self.look_at_processes();
        self.look_at_spans();
        for error in self.errors.clone() {
            self.scan.look("an error", error.as_bytes());
        }
    }

    /// Logs, ledger, checkpoints, records of workers.
    pub fn look_at_files(&mut self) {
        let but = [self.dir.path().join("tls"), self.token.clone()];
        self.scan.look_below(self.dir.path(), &but);
    }

    fn look_at_processes(&mut self) {
        let processes = [self.cluster.coordinator(), self.cluster.worker(0), self.cluster.worker(1)];
        for process in processes.into_iter().flatten() {
            for page in ["/metrics", "/status", "/readyz"] {
                self.scan.look(page, get(process.metrics(), page).as_bytes());
            }
            for file in ["cmdline", "environ"] {
                let path = format!("/proc/{}/{file}", process.pid());
                match fs::read(&path) {
                    Ok(bytes) => self.scan.look(&path, &bytes),
                    // Of a process that can't be traced, root alone may read the environment.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}"),
                }
            }
        }
    }

    pub fn look_at_spans(&mut self) {
        self.scan.look("what is sent to a collector", &self.collector.0.bytes());
    }

    /// Those of both kinds of processes, to the kernel.
    pub fn wait_for_spans(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let came = |service: &str, name: &str| {
            let spans = self.collector.0.spans();
            spans.iter().any(|sent| sent.service == service && sent.span.name == name)
        };
        while !(came("rustle-coordinator", "/rustle.v1.Noise/Bind") && came("rustle-worker", "row")) {
            assert!(Instant::now() < deadline, "spans do not come: {:?}", self.collector.0.spans());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn send_planted_span(&self) {
        let value = Some(AnyValue { value: Some(Value::BytesValue(key()[3..12].to_vec())) });
        let attribute = KeyValue { key: "seed".into(), value, ..KeyValue::default() };
        let span = Span { name: "row".into(), attributes: vec![attribute], ..Span::default() };
        let scope = ScopeSpans { spans: vec![span], ..ScopeSpans::default() };
        let resource = Some(Resource::default());
        let spans = ResourceSpans { resource, scope_spans: vec![scope], ..ResourceSpans::default() };
        let url = self.collector.1.clone();
        self.runtime.block_on(async {
            let mut collector = TraceServiceClient::connect(url).await.unwrap();
            collector.export(ExportTraceServiceRequest { resource_spans: vec![spans] }).await.unwrap();
        });
    }

    pub fn log_of_coordinator(&self) -> String {
        fs::read_to_string(self.cluster.coordinator().unwrap().log()).unwrap()
    }

    /// What the logs of these processes say of a panic at the fail point.
    pub fn panic_text(&self, process: &str, point: &str) -> String {
        let files = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_log = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(process) && name.ends_with(".log")
        };
        let logs: String = files.filter(is_log).map(|log| fs::read_to_string(log).unwrap()).collect();
        let at = logs.find(&format!("failpoint {point} panic"));
        let at = at.unwrap_or_else(|| panic!("no panic at {point} in the logs of {process}"));
        logs[at..].chars().take(2_000).collect()
    }

    /// Returns the files of the newest checkpoint.
    pub fn pieces(&self) -> Vec<PathBuf> {
        let of_job = self.dir.path().join("coordinator/checkpoints/watched");
        let checkpoints = fs::read_dir(of_job).unwrap().map(|entry| entry.unwrap().path());
        let newest = checkpoints.filter(|path| path.join("manifest.json").exists()).max().unwrap();
        let files = fs::read_dir(newest).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "shard")).collect()
    }

    /// State and rows of a piece, by the job's key.
    pub fn opened(&self, piece: &Path, sealed: &[u8]) -> (Vec<f32>, Vec<f32>) {
        let folder = self.dir.path().join("coordinator/checkpoints");
        let object = piece.strip_prefix(&folder).unwrap().to_str().unwrap();
        let key = JobKey::from_bytes(&key()).unwrap();
        let spec = GenerationSpec::new(&plan(), &key, DIMENSION, self.noise_id.as_ref().unwrap()).unwrap();
        let store = CheckpointStore::open(&format!("file://{}", folder.display())).unwrap();
        let sum = Sha256::digest(sealed).into();
        let opened = store.read_shard(object, &sum, &spec.checkpoint_key, |_| Ok(()));
        let opened = self.runtime.block_on(opened).unwrap();
        (opened.state, opened.window.concat())
    }
}
