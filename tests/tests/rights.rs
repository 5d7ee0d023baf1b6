//! Who may call what: every identity at every RPC of a real cluster, and tokens where there is no TLS.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, time::Duration};

use client::{Client, Connections};
use node::{
    auth::{
        Bearer, Grant, Identity, Role,
        table::{self, About, RULES, Rule},
    },
    dial::Dialing,
    tls::Expected,
};
use prost::Message;
use proto::ServiceError;
use tests::{
    TestCluster, flags, job, plans,
    raw_call::{about, call},
    start, start_with,
};

const IDENTITIES: [&str; 8] = [
    "coordinator",
    "worker/worker-9",
    "worker/worker-0",
    "job/own",
    "job/other",
    "operator",
    "auditor",
    "scraper",
];

/// What requests are about: no such job or worker exists, so that nothing changes where a call is let through.
fn named(rule: &Rule) -> &'static str {
    if rule.about == About::Worker { "worker-9" } else { "own" }
}

fn path(rule: &Rule) -> String {
    rule.path
        .replace("grpc.health.v1.Health/*", "grpc.health.v1.Health/Check")
        .replace("ServerReflection/*", "ServerReflection/ServerReflectionInfo")
}

/// Of the table of rights alone, read anew.
fn may(identity: &str, rule: &Rule) -> bool {
    let role = Role::parse(identity).unwrap();
    let grant = Grant::of(&Identity { trust_domain: "local".into(), role });
    let is_own = matches!(rule.about, About::Nothing | About::VisibleJobs) || grant.is_for(named(rule));
    rule.roles.contains(&grant.role) && is_own
}

fn is_denied(answer: &Result<(), ServiceError>) -> bool {
    matches!(answer, Err(ServiceError::Unauthenticated | ServiceError::PermissionDenied))
}

fn endpoint(cluster: &TestCluster, rule: &Rule) -> (String, Expected) {
    match rule.path.starts_with("/rustle.v1.Shards/") {
        true => (cluster.cluster.worker(0).unwrap().grpc().to_owned(), Expected::Worker),
        false => (cluster.cluster.url(), Expected::Coordinator),
    }
}

fn ask(cluster: &TestCluster, connections: &Connections, rule: &Rule) -> Result<(), ServiceError> {
    let (endpoint, expected) = endpoint(cluster, rule);
    let _inside = cluster.runtime.enter();
    let channel = connections.channel(&endpoint, expected).unwrap();
    // Health and reflection take an empty message as well.
    let message = if rule.path.contains("rustle") { about(named(rule)) } else { bytes::Bytes::new() };
    cluster.runtime.block_on(call(channel, &path(rule), None, message))
}

#[test]
fn every_identity_at_every_rpc() {
    let cluster = start_with(1, |options| options.tls = true);
    let (mut let_in, mut refused) = (0, 0);
    for identity in IDENTITIES {
        let dialing = cluster.cluster.dialing(&Role::parse(identity).unwrap()).unwrap();
        let connections = Connections::dialing(dialing);
        for rule in RULES {
            let answer = ask(&cluster, &connections, rule);
            let reached = match &answer {
                Err(error) => error.kind() != "unavailable" || error.to_string().contains("checkpoint"),
                Ok(()) => true,
            };
            assert!(reached, "{identity} at {}: {answer:?}", rule.path);
            assert_eq!(!is_denied(&answer), may(identity, rule), "{identity} at {}: {answer:?}", rule.path);
            if is_denied(&answer) {
                assert_eq!(answer, Err(ServiceError::PermissionDenied), "{identity} at {}", rule.path);
                refused += 1;
            } else {
                let_in += 1;
            }
        }
    }
    println!("{} calls: {let_in} let in, {refused} refused", let_in + refused);
    assert!(refused > 80 && let_in > 40, "{let_in} {refused}");

    // Signed by our authority, and nobody of ours: another trust domain's operator.
    let own = cluster.cluster.dir().join("tls");
    let other = rustle::certs::Authority::open(&own, "elsewhere").unwrap();
    let dir = cluster.dir.path().join("elsewhere");
    other.issue(&dir, &Role::Operator, Duration::from_secs(3600)).unwrap();
    let shown = tests::raw_tls::open(cluster.cluster.url().trim_start_matches("https://"), Some(&dir));
    assert!(shown.is_ok(), "the connection itself is fine: {shown:?}");
    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    assert!(log.contains("may not have"), "refusals are logged");
    let lines = log.lines().filter(|line| line.contains("may not have") && line.contains("job/other")).count();
    assert_eq!(lines, 1, "once a peer and minute");
}

#[test]
fn what_the_table_must_say() {
    for (identity, path, allowed) in [
        ("job/own", "/rustle.v1.Noise/Bind", true),
        ("job/other", "/rustle.v1.Noise/Bind", false),
        ("operator", "/rustle.v1.Noise/Bind", false),
        ("auditor", "/rustle.v1.Noise/Fetch", false),
        ("worker/worker-9", "/rustle.v1.Noise/Fetch", false),
        ("worker/worker-0", "/rustle.v1.Workers/Heartbeat", false),
        ("worker/worker-9", "/rustle.v1.Workers/Heartbeat", true),
        ("job/own", "/rustle.v1.Workers/Heartbeat", false),
        ("job/own", "/rustle.v1.Shards/Snapshot", false),
        ("worker/worker-9", "/rustle.v1.Shards/FetchSlice", false),
        ("auditor", "/rustle.v1.Jobs/GetReport", true),
        ("auditor", "/rustle.v1.Jobs/DestroyJob", false),
        ("job/own", "/rustle.v1.Jobs/CreateJob", false),
        ("scraper", "/rustle.v1.Jobs/ListJobs", false),
    ] {
        assert_eq!(may(identity, table::find(path).unwrap()), allowed, "{identity} at {path}");
    }
    assert!(table::find("/rustle.v1.Noise/Bindings").is_none());
}

#[test]
fn every_rpc_has_its_line_in_the_table() {
    let files = prost_types::FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap();
    let mut paths = Vec::new();
    for file in files.file {
        for service in &file.service {
            let prefix = format!("/{}.{}/", file.package(), service.name());
            paths.extend(service.method.iter().map(|method| prefix.clone() + method.name()));
        }
    }
    assert!(paths.len() >= 17);
    for path in paths {
        assert!(table::find(&path).is_some(), "{path} has no line in node/src/auth/table.rs: nobody may call it");
    }
}

#[test]
fn the_docs_print_the_table() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let docs = fs::read_to_string(docs).unwrap();
    assert!(docs.contains(&table::markdown()), "docs/security.md lacks this table:\n{}", table::markdown());
}

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
    let operator = tokens.client(Some("operator"));
    let cluster = &tokens.cluster;
    for name in ["own", "other"] {
        let request = proto::pb::CreateJobRequest {
            job: name.into(),
            plan_toml: plans()[0].to_toml_string().unwrap(),
            dimension: 2_000,
            shards: 1,
            key_commitment: noise_kernel::JobKey::from_bytes(&tests::KEY).unwrap().commitment().to_vec(),
            plan_digest: vec![],
        };
        cluster.runtime.block_on(operator.jobs().create(request)).unwrap();
    }
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
        commitments: vec![proto::Commitment::of_text("step 0").0.to_vec()],
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
    let operator = tokens.client(Some("operator"));
    let request = proto::pb::CreateJobRequest {
        job: "own".into(),
        plan_toml: plans()[0].to_toml_string().unwrap(),
        dimension: 2_000,
        shards: 1,
        key_commitment: noise_kernel::JobKey::from_bytes(&tests::KEY).unwrap().commitment().to_vec(),
        plan_digest: vec![],
    };
    tokens.cluster.runtime.block_on(operator.jobs().create(request)).unwrap();
    proxied(&tokens, "part", 0..512).unwrap();
    for beyond in [0..513, 512..600, 0..2_000] {
        assert_eq!(proxied(&tokens, "part", beyond.clone()), Err(ServiceError::PermissionDenied), "{beyond:?}");
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

#[test]
fn without_tls_and_tokens_nobody_is_asked() {
    let cluster = start(1);
    for rule in RULES {
        let answer = ask(&cluster, &Connections::new(), rule);
        assert!(!is_denied(&answer), "{}: {answer:?}", rule.path);
    }
}
