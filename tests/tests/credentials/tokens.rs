//! A cluster on loopback whose coordinator requires tokens, with the calls that its tests make.

use std::{
    collections::BTreeMap, fs, ops::Range, path::Path, path::PathBuf, process::Command, time::Duration,
};

use client::{Client, Connections};
use node::{auth::Bearer, net::dial::DialOptions};
use proto::ServiceError;
use rustle::cluster::ClusterOptions;
use tests::{TestCluster, expected_of_job, flags, job, plans, start_with};

/// The tokens of every cluster here: name and flags of `rustle token new`.
const TOKENS: [(&str, &[&str]); 11] = [
    ("operator", &["--role", "operator"]),
    ("own", &["--role", "trainer", "--job", "own"]),
    ("part", &["--role", "trainer", "--job", "own", "--range", "0..512"]),
    ("two", &["--role", "trainer", "--job", "own", "--range", "0..512", "--range", "600..700"]),
    ("other", &["--role", "trainer", "--job", "other"]),
    ("auditor", &["--role", "auditor", "--job", "own"]),
    ("brief", &["--role", "operator", "--life", "1ms"]),
    ("worker", &["--role", "worker", "--worker", "worker-0"]),
    ("ann", &["--role", "operator", "--person", "ann"]),
    ("ann-approves", &["--role", "approver", "--person", "ann"]),
    ("ben-approves", &["--role", "approver", "--person", "ben"]),
];

pub struct TokenCluster {
    pub cluster: TestCluster,
    files: BTreeMap<&'static str, PathBuf>,
}

/// Makes a token with the command line and returns its file.
fn new_token(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let out = dir.join(format!("{name}.token"));
    let mut command = Command::new(tests::program());
    command
        .args(["token", "new", "--out"])
        .arg(&out)
        .arg("--tokens-file")
        .arg(dir.join("tokens"))
        .args(flags);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

impl TokenCluster {
    pub fn start(change: impl FnOnce(&mut ClusterOptions)) -> Self {
        let mut files = BTreeMap::new();
        let cluster = start_with(1, |options| {
            change(options);
            let dir = options.dir.clone();
            fs::create_dir_all(&dir).unwrap();
            files.extend(TOKENS.map(|(name, flags)| (name, new_token(&dir, name, flags))));
            let tokens = dir.join("tokens").display().to_string();
            options.coordinator_flags.extend(flags(&["--tokens-file", &tokens]));
            options.worker_flags.extend(flags(&["--token-file", &files["worker"].display().to_string()]));
        });
        Self { cluster, files }
    }

    /// Adds a token to the coordinator's file.
    pub fn add(&mut self, name: &'static str, flags: &[&str]) {
        self.files.insert(name, new_token(self.cluster.dir.path(), name, flags));
    }

    /// Returns the file with the token's text.
    pub fn file(&self, token: &str) -> &Path {
        &self.files[token]
    }

    pub fn connections(&self, token: Option<&str>) -> Connections {
        let bearer = token.map(|token| Bearer::from_file(&self.files[token]).unwrap());
        Connections::dialing(DialOptions { bearer, ..DialOptions::default() })
    }

    pub fn client(&self, token: Option<&str>) -> Client {
        let _inside = self.cluster.runtime.enter();
        Client::with_connections(&self.cluster.cluster.url(), self.connections(token)).unwrap()
    }

    /// Creates a job of 2,000 coordinates in one shard.
    pub fn create(&self, name: &str) {
        let request = proto::pb::CreateJobRequest {
            job: name.into(),
            plan_toml: plans()[0].to_toml_string().unwrap(),
            dimension: 2_000,
            shards: 1,
            key_commitment: noise_kernel::JobKey::from_bytes(&tests::KEY).unwrap().commitment().to_vec(),
            plan_digest: vec![],
            account: None,
        };
        self.cluster.runtime.block_on(self.client(Some("operator")).jobs().create(request)).unwrap();
    }

    /// Binds and fetches row 0 of the job `own`.
    pub fn fetch(&self, token: &str, range: Range<u64>) -> Result<Vec<Vec<f32>>, ServiceError> {
        let texts = vec!["step 0".to_owned()];
        let client = self.client(Some(token));
        self.cluster.fetch_by(&client, &job("own"), 0..1, range, texts, Duration::from_secs(20))
    }

    /// Returns row 0 of the job `own` as the oracle computes it.
    pub fn expected(&self) -> Vec<f32> {
        let shown =
            self.cluster.runtime.block_on(self.client(Some("operator")).jobs().get(&job("own"))).unwrap();
        expected_of_job(&shown, &plans()[0], 0..1, 0..2_000).remove(0)
    }

    pub fn list(&self, token: Option<&str>) -> Result<Vec<String>, ServiceError> {
        let jobs = self.cluster.runtime.block_on(self.client(token).jobs().list())?;
        Ok(jobs.into_iter().map(|job| job.job).collect())
    }
}
