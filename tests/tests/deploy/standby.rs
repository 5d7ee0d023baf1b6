//! The two coordinators of deploy/kubernetes/examples/etcd.yaml, with the flags that stand there but for addresses and
//! folders, over a real etcd of three members with TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustle::cluster::{ClusterOptions, Process};
use tempfile::TempDir;
use tests::{
    etcd::{Etcd, Security},
    etcd_tls::Authority,
    ports::free_address,
    program,
};

use super::prometheus::get;
use super::{read, run};

const MANIFEST: &str = "deploy/kubernetes/examples/etcd.yaml";
const TIMEOUT: Duration = Duration::from_secs(60);
/// The lease of the leader, unless `--leader-lease-ttl` sets another.
const LEASE: Duration = Duration::from_secs(5);

/// The container's words, the program's name first.
fn words(manifest: &str) -> Vec<String> {
    let args =
        manifest.split_once("\n          args:\n").unwrap().1.split_once("\n          env:").unwrap().0;
    args.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

/// TLS of a coordinator, with the modes that `group-readable-secrets` is for.
fn certificates(dir: &Path) {
    run(
        &program().display().to_string(),
        &["certs", "new", "--out", &dir.join("certs").display().to_string()],
    );
    for file in fs::read_dir(dir.join("certs/coordinator")).unwrap() {
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o440)).unwrap();
    }
}

struct Coordinators {
    options: ClusterOptions,
    words: Vec<String>,
    store: String,
    etcd_tls: String,
    running: Vec<Process>,
}

impl Coordinators {
    fn start(&mut self) {
        let name = format!("coordinator-{}", self.running.len());
        let dir = &self.options.dir;
        // It has to say who it is before it listens.
        let address = free_address();
        let places = [
            ("0.0.0.0:7300", address.clone()),
            ("0.0.0.0:7301", "127.0.0.1:0".to_owned()),
            ("$(POD_NAME).coordinators.rustle.svc.cluster.local:7300", address),
            ("/etc/rustle/tls", dir.join("certs/coordinator").display().to_string()),
            ("/etc/rustle/etcd", self.etcd_tls.clone()),
            ("/var/lib/rustle", dir.join(&name).display().to_string()),
        ];
        let placed = |word: &String| {
            if let Some(store) = word.strip_prefix("--store=") {
                let (_, prefix) = store.trim_start_matches("etcd://").split_once('/').unwrap();
                return format!("--store=etcd://{}/{prefix}", self.store);
            }
            places.iter().fold(word.clone(), |word, (from, to)| word.replace(from, to))
        };
        let words: Vec<_> = self.words.iter().map(placed).collect();
        self.running.push(Process::start(&self.options, &name, words, None).unwrap());
    }

    /// Returns whether Kubernetes would send calls to it.
    fn is_ready(&self, index: usize) -> bool {
        self.answer(index, "/readyz").0 == 200
    }

    /// Status and body.
    fn answer(&self, index: usize, page: &str) -> (u16, String) {
        get(self.running[index].metrics().trim_start_matches("http://"), page).unwrap()
    }

    /// Whom one that stands by knows to lead.
    fn leader(&self, index: usize) -> Option<String> {
        let status: serde_json::Value = serde_json::from_str(&self.answer(index, "/status").1).unwrap();
        let leader = status["standing_by"].as_bool()?.then(|| status["leader"].as_str())??;
        (!leader.is_empty()).then(|| leader.to_owned())
    }

    fn wait_until(&self, what: &str, happened: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !happened(self) {
            assert!(Instant::now() < deadline, "after {TIMEOUT:?} not yet: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn of_two_coordinators_the_ready_one_leads_and_the_other_takes_over() {
    let manifest = read(MANIFEST);
    let words = words(&manifest);
    assert!(
        words[0] == "coordinator" && words.iter().any(|word| word.starts_with("--store=etcd://")),
        "{words:?}"
    );
    let dir = TempDir::new().unwrap();
    certificates(dir.path());
    let authority = Authority::generate();
    let server = authority.issue(dir.path(), "etcd");
    let ours = authority.issue(dir.path(), "client");
    let etcd = Etcd::start_secured(3, Security { dir: server, asks_clients: true });
    let members: Vec<_> = (0..3).map(|index| etcd.address(index)).collect();
    let mut coordinators = Coordinators {
        options: ClusterOptions::new(program(), dir.path().to_owned(), 0),
        words,
        store: members.join(","),
        etcd_tls: ours.display().to_string(),
        running: Vec::new(),
    };
    coordinators.start();
    coordinators.wait_until("the first is ready", |all| all.is_ready(0));
    coordinators.start();
    coordinators.wait_until("the second stands by", |all| all.leader(1).is_some());
    assert_eq!(coordinators.leader(1).unwrap(), coordinators.running[0].grpc());
    assert_eq!(coordinators.answer(1, "/livez").0, 200);
    // For longer than a lead lasts that is not held on to.
    let watched = Instant::now();
    while watched.elapsed() < LEASE + LEASE / 2 {
        assert!(coordinators.is_ready(0), "who leads would be sent no calls");
        assert!(!coordinators.is_ready(1), "who stands by would be sent calls");
        std::thread::sleep(Duration::from_millis(200));
    }

    coordinators.running.remove(0).kill().unwrap();
    let killed = Instant::now();
    coordinators.wait_until("the other is ready", |all| all.is_ready(0));
    println!("ready {:.1} s after the other was killed", killed.elapsed().as_secs_f64());
    // All of it lies under the path that the manifest names.
    let keys = etcd.control(&["get", "", "--prefix", "--keys-only"]);
    let mut keys = keys.lines().filter(|key| !key.is_empty()).peekable();
    assert!(keys.peek().is_some() && keys.all(|key| key.starts_with("rustle/production/")));
}
