//! No secret leaves by a side door: a cluster with known secrets runs at trace level, and everything it writes is
//! searched for them.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{fs, path::PathBuf, process::Command, time::Duration};

use client::{Client, Connections};
use node::{
    auth::{Bearer, Role},
    dial::Dialing,
    tls::{Credentials, TlsFiles},
};
use noise_kernel::JobKey;
use proto::{Commitment, CoordinateRange, RowRange, pb};
use rustle::cluster::{ClusterOptions, LocalCluster};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tests::{flags, get, job, leaks::Scan, plans, program};
use tokio::runtime::Runtime;

/// A cluster with TLS, tokens and logs of everything, and what it must not say.
struct Watched {
    // Before the folder that it lives in.
    cluster: LocalCluster,
    scan: Scan,
    token: PathBuf,
    errors: Vec<String>,
    runtime: Runtime,
    dir: TempDir,
}

impl Watched {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let key: [u8; 32] = Sha256::digest(b"a key that this test knows").into();
        let (token, tokens) = (dir.path().join("trainer.token"), dir.path().join("tokens"));
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
        options.environment =
            vec![("RUST_LOG".into(), "trace".into()), ("RUST_BACKTRACE".into(), "1".into())];
        options.coordinator_flags = flags(&["--heartbeat", "50ms", "--lease-ttl", "700ms"]);
        options.coordinator_flags.extend(flags(&["--tokens-file", &tokens.display().to_string()]));
        let cluster = LocalCluster::start(options, key).unwrap();
        let mut scan = Scan::default();
        scan.add("the job's key", &key);
        let text = fs::read(&token).unwrap();
        // What every token begins with is no secret, and metrics begin so too.
        scan.add("the token's text", text.trim_ascii().strip_prefix(b"rustle_").unwrap());
        scan.add("made-up token", b"this-is-a-token-that-is-not-valid-anywhere");
        for process in ["coordinator", "worker-0", "worker-1"] {
            let pem = fs::read_to_string(dir.path().join("tls").join(process).join("key.pem")).unwrap();
            let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
            use base64::Engine;
            let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
            // The private number of a P-256 key in PKCS#8; what follows it is its public half.
            scan.add("a TLS key", &der[36..68]);
        }
        Self { cluster, scan, token, errors: vec![], runtime: Runtime::new().unwrap(), dir }
    }

    fn client(&self, role: &Role, bearer: Option<Bearer>) -> Client {
        let files = TlsFiles::in_dir(&self.cluster.certificate(role).unwrap());
        let credentials = Some(Credentials::load(files).unwrap());
        let _inside = self.runtime.enter();
        let connections = Connections::dialing(Dialing { credentials, bearer, insecure: false });
        Client::with_connections(&self.cluster.url(), connections).unwrap()
    }

    fn run(&mut self, key: &[u8; 32]) {
        let operator = self.client(&Role::Operator, None);
        let request = pb::CreateJobRequest {
            job: "watched".into(),
            plan_toml: plans()[3].to_toml_string().unwrap(),
            dimension: 4_000,
            shards: 2,
            key_commitment: JobKey::from_bytes(key).unwrap().commitment().to_vec(),
            plan_digest: vec![],
        };
        self.runtime.block_on(operator.jobs().create(request)).unwrap();
        // An operator's certificate and a trainer's token together.
        let trainer = self.client(&Role::Operator, Some(Bearer::from_file(&self.token).unwrap()));
        let mut out = vec![0f32; 6 * 4_000];
        self.runtime.block_on(trainer.fetch_into(fetch("watched", "one"), &mut out)).unwrap();
        self.runtime.block_on(operator.jobs().checkpoint(&job("watched"))).unwrap();
        // What is refused says why, and errors are where secrets like to hide.
        let unknown = self.dir.path().join("unknown.token");
        fs::write(&unknown, "rustle_this-is-a-token-that-is-not-valid-anywhere").unwrap();
        fs::set_permissions(&unknown, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let stranger = self.client(&Role::Operator, Some(Bearer::from_file(&unknown).unwrap()));
        let other = self.client(&Role::Job("other".into()), None);
        for (client, what) in [(&stranger, "one"), (&other, "one"), (&trainer, "another"), (&operator, "one")]
        {
            let error =
                self.runtime.block_on(client.fetch_into(fetch("watched", what), &mut out)).unwrap_err();
            self.errors.push(format!("{error} {error:?}"));
        }
        fs::remove_file(unknown).unwrap();
    }

    fn look(&mut self) {
        let mut but = vec![self.dir.path().join("tls"), self.token.clone()];
        but.push(self.dir.path().join("unknown.token"));
        self.scan.look_below(self.dir.path(), &but);
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
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{path}"),
                }
            }
        }
        for error in self.errors.clone() {
            self.scan.look("an error", error.as_bytes());
        }
    }
}

fn fetch(name: &str, commitment: &str) -> client::FetchRequest {
    client::FetchRequest {
        job: job(name),
        branch: 0,
        rows: RowRange::new(0, 6).unwrap(),
        range: CoordinateRange::new(0, 4_000).unwrap(),
        commitments: vec![Commitment::of_text(commitment); 6],
        deadline: (std::time::Instant::now() + Duration::from_secs(20)).into(),
    }
}

#[test]
fn secrets_are_nowhere_but_where_they_belong() {
    let mut watched = Watched::start();
    watched.run(&Sha256::digest(b"a key that this test knows").into());
    assert_eq!(watched.errors.len(), 4);
    // Logs really are at trace level.
    let log = fs::read_to_string(watched.cluster.coordinator().unwrap().log()).unwrap();
    assert!(log.contains("TRACE") && log.contains("h2"));
    watched.look();
    println!("{} bytes searched, {} hits", watched.scan.bytes, watched.scan.hits.len());
    assert!(watched.scan.bytes > 100_000, "{} bytes are too few to say anything", watched.scan.bytes);
    assert_eq!(watched.scan.hits, Vec::<String>::new());

    // The search can find: the same with a leak.
    let planted = watched.dir.path().join("coordinator").join("planted.log");
    let key: [u8; 32] = Sha256::digest(b"a key that this test knows").into();
    fs::write(&planted, format!("INFO key={}", hex::encode(&key[5..13]))).unwrap();
    watched.look();
    assert!(
        watched.scan.hits.iter().any(|hit| hit.contains("planted.log")),
        "the planted leak was not found"
    );
    assert!(watched.scan.hits.iter().all(|hit| hit.contains("planted.log")), "{:?}", watched.scan.hits);
}

#[test]
fn processes_can_be_neither_dumped_nor_traced() {
    let cluster = tests::start(1);
    for process in [cluster.cluster.coordinator().unwrap(), cluster.cluster.worker(0).unwrap()] {
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
        assert_eq!(core.split_whitespace().nth(5), Some("0"), "{core}");
    }
}
