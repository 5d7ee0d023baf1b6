//! The certificates of servers: they are replaced without a restart, and a server with a wrong one is not called.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use client::Connections;
use node::{auth::Role, tls::ExpectedServer};
use proto::ServiceError;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rustle::cluster::Process;
use tests::{
    TestCluster, WORKER,
    certificates::{Leaf, OPERATOR},
    raw_call::{about, call},
    start_with,
};

const HOUR: Duration = Duration::from_secs(3600);
const REPLACED: &str = "new TLS files are in force";
const REJECTED: &str = "new TLS files can't be used";

/// Returns whether an operator's client connects to the server.
fn is_called(cluster: &TestCluster, url: &str, expected: &ExpectedServer) -> bool {
    let _inside = cluster.runtime.enter();
    let connections = Connections::dialing(cluster.cluster.dialing(&Role::Operator).unwrap());
    let path = match expected {
        ExpectedServer::Coordinator => "/rustle.v1.Jobs/GetJob",
        ExpectedServer::Worker(_) => "/rustle.v1.Shards/FetchSlice",
    };
    let channel = connections.channel(url, expected.clone()).unwrap();
    let answer = cluster.runtime.block_on(call(channel, path, None, about("nothing")));
    !matches!(answer, Err(ServiceError::Unavailable { .. }))
}

/// Changes the server's files by `replace` and waits for a new line of its log with `text`.
fn replace(cluster: &TestCluster, process: &Process, text: &str, replace: impl FnOnce()) {
    let count = || fs::read_to_string(process.log()).unwrap().matches(text).count();
    let before = count();
    replace();
    cluster.wait_until(text, || count() > before);
}

/// Returns certificates that are wrong for the server of this URI, each with its fault.
fn wrong(uri: &'static str) -> Vec<(&'static str, Leaf)> {
    let now = SystemTime::now();
    vec![
        ("for clients alone", Leaf { usages: vec![ClientAuth], ..Leaf::of(uri) }),
        ("not yet valid", Leaf { from: now + HOUR, until: now + 2 * HOUR, ..Leaf::of(uri) }),
        ("expired", Leaf { from: now - 2 * HOUR, until: now - HOUR, ..Leaf::of(uri) }),
        ("an operator's", Leaf::of(OPERATOR)),
        ("another worker's", Leaf::of("spiffe://local/rustle/worker/worker-1")),
    ]
}

fn assert_only_right_certificates_are_called(
    cluster: &TestCluster,
    process: &Process,
    url: &str,
    expected: &ExpectedServer,
    uri: &'static str,
    folder: &Path,
) {
    let authority = cluster.cluster.dir().join("tls");
    let issue = |leaf: &Leaf, text| replace(cluster, process, text, || drop(leaf.issue(&authority, folder)));
    let is_called = || is_called(cluster, url, expected);
    issue(&Leaf::of(uri), REPLACED);
    assert!(is_called(), "{uri}: the control");
    for (name, leaf) in wrong(uri) {
        issue(&leaf, REPLACED);
        assert!(!is_called(), "{uri}, {name}");
    }
    issue(&Leaf { usages: vec![ServerAuth], ..Leaf::of(uri) }, REPLACED);
    assert!(is_called(), "{uri}: a server needs no more than a certificate for servers");
    // Certificates without a role and files without a certificate are rejected.
    for uris in [vec![], vec!["spiffe://local/rustle/king"]] {
        issue(&Leaf { uris, ..Leaf::of(uri) }, REJECTED);
        assert!(is_called(), "{uri}: the certificate before stays in force");
    }
    replace(cluster, process, REJECTED, || {
        fs::remove_file(folder.join("cert.pem")).unwrap();
        fs::write(folder.join("cert.pem"), "no certificate").unwrap();
    });
    assert!(is_called(), "{uri}: the certificate before stays in force");
}

#[test]
fn servers_with_wrong_certificates_are_not_called() {
    let cluster = start_with(1, |options| options.tls = true);
    let tls = cluster.cluster.dir().join("tls");
    let coordinator = cluster.cluster.coordinator().unwrap();
    let worker = cluster.cluster.worker(0).unwrap();
    let servers = [
        (
            coordinator,
            cluster.cluster.url(),
            ExpectedServer::Coordinator,
            "coordinator",
            "spiffe://local/rustle/coordinator",
        ),
        (worker, worker.grpc().to_owned(), WORKER, "worker-0", "spiffe://local/rustle/worker/worker-0"),
    ];
    for (process, url, expected, folder, uri) in servers {
        assert_only_right_certificates_are_called(&cluster, process, &url, &expected, uri, &tls.join(folder));
    }
}
