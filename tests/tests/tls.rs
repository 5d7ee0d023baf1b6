//! Connections over TLS: valid certificates are accepted, and every wrong one is refused.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, time::Duration};

use client::{Client, Connections};
use node::{
    auth::Role,
    net::dial::DialOptions,
    tls::{Credentials, TlsFiles},
};
use proto::ServiceError;
use rustle::certs::Authority;
use tests::{TestCluster, assert_same_bits, expected, job, plans, raw_tls, start_with};

const DAY: Duration = Duration::from_secs(86_400);
const DIMENSION: u64 = 5_000;

fn secured(workers: usize) -> TestCluster {
    start_with(workers, |options| options.tls = true)
}

fn address(cluster: &TestCluster) -> String {
    cluster.cluster.url().trim_start_matches("https://").to_owned()
}

fn role(text: &str) -> Role {
    Role::parse(text).unwrap()
}

/// Lists the jobs with the credentials of a folder.
fn list(cluster: &TestCluster, dir: &Path) -> Result<(), ServiceError> {
    let credentials = Some(Credentials::load(TlsFiles::in_dir(dir)).unwrap());
    let _inside = cluster.runtime.enter();
    let connections = Connections::dialing(DialOptions { credentials, ..DialOptions::default() });
    let client = Client::with_connections(&cluster.cluster.url(), connections).unwrap();
    cluster.runtime.block_on(client.jobs().list()).map(|_| ())
}

#[test]
fn a_cluster_over_tls_serves_the_same_bits() {
    let cluster = secured(2);
    assert!(cluster.cluster.url().starts_with("https://"));
    let job = job("digits");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 3).unwrap();
    cluster.wait_ready(&job);
    let trainer = cluster.client_as(&role("job/digits"));
    let texts = (0..4).map(|row| format!("step {row}")).collect();
    let rows = cluster.fetch_by(&trainer, &job, 0..4, 0..DIMENSION, texts, Duration::from_secs(20)).unwrap();
    assert_same_bits(&rows, &expected(&job, plan, 0..4, 0..DIMENSION));
    let routing = cluster.runtime.block_on(trainer.routing(&job)).unwrap();
    let is_tls = |endpoint: &Option<String>| endpoint.as_ref().is_some_and(|url| url.starts_with("https://"));
    assert!(routing.routes.iter().all(|route| is_tls(&route.endpoint)), "{routing:?}");
}

#[test]
fn wrong_certificates_get_no_connection() {
    let cluster = secured(1);
    let good = cluster.cluster.certificate(&Role::Operator).unwrap();
    assert!(raw_tls::open(&address(&cluster), Some(&good)).is_ok(), "the control");
    list(&cluster, &good).unwrap();
    let worker = cluster.cluster.worker(0).unwrap().grpc().trim_start_matches("https://").to_owned();
    assert!(raw_tls::open(&worker, Some(&good)).is_ok(), "the control");

    let of = |name: &str| cluster.dir.path().join("bad").join(name);
    // Issued by an unknown authority whose certificate has the same name.
    let rogue = Authority::create(&of("rogue"), "local").unwrap();
    rogue.issue(&of("foreign"), &Role::Operator, DAY).unwrap();
    // Its own authority's, as a self-signed one is.
    let own = cluster.cluster.authority().unwrap();
    own.issue(&of("expired"), &Role::Operator, Duration::ZERO).unwrap();
    // Certificates count whole seconds.
    std::thread::sleep(Duration::from_millis(2_100));
    for (name, shown) in [("none", None), ("foreign", Some(of("foreign"))), ("expired", Some(of("expired")))]
    {
        for address in [&address(&cluster), &worker] {
            let answer = raw_tls::open(address, shown.as_deref());
            assert!(answer.is_err(), "{name} at {address}: {answer:?}");
        }
    }
    // And through our own client, which trusts the cluster but shows the wrong certificate.
    for name in ["foreign", "expired"] {
        fs::remove_file(of(name).join("ca.pem")).unwrap();
        fs::copy(good.join("ca.pem"), of(name).join("ca.pem")).unwrap();
        let error = list(&cluster, &of(name)).unwrap_err();
        assert_eq!(error.kind(), "unavailable", "{error}");
    }
    assert_eq!(said(&cluster, "a connection was refused"), 1, "one line a minute of one address");
}

#[test]
fn nothing_older_than_tls_1_3_is_spoken() {
    let cluster = secured(1);
    let worker = cluster.cluster.worker(0).unwrap().grpc().trim_start_matches("https://").to_owned();
    for address in [address(&cluster), worker] {
        let answer = raw_tls::hello_of_tls12(&address).unwrap();
        // A fatal alert: protocol_version.
        assert_eq!(&answer[..1], [21], "{answer:?}");
        assert_eq!(&answer[5..7], [2, 70], "{answer:?}");
    }
}

#[test]
fn plain_text_is_not_spoken_either() {
    let cluster = secured(1);
    let plain = cluster.cluster.url().replace("https://", "http://");
    let _inside = cluster.runtime.enter();
    let client = Client::connect(&plain).unwrap();
    assert!(cluster.runtime.block_on(client.jobs().list()).is_err());
    // A client with certificates refuses to speak plain text.
    let dialing = cluster.cluster.dialing(&Role::Operator).unwrap();
    let error = Client::with_connections(&plain, Connections::dialing(dialing)).unwrap_err();
    assert!(error.to_string().contains("https://"), "{error}");
}

/// Returns how often the coordinator's log contains `what`.
fn said(cluster: &TestCluster, what: &str) -> usize {
    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    log.matches(what).count()
}

#[test]
fn new_certificates_are_taken_without_a_restart_and_useless_ones_are_not() {
    let cluster = secured(1);
    let own = cluster.cluster.authority().unwrap();
    let dir = cluster.dir.path().join("tls/coordinator");
    let operator = cluster.cluster.certificate(&Role::Operator).unwrap();
    let reloaded = |before: usize| {
        cluster.wait_until("the coordinator takes the new files", || {
            said(&cluster, "new TLS files are in force") > before
        });
    };
    let taken = || said(&cluster, "new TLS files are in force");

    // A server that is no coordinator: its certificate is a worker's.
    let before = taken();
    own.issue(&dir, &role("worker/worker-0"), DAY).unwrap();
    reloaded(before);
    let error = list(&cluster, &operator).unwrap_err();
    assert_eq!(error.kind(), "unavailable", "{error}");

    // One whose time is over.
    let before = taken();
    own.issue(&dir, &Role::Coordinator, Duration::ZERO).unwrap();
    reloaded(before);
    std::thread::sleep(Duration::from_millis(2_100));
    assert_eq!(list(&cluster, &operator).unwrap_err().kind(), "unavailable");

    let before = taken();
    own.issue(&dir, &Role::Coordinator, DAY).unwrap();
    reloaded(before);
    list(&cluster, &operator).unwrap();

    let refused = "new TLS files can't be used";
    let before = said(&cluster, refused);
    fs::remove_file(dir.join("cert.pem")).unwrap();
    fs::write(dir.join("cert.pem"), "no certificate").unwrap();
    cluster.wait_until("the coordinator refuses the new files", || said(&cluster, refused) > before);
    list(&cluster, &operator).unwrap();
}

/// Returns the error output of a process that does not start.
fn says(process: &str, more: &[&str]) -> String {
    let mut command = std::process::Command::new(tests::program());
    let output = command.arg(process).args(more).stdin(std::process::Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "{process} {more:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn beyond_loopback_there_is_tls_or_a_flag() {
    let folder = tempfile::TempDir::new().unwrap();
    let data = folder.path().display().to_string();
    let key = folder.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    let key = key.display().to_string();
    let coordinator = ["--listen", "127.0.0.1:0", "--data-dir", &data];
    let worker = ["--listen", "127.0.0.1:0", "--key-file", &key, "--state-dir", "none"];
    for what in ["--listen", "--metrics-listen"] {
        for (process, flags) in [("coordinator", &coordinator[..]), ("worker", &worker[..])] {
            // The later of two flags would be refused for being given twice.
            let kept = if what == "--listen" { &flags[2..] } else { flags };
            let said = says(process, &[kept, &[what, "0.0.0.0:0"]].concat());
            assert!(
                said.contains("--tls-dir") && said.contains("--insecure-listen"),
                "{process} {what}: {said}"
            );
        }
    }
    let said = says("worker", &[&worker[..], &["--coordinator", "http://10.9.8.7:1"]].concat());
    assert!(said.contains("10.9.8.7") && said.contains("--insecure-listen"), "{said}");

    // A process without TLS logs a warning, here for an address that it cannot bind.
    for (process, flags) in [("coordinator", &coordinator[2..]), ("worker", &worker[2..])] {
        let said = says(process, &[flags, &["--listen", "192.0.2.1:0", "--insecure-listen"]].concat());
        assert!(said.contains("anyone who reaches these ports can read rows"), "{process}: {said}");
        assert!(said.contains("192.0.2.1"), "{process}: {said}");
    }
}

/// A worker that forgets what it released is half of the guard, so it has to be asked for.
#[test]
fn a_worker_keeps_a_record_or_says_that_it_keeps_none() {
    let said = says("worker", &["--key-file", "none"]);
    assert!(said.contains("--state-dir is missing") && said.contains("`none`"), "{said}");
    let said = says("worker", &["--key-file", "none", "--state-dir", "none"]);
    assert!(said.contains("is not found by this worker once it has started anew"), "{said}");
    assert!(!said.contains("--state-dir is missing"), "{said}");
}
