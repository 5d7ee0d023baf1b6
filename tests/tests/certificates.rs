//! Certificates of the cluster's own authority that are wrong in one point: their holder gets no connection, or one over
//! which it may call nothing.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use client::Connections;
use node::{
    auth::Role,
    tls::{Credentials, ExpectedServer, TlsError, TlsFiles},
};
use proto::{ServiceError, rpc::RPCS};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use tests::{
    TestCluster, WORKER,
    certificates::Leaf,
    raw_call::{about, call},
    raw_tls,
    rights::{message, path},
    start_with,
};

const OPERATOR: &str = "spiffe://local/rustle/operator";
const HOUR: Duration = Duration::from_secs(3600);

fn secured() -> TestCluster {
    start_with(1, |options| options.tls = true)
}

/// Returns the addresses of the coordinator and of the worker.
fn addresses(cluster: &TestCluster) -> [String; 2] {
    let worker = cluster.cluster.worker(0).unwrap().grpc().to_owned();
    [cluster.cluster.url(), worker].map(|url| url.trim_start_matches("https://").to_owned())
}

fn issued(cluster: &TestCluster, name: &str, leaf: &Leaf) -> PathBuf {
    leaf.issue(&cluster.cluster.dir().join("tls"), &cluster.dir.path().join("shown").join(name))
}

fn from(from: SystemTime, until: SystemTime, uri: &'static str) -> Leaf {
    Leaf { from, until, ..Leaf::of(uri) }
}

#[test]
fn certificates_out_of_their_time_or_for_servers_alone_get_no_connection() {
    let cluster = secured();
    let now = SystemTime::now();
    let good = issued(&cluster, "good", &Leaf::of(OPERATOR));
    let bad = [
        ("not yet valid", from(now + HOUR, now + 2 * HOUR, OPERATOR)),
        ("no longer valid", from(now - 2 * HOUR, now - HOUR, OPERATOR)),
        ("for servers alone", Leaf { usages: vec![ServerAuth], ..Leaf::of(OPERATOR) }),
    ];
    for address in addresses(&cluster) {
        assert!(raw_tls::open(&address, Some(&good)).is_ok(), "the control");
        for (name, leaf) in &bad {
            let answer = raw_tls::open(&address, Some(&issued(&cluster, name, leaf)));
            assert!(answer.is_err(), "{name} at {address}: {answer:?}");
        }
    }
}

/// A client needs no more than a certificate for clients; its name decides what it may call.
#[test]
fn certificates_that_name_nobody_of_ours_may_call_nothing() {
    let cluster = secured();
    let several = vec![OPERATOR, "spiffe://local/rustle/auditor"];
    let nobody = [
        ("no name", Leaf { uris: vec![], ..Leaf::of(OPERATOR) }),
        ("two names", Leaf { uris: several, ..Leaf::of(OPERATOR) }),
        ("another scheme", Leaf::of("https://local/rustle/operator")),
        ("an unknown role", Leaf::of("spiffe://local/rustle/king")),
        ("a role without its name", Leaf::of("spiffe://local/rustle/job")),
        ("another trust domain", Leaf::of("spiffe://elsewhere/rustle/operator")),
    ];
    let good = issued(&cluster, "good", &Leaf { usages: vec![ClientAuth], ..Leaf::of(OPERATOR) });
    for (at_worker, address) in addresses(&cluster).into_iter().enumerate() {
        let at_worker = at_worker == 1;
        let here = |rule: &&proto::rpc::Rpc| rule.path.starts_with("/rustle.v1.Shards/") == at_worker;
        let ask = |shown: &PathBuf, rule: &proto::rpc::Rpc| {
            let _inside = cluster.runtime.enter();
            let channel = raw_tls::channel(&address, shown);
            cluster.runtime.block_on(call(channel, &path(rule), None, message(rule)))
        };
        let control = RPCS.iter().find(here).unwrap();
        assert_ne!(ask(&good, control), Err(ServiceError::Unauthenticated), "the control");
        for (name, leaf) in &nobody {
            let shown = issued(&cluster, name, leaf);
            assert!(raw_tls::open(&address, Some(&shown)).is_ok(), "{name}: the connection itself is fine");
            for rule in RPCS.iter().filter(here) {
                assert_eq!(ask(&shown, rule), Err(ServiceError::Unauthenticated), "{name} at {}", rule.path);
            }
        }
    }
    // Our own processes refuse to load such a certificate.
    for name in ["no name", "two names", "an unknown role"] {
        let files = TlsFiles::in_dir(&cluster.dir.path().join("shown").join(name));
        let refused = Credentials::load(files);
        assert!(matches!(refused, Err(TlsError::NoIdentity { .. })), "{name}: {refused:?}");
    }
}

fn times_said(cluster: &TestCluster, process: usize, what: &str) -> usize {
    let process =
        if process == 0 { cluster.cluster.coordinator() } else { cluster.cluster.worker(process - 1) };
    fs::read_to_string(process.unwrap().log()).unwrap().matches(what).count()
}

/// Calls a server with our own client.
fn reach(cluster: &TestCluster, url: &str, expected: ExpectedServer) -> Result<(), ServiceError> {
    let _inside = cluster.runtime.enter();
    let connections = Connections::dialing(cluster.cluster.dialing(&Role::Operator).unwrap());
    let path = match &expected {
        ExpectedServer::Coordinator => "/rustle.v1.Jobs/GetJob",
        ExpectedServer::Worker(_) => "/rustle.v1.Shards/FetchSlice",
    };
    let channel = connections.channel(url, expected).unwrap();
    cluster.runtime.block_on(call(channel, path, None, about("nothing")))
}

#[test]
fn servers_with_wrong_certificates_are_not_called() {
    let cluster = secured();
    let worker = cluster.cluster.worker(0).unwrap().grpc().to_owned();
    let now = SystemTime::now();
    let servers = [
        (
            cluster.cluster.url(),
            ExpectedServer::Coordinator,
            "coordinator",
            "spiffe://local/rustle/coordinator",
        ),
        (worker, WORKER, "worker-0", "spiffe://local/rustle/worker/worker-0"),
    ];
    for (process, (url, expected, folder, uri)) in servers.into_iter().enumerate() {
        let shown = cluster.cluster.dir().join("tls").join(folder);
        let show = |leaf: &Leaf, says: &str| {
            let before = times_said(&cluster, process, says);
            leaf.issue(&cluster.cluster.dir().join("tls"), &shown);
            cluster.wait_until(says, || times_said(&cluster, process, says) > before);
        };
        let taken = "new TLS files are in force";
        let is_reached = || {
            let answer = reach(&cluster, &url, expected.clone());
            !matches!(answer, Err(ServiceError::Unavailable { .. }))
        };
        show(&Leaf::of(uri), taken);
        assert!(is_reached(), "{folder}: the control");
        for (name, leaf) in [
            ("for clients alone", Leaf { usages: vec![ClientAuth], ..Leaf::of(uri) }),
            ("not yet valid", from(now + HOUR, now + 2 * HOUR, uri)),
            ("an operator's", Leaf::of(OPERATOR)),
            ("another worker's", Leaf::of("spiffe://local/rustle/worker/worker-1")),
        ] {
            show(&leaf, taken);
            assert!(!is_reached(), "{folder}, {name}");
        }
        show(&Leaf { usages: vec![ServerAuth], ..Leaf::of(uri) }, taken);
        assert!(is_reached(), "{folder}: a server needs no more");
        // Without a role it is not even taken: the one before stays.
        for uris in [vec![], vec!["spiffe://local/rustle/king"]] {
            show(&Leaf { uris, ..Leaf::of(uri) }, "new TLS files can't be used");
            assert!(is_reached(), "{folder}: the one before stays in force");
        }
    }
}
