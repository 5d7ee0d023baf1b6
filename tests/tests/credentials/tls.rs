//! Connections over TLS: a cluster serves the same bits, wrong client certificates get no connection, and nothing but TLS
//! 1.3 is accepted.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use client::{Client, Connections};
use node::{
    auth::{Bearer, Role},
    net::dial::DialOptions,
    tls::{Credentials, TlsFiles},
};
use proto::ServiceError;
use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
use rustle::certs::Authority;
use tests::{
    TestCluster, assert_same_bits,
    certificates::{Leaf, OPERATOR},
    job, plans, raw_tls, start_with,
};

use crate::tokens::TokenCluster;

const HOUR: Duration = Duration::from_secs(3600);
const DIMENSION: u64 = 5_000;

/// Returns the addresses of the coordinator and of the worker.
fn addresses(cluster: &TestCluster) -> [String; 2] {
    let worker = cluster.cluster.worker(0).unwrap().grpc().to_owned();
    [cluster.cluster.url(), worker].map(|url| url.trim_start_matches("https://").to_owned())
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
    let cluster = start_with(2, |options| options.tls = true);
    assert!(cluster.cluster.url().starts_with("https://"));
    let job = job("digits");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 3).unwrap();
    cluster.wait_ready(&job);
    let trainer = cluster.client_as(&Role::Job("digits".into()));
    let texts = (0..4).map(|row| format!("step {row}")).collect();
    let rows = cluster.fetch_by(&trainer, &job, 0..4, 0..DIMENSION, texts, Duration::from_secs(20)).unwrap();
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..4, 0..DIMENSION));
    let routing = cluster.runtime.block_on(trainer.routing(&job)).unwrap();
    let is_tls = |endpoint: &Option<String>| endpoint.as_ref().is_some_and(|url| url.starts_with("https://"));
    assert!(routing.routes.iter().all(|route| is_tls(&route.endpoint)), "{routing:?}");
}

#[test]
fn wrong_certificates_get_no_connection() {
    let cluster = start_with(1, |options| options.tls = true);
    let good = cluster.cluster.certificate(&Role::Operator).unwrap();
    list(&cluster, &good).unwrap();

    let authority = cluster.cluster.dir().join("tls");
    let folder = |name: &str| cluster.dir.path().join("bad").join(name);
    let now = SystemTime::now();
    let early = Leaf { from: now + HOUR, until: now + 2 * HOUR, ..Leaf::of(OPERATOR) };
    let expired = Leaf { from: now - 2 * HOUR, until: now - HOUR, ..Leaf::of(OPERATOR) };
    let of_a_server = Leaf { usages: vec![ServerAuth], ..Leaf::of(OPERATOR) };
    // Issued by an unknown authority whose certificate has the same name.
    let rogue = Authority::create(&folder("rogue"), "local").unwrap();
    rogue.issue(&folder("foreign"), &Role::Operator, HOUR).unwrap();
    let wrong = [
        None,
        Some(folder("foreign")),
        Some(early.issue(&authority, &folder("not yet valid"))),
        Some(expired.issue(&authority, &folder("expired"))),
        Some(of_a_server.issue(&authority, &folder("for servers alone"))),
    ];
    for address in addresses(&cluster) {
        let control = Leaf::of(OPERATOR).issue(&authority, &folder("control"));
        for control in [&control, &good] {
            assert!(raw_tls::open(&address, Some(control)).is_ok(), "the control at {address}");
        }
        for certificate in &wrong {
            let answer = raw_tls::open(&address, certificate.as_deref());
            assert!(answer.is_err(), "{certificate:?} at {address}: {answer:?}");
        }
    }
    // The same through the client of this project, which trusts the cluster.
    fs::remove_file(folder("foreign").join("ca.pem")).unwrap();
    fs::copy(good.join("ca.pem"), folder("foreign").join("ca.pem")).unwrap();
    for name in ["foreign", "expired"] {
        let error = list(&cluster, &folder(name)).unwrap_err();
        assert_eq!(error.kind(), "unavailable", "{error}");
    }
    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    assert_eq!(log.matches("a connection was refused").count(), 1, "one line per minute and address");
}

#[test]
fn nothing_but_tls_1_3_is_accepted() {
    let cluster = start_with(1, |options| options.tls = true);
    for address in addresses(&cluster) {
        let answer = raw_tls::hello_of_tls12(&address).unwrap();
        // A fatal alert: protocol_version.
        assert_eq!(&answer[..1], [21], "{answer:?}");
        assert_eq!(&answer[5..7], [2, 70], "{answer:?}");
    }
    let plain = cluster.cluster.url().replace("https://", "http://");
    let _inside = cluster.runtime.enter();
    let client = Client::connect(&plain).unwrap();
    assert!(cluster.runtime.block_on(client.jobs().list()).is_err());
    // A client with certificates does not connect in plain text.
    let dialing = cluster.cluster.dialing(&Role::Operator).unwrap();
    let error = Client::with_connections(&plain, Connections::dialing(dialing)).unwrap_err();
    assert!(error.to_string().contains("https://"), "{error}");
}

/// What docs/security.md advises for a caller that should have the rights of its token alone.
#[test]
fn beside_a_scrapers_certificate_a_token_has_its_own_rights() {
    let tokens = TokenCluster::start(|options| options.tls = true);
    let cluster = &tokens.cluster;
    let list = |token: Option<&str>| {
        let bearer = token.map(|token| Bearer::from_file(tokens.file(token)).unwrap());
        let dialing = cluster.cluster.dialing(&Role::Scraper).unwrap();
        let _inside = cluster.runtime.enter();
        let connections = Connections::dialing(DialOptions { bearer, ..dialing });
        let client = Client::with_connections(&cluster.cluster.url(), connections).unwrap();
        cluster.runtime.block_on(client.jobs().list()).map(|jobs| jobs.len())
    };
    assert_eq!(list(None), Err(ServiceError::PermissionDenied), "the certificate's role reads no job");
    assert_eq!(list(Some("auditor")), Ok(0), "the token's does");
    assert_eq!(list(Some("ann-approves")), Err(ServiceError::PermissionDenied), "an approver reads no job");
    assert_eq!(
        list(Some("brief")),
        Err(ServiceError::Unauthenticated),
        "no certificate makes up for a bad token"
    );
}
