//! Bearer tokens at a real coordinator, without TLS.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, time::Duration};

use client::{Client, Connections, FetchRequest};
use node::{auth::Bearer, net::dial::DialOptions};
use proto::{Commitment, CoordinateRange, ElementType, ReleaseToken, RowRange, ServiceError};
use tests::{TestCluster, assert_same_bits, expected, flags, job, plans, start_with};
use tokio::time::Instant;

/// A cluster on loopback without TLS whose coordinator requires tokens.
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
        Self::start_over(false, false)
    }

    fn start_over(unix: bool, shared_memory: bool) -> Self {
        let mut files = BTreeMap::new();
        let cluster = start_with(1, |options| {
            (options.unix, options.shared_memory) = (unix, shared_memory);
            let dir = options.dir.clone();
            fs::create_dir_all(&dir).unwrap();
            for (name, flags) in [
                ("operator", &["--role", "operator"][..]),
                ("own", &["--role", "trainer", "--job", "own"]),
                ("part", &["--role", "trainer", "--job", "own", "--range", "0..512"]),
                ("two", &["--role", "trainer", "--job", "own", "--range", "0..512", "--range", "600..700"]),
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
        let connections = Connections::dialing(DialOptions { bearer, ..DialOptions::default() });
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
        let client = self.client(Some(token));
        let texts = vec!["step 0".to_owned()];
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
        let connections = Connections::dialing(DialOptions { bearer, ..DialOptions::default() });
        let mut noise = connections.noise(&tokens.cluster.cluster.url()).unwrap();
        let mut chunks = noise.fetch(request).await.map_err(ServiceError::from)?.into_inner();
        while chunks.message().await.map_err(ServiceError::from)?.is_some() {}
        Ok(())
    })
}

fn range(range: std::ops::Range<u64>) -> CoordinateRange {
    CoordinateRange { start: range.start, end: range.end }
}

fn not_allowed(asked: std::ops::Range<u64>, allowed: &[std::ops::Range<u64>]) -> ServiceError {
    let allowed = allowed.iter().cloned().map(range).collect();
    ServiceError::RangeNotAllowed { asked: range(asked), allowed }
}

#[test]
fn a_token_of_ranges_fetches_those_alone_through_the_coordinator() {
    let tokens = Tokens::start();
    tokens.create("own");
    proxied(&tokens, "part", 0..512).unwrap();
    for beyond in [0..513, 512..600, 0..2_000] {
        let refused = proxied(&tokens, "part", beyond.clone());
        assert_eq!(refused, Err(not_allowed(beyond.clone(), std::slice::from_ref(&(0..512)))), "{beyond:?}");
    }
    proxied(&tokens, "own", 0..2_000).unwrap();
}

/// Row 0, with release tokens of before, straight from the worker.
fn fetch_bound(
    tokens: &Tokens,
    release: &[ReleaseToken],
    asked: std::ops::Range<u64>,
    lends: bool,
) -> Result<Vec<f32>, ServiceError> {
    let client = tokens.client(Some("part"));
    let request = FetchRequest {
        job: job("own"),
        branch: 0,
        rows: RowRange { start: 0, end: 1 },
        range: range(asked.clone()),
        commitments: vec![Commitment::of_text("step 0")],
        deadline: Instant::now() + Duration::from_secs(20),
    };
    let release = release.to_vec();
    tokens.cluster.runtime.block_on(async {
        if lends {
            let mut region = client.lend(range(asked), 1, ElementType::F32)?;
            client.fetch(request).with_tokens(release).into_region(&mut region, 0).await?;
            return Ok(region.row(0)?.to_vec());
        }
        let mut out = vec![f32::NAN; (asked.end - asked.start) as usize];
        client.fetch(request).with_tokens(release).into_slice(&mut out).await.map(|()| out)
    })
}

/// Binding says so before anything is bound; a worker goes by what is signed in the release token, whatever the way.
#[test]
fn a_token_of_ranges_reaches_no_further_at_the_workers() {
    let own = 0..512;
    for (unix, shared_memory) in [(false, false), (true, true)] {
        let tokens = Tokens::start_over(unix, shared_memory);
        tokens.create("own");
        let bind = |asked: Option<std::ops::Range<u64>>, token: &str| {
            let client = tokens.client(Some(token));
            let rows = RowRange { start: 0, end: 1 };
            let commitments = [Commitment::of_text("step 0")];
            let asked = asked.map(range);
            let bound = async { client.bind_for(&job("own"), 0, rows, asked, &commitments).await };
            tokens.cluster.runtime.block_on(bound)
        };
        for beyond in [0..513, 512..600, 0..2_000] {
            let refused = tokens.fetch("part", beyond.clone());
            assert_eq!(refused, Err(not_allowed(beyond, std::slice::from_ref(&own))));
        }
        let several = [own.clone(), 600..700];
        assert_eq!(
            bind(None, "two"),
            Err(not_allowed(0..u64::MAX, &several)),
            "which of the two is not said"
        );
        assert_eq!(tokens.fetch("two", 500..601), Err(not_allowed(500..601, &several)));
        let bound = |text: &str| {
            let head =
                tokens.cluster.runtime.block_on(tokens.client(Some("own")).jobs().entries(&job("own")));
            head.unwrap().iter().filter(|entry| entry.event.contains(text)).count()
        };
        assert_eq!(bound("bound"), 0, "a refusal has bound the row");

        let row = &expected(&job("own"), &plans()[0], 0..1, 0..2_000)[0];
        assert_same_bits(&tokens.fetch("part", 0..512).unwrap(), &[row[..512].to_vec()]);
        assert_same_bits(&tokens.fetch("two", 600..700).unwrap(), &[row[600..700].to_vec()]);
        let release = bind(None, "part").unwrap();
        for lends in [false, true] {
            let part = fetch_bound(&tokens, &release, 100..512, lends).unwrap();
            assert_same_bits(&[part], &[row[100..512].to_vec()]);
            for beyond in [0..513, 512..600, 0..2_000] {
                let refused = fetch_bound(&tokens, &release, beyond.clone(), lends);
                assert_eq!(refused, Err(not_allowed(beyond, std::slice::from_ref(&own))), "lends: {lends}");
            }
        }
        assert_same_bits(&tokens.fetch("own", 0..2_000).unwrap(), std::slice::from_ref(row));
    }
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
