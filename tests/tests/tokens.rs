//! Bearer tokens at a real coordinator, without TLS.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, time::Duration};

use client::{Client, Connections};
use node::{auth::Bearer, dial::Dialing};
use proto::ServiceError;
use tests::{TestCluster, flags, job, plans, start_with};

/// A cluster on loopback without TLS, whose coordinator asks for tokens.
struct Tokens {
    cluster: TestCluster,
    files: BTreeMap<&'static str, PathBuf>,
}

fn token(dir: &std::path::Path, name: &str, flags: &[&str]) -> PathBuf {
    let out = dir.join(format!("{name}.token"));
    let output = Command::new(tests::program())
        .args(["token", "new", "--out", &out.display().to_string()])
        .args(["--tokens-file", &dir.join("tokens").display().to_string()])
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

impl Tokens {
    fn start() -> Self {
        let mut files = BTreeMap::new();
        let cluster = start_with(1, |options| {
            let dir = options.dir.clone();
            fs::create_dir_all(&dir).unwrap();
            for (name, flags) in [
                ("operator", &["--role", "operator"][..]),
                ("own", &["--role", "trainer", "--job", "own"]),
                ("part", &["--role", "trainer", "--job", "own", "--range", "0..512"]),
                ("other", &["--role", "trainer", "--job", "other"]),
                ("auditor", &["--role", "auditor", "--job", "own"]),
                ("brief", &["--role", "operator", "--life", "1ms"]),
                ("worker", &["--role", "worker", "--worker", "worker-0"]),
            ] {
                files.insert(name, token(&dir, name, flags));
            }
            let tokens = dir.join("tokens").display().to_string();
            options.coordinator_flags.extend(flags(&["--tokens-file", &tokens]));
            options.worker_flags.extend(flags(&["--token-file", &files["worker"].display().to_string()]));
        });
        Self { cluster, files }
    }

    fn client(&self, token: Option<&str>) -> Client {
        let bearer = token.map(|token| Bearer::from_file(&self.files[token]).unwrap());
        let _inside = self.cluster.runtime.enter();
        let connections = Connections::dialing(Dialing { bearer, ..Dialing::default() });
        Client::with_connections(&self.cluster.cluster.url(), connections).unwrap()
    }

    fn create(&self, name: &str) {
        let request = proto::pb::CreateJobRequest {
            job: name.into(),
            plan_toml: plans()[0].to_toml_string().unwrap(),
            dimension: 2_000,
            shards: 1,
            key_commitment: noise_kernel::JobKey::from_bytes(&tests::KEY).unwrap().commitment().to_vec(),
            plan_digest: vec![],
        };
        let operator = self.client(Some("operator"));
        self.cluster.runtime.block_on(operator.jobs().create(request)).unwrap();
    }

    fn fetch(&self, token: &str, range: std::ops::Range<u64>) -> Result<Vec<Vec<f32>>, ServiceError> {
        let (client, texts) = (self.client(Some(token)), vec!["step 0".to_owned()]);
        self.cluster.fetch_by(&client, &job("own"), 0..1, range, texts, Duration::from_secs(20))
    }

    fn list(&self, token: Option<&str>) -> Result<Vec<String>, ServiceError> {
        let jobs = self.cluster.runtime.block_on(self.client(token).jobs().list())?;
        Ok(jobs.into_iter().map(|job| job.job).collect())
    }
}

#[test]
fn a_token_is_good_for_its_role_and_job_alone() {
    let tokens = Tokens::start();
    tokens.create("own");
    tokens.create("other");
    assert_eq!(tokens.list(Some("operator")).unwrap(), ["other", "own"]);
    assert_eq!(tokens.list(Some("own")).unwrap(), ["own"]);
    assert_eq!(tokens.list(Some("auditor")).unwrap(), ["own"]);
    assert_eq!(tokens.list(None), Err(ServiceError::Unauthenticated));
    assert_eq!(tokens.list(Some("brief")), Err(ServiceError::Unauthenticated));
    assert_eq!(tokens.list(Some("worker")), Err(ServiceError::PermissionDenied));

    let rows = tokens.fetch("own", 0..2_000).unwrap();
    assert_eq!(rows[0].len(), 2_000);
    for denied in ["other", "operator", "auditor"] {
        assert_eq!(tokens.fetch(denied, 0..8), Err(ServiceError::PermissionDenied), "{denied}");
    }
}

/// Through the coordinator: release tokens are good for all of a row.
fn proxied(tokens: &Tokens, token: &str, range: std::ops::Range<u64>) -> Result<(), ServiceError> {
    let bearer = Some(Bearer::from_file(&tokens.files[token]).unwrap());
    let request = proto::pb::FetchRequest {
        job: "own".into(),
        branch: 0,
        rows: Some(proto::pb::RowRange { start: 0, end: 1 }),
        range: Some(proto::pb::CoordinateRange { start: range.start, end: range.end }),
        commitments: vec![proto::Commitment::of_text("step 0").to_bytes().to_vec()],
        deadline_ms: 10_000,
        element_type: proto::pb::ElementType::F32.into(),
    };
    tokens.cluster.runtime.block_on(async {
        let connections = Connections::dialing(Dialing { bearer, ..Dialing::default() });
        let mut noise = connections.noise(&tokens.cluster.cluster.url()).unwrap();
        let mut chunks = noise.fetch(request).await.map_err(ServiceError::from)?.into_inner();
        while chunks.message().await.map_err(ServiceError::from)?.is_some() {}
        Ok(())
    })
}

#[test]
fn a_token_of_ranges_fetches_those_through_the_coordinator_alone() {
    let tokens = Tokens::start();
    tokens.create("own");
    proxied(&tokens, "part", 0..512).unwrap();
    for beyond in [0..513, 512..600, 0..2_000] {
        assert_eq!(
            proxied(&tokens, "part", beyond.clone()),
            Err(ServiceError::PermissionDenied),
            "{beyond:?}"
        );
    }
    // A bound row's tokens would be good for every coordinate at the workers.
    assert_eq!(tokens.fetch("part", 0..8), Err(ServiceError::PermissionDenied));
    proxied(&tokens, "own", 0..2_000).unwrap();
}

#[test]
fn new_and_withdrawn_tokens_count_without_a_restart() {
    let mut tokens = Tokens::start();
    let dir = tokens.cluster.dir.path().to_owned();
    tokens.files.insert("late", token(&dir, "late", &["--role", "auditor"]));
    tokens.cluster.wait_until("the new token counts", || tokens.list(Some("late")).is_ok());
    fs::write(dir.join("tokens"), "").unwrap();
    tokens.cluster.wait_until("no token counts any more", || {
        tokens.list(Some("late")) == Err(ServiceError::Unauthenticated)
    });
}
