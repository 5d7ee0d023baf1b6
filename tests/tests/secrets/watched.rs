//! A cluster with TLS, tokens, traces and logs of everything, and what it must not say.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use client::{Client, Connections, FetchRequest};
use node::process::runtime::Runtime;
use node::{
    auth::{Bearer, Role},
    net::dial::DialOptions,
    tls::{Credentials, TlsFiles},
};
use noise_kernel::JobKey;
use plan::Plan;
use proto::{Commitment, CoordinateRange, NoiseId, RowRange, pb};
use rustle::cluster::{ClusterOptions, LocalCluster};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tests::{collector::Collector, flags, job, leaks::Scan, plans, program};

use crate::derived;

pub const DIMENSION: u64 = 1_100;
/// Each worker once in writing a checkpoint, the coordinator in a change of its ledger.
const PANICS: &str = "checkpoint::piece::begin=1*panic;ledger::open_branch::before_commit=panic";

/// Known to the test: no other bytes look like it.
pub fn key() -> [u8; 32] {
    Sha256::digest(b"a key that this test knows").into()
}

pub fn plan() -> Plan {
    plans().swap_remove(3)
}

pub struct WatchedCluster {
    // Before the folder that it lives in.
    pub cluster: LocalCluster,
    pub scan: Scan,
    pub token: PathBuf,
    pub errors: Vec<String>,
    /// Of the job, once it is created.
    pub noise_id: Option<NoiseId>,
    pub collector: (Collector, String),
    pub runtime: Runtime,
    pub dir: TempDir,
}

impl WatchedCluster {
    pub fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let runtime = Runtime::new().unwrap();
        let (collector, address) = Collector::start(&runtime);
        let collector = (collector, format!("http://{address}"));
        let token = dir.path().join("trainer.token");
        let tokens = dir.path().join("tokens");
        let made = Command::new(program())
            .args(["token", "new", "--role", "trainer", "--job", "watched", "--out"])
            .arg(&token)
            .arg("--tokens-file")
            .arg(&tokens)
            .output()
            .unwrap();
        assert!(made.status.success());
        let mut options = ClusterOptions::new(program(), dir.path().to_owned(), 2);
        options.tls = true;
        options.environment = vec![
            ("RUST_LOG".into(), "trace".into()),
            ("RUST_BACKTRACE".into(), "1".into()),
            ("FAILPOINTS".into(), PANICS.into()),
            ("OTEL_BSP_SCHEDULE_DELAY".into(), "50".into()),
        ];
        options.worker_flags = flags(&["--otlp", &collector.1]);
        options.coordinator_flags = flags(&["--heartbeat", "50ms", "--lease-ttl", "700ms"]);
        options.coordinator_flags.extend(flags(&["--checkpoint-interval", "0s", "--otlp", &collector.1]));
        options.coordinator_flags.extend(flags(&["--tokens-file", &tokens.display().to_string()]));
        let audit_log = dir.path().join("audit.jsonl").display().to_string();
        options.coordinator_flags.extend(flags(&["--audit-log", &audit_log, "--audit-otlp", &collector.1]));
        let cluster = LocalCluster::start(options, key()).unwrap();
        let mut scan = Scan::default();
        let text = fs::read(&token).unwrap();
        // What every token begins with is no secret, and metrics begin so too.
        scan.add("the token's text", text.trim_ascii().strip_prefix(b"rustle_").unwrap());
        scan.add("made-up token", b"this-is-a-token-that-is-not-valid-anywhere");
        for process in ["coordinator", "worker-0", "worker-1"] {
            let pem = fs::read_to_string(dir.path().join("tls").join(process).join("key.pem")).unwrap();
            let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
            let der = STANDARD.decode(body).unwrap();
            // The private number of a P-256 key in PKCS#8; what follows it is its public half.
            scan.add("a TLS key", &der[36..68]);
        }
        Self { cluster, scan, token, errors: vec![], noise_id: None, collector, runtime, dir }
    }

    fn connections(&self, role: &Role, bearer: Option<Bearer>) -> Connections {
        let files = TlsFiles::in_dir(&self.cluster.certificate(role).unwrap());
        let credentials = Some(Credentials::load(files).unwrap());
        Connections::dialing(DialOptions { credentials, bearer, insecure: false })
    }

    fn client(&self, role: &Role, bearer: Option<Bearer>) -> Client {
        let connections = self.connections(role, bearer);
        let _inside = self.runtime.enter();
        Client::with_connections(&self.cluster.url(), connections).unwrap()
    }

    /// An operator's certificate and a trainer's token together.
    fn trainer(&self) -> Client {
        self.client(&Role::Operator, Some(Bearer::from_file(&self.token).unwrap()))
    }

    pub fn run(&mut self) {
        let operator = self.client(&Role::Operator, None);
        let trainer = self.trainer();
        let request = pb::CreateJobRequest {
            job: "watched".into(),
            plan_toml: plan().to_toml_string().unwrap(),
            dimension: DIMENSION,
            shards: 2,
            key_commitment: JobKey::from_bytes(&key()).unwrap().commitment().to_vec(),
            plan_digest: vec![],
            account: None,
        };
        let created = self.runtime.block_on(operator.jobs().create(request)).unwrap();
        let noise_id = NoiseId::try_from(&created).unwrap();
        derived::add(&mut self.scan, &key(), &plan(), &noise_id, DIMENSION);
        self.noise_id = Some(noise_id);
        let mut out = vec![0f32; 6 * DIMENSION as usize];
        self.runtime.block_on(trainer.fetch(fetch("watched", 0, 6, "one")).into_slice(&mut out)).unwrap();
        self.fetch_by_a_known_grant(&trainer);
        self.fetch_through_the_coordinator();
        // Each worker panics once.
        let checkpoint = || self.runtime.block_on(operator.jobs().checkpoint(&job("watched")));
        let tries = (0..3).find(|_| checkpoint().is_ok());
        assert!(tries.is_some_and(|tries| tries > 0), "{tries:?}: fail points are built in by `make test`");
        self.be_refused(&operator, &trainer);
    }

    /// What is refused says why, and errors are where secrets like to hide.
    fn be_refused(&mut self, operator: &Client, trainer: &Client) {
        let unknown = self.dir.path().join("unknown.token");
        fs::write(&unknown, "rustle_this-is-a-token-that-is-not-valid-anywhere").unwrap();
        fs::set_permissions(&unknown, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let unknown_client = self.client(&Role::Operator, Some(Bearer::from_file(&unknown).unwrap()));
        let other = self.client(&Role::Job("other".into()), None);
        let mut out = vec![0f32; 6 * DIMENSION as usize];
        for (client, what) in
            [(&unknown_client, "one"), (&other, "one"), (trainer, "another"), (operator, "one")]
        {
            let asked = fetch("watched", 0, 6, what);
            let error = self.runtime.block_on(client.fetch(asked).into_slice(&mut out)).unwrap_err();
            self.errors.push(format!("{error} {error:?}"));
        }
        fs::remove_file(unknown).unwrap();
    }

    fn fetch_by_a_known_grant(&mut self, trainer: &Client) {
        let asked = fetch("watched", 6, 7, "one");
        let mut out = vec![0f32; DIMENSION as usize];
        let grant = self.runtime.block_on(async {
            let bound = trainer.bind(&asked.job, 0, asked.rows, &asked.commitments).await.unwrap();
            trainer.fetch(asked).of_released(bound.clone()).into_slice(&mut out).await.unwrap();
            *bound.grant()
        });
        self.scan.add("a release grant's signature", grant.signature());
    }

    /// Rows pass it then.
    fn fetch_through_the_coordinator(&self) {
        let bearer = Bearer::from_file(&self.token).unwrap();
        let connections = self.connections(&Role::Operator, Some(bearer));
        let request = pb::FetchRequest {
            job: "watched".into(),
            branch: 0,
            rows: Some(pb::RowRange { start: 7, end: 8 }),
            range: Some(pb::CoordinateRange { start: 0, end: DIMENSION }),
            commitments: vec![Commitment::of_text("one").to_bytes().to_vec()],
            deadline_ms: 10_000,
            element_type: pb::ElementType::F32.into(),
        };
        self.runtime.block_on(async {
            let mut noise = connections.noise(&self.cluster.url()).unwrap();
            let mut chunks = noise.fetch(request).await.unwrap().into_inner();
            while chunks.message().await.unwrap().is_some() {}
        });
    }

    /// Entries name a token by the beginning of its digest, and have nothing else of it.
    pub fn look_at_chain(&mut self) {
        let operator = self.client(&Role::Operator, None);
        let entries = self.runtime.block_on(operator.jobs().entries(&job("watched"))).unwrap();
        let digest = node::auth::digest_of(fs::read(&self.token).unwrap().trim_ascii());
        let by_token = format!("token:{}\"", &digest[..12]);
        assert!(entries.iter().any(|entry| entry.event.contains(&by_token)), "no entry is by the token");
        for entry in entries {
            self.scan.look("the chain", entry.event.as_bytes());
        }
    }

    pub fn panic_at_the_coordinator(&self) {
        let operator = self.client(&Role::Operator, None);
        let rewound = self.runtime.block_on(operator.jobs().rewind(&job("watched"), 3, 0));
        assert!(rewound.is_err(), "{rewound:?}");
    }
}

fn fetch(name: &str, from: u64, to: u64, commitment: &str) -> FetchRequest {
    FetchRequest {
        job: job(name),
        branch: 0,
        rows: RowRange::new(from, to).unwrap(),
        range: CoordinateRange::new(0, DIMENSION).unwrap(),
        commitments: vec![Commitment::of_text(commitment); (to - from) as usize],
        deadline: (std::time::Instant::now() + Duration::from_secs(20)).into(),
    }
}
