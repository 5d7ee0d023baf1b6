//! The table of rights over mTLS: every identity calls every RPC of a real cluster. `token_rights.rs` does the same with
//! bearer tokens.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use client::Connections;
use node::{
    auth::{Grant, Identity, Role},
    tls::ExpectedServer,
};
use prost::Message;
use proto::{
    ServiceError,
    rpc::{self, RPCS, Rpc},
};
use tests::{
    TestCluster, WORKER, get,
    raw_call::call,
    rights::{is_denied, may, message, path},
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

fn grant(identity: &str) -> Grant {
    Grant::from_identity(&Identity { trust_domain: "local".into(), role: Role::parse(identity).unwrap() })
}

fn endpoint(cluster: &TestCluster, rule: &Rpc) -> (String, ExpectedServer) {
    if rule.path.starts_with("/rustle.v1.Shards/") {
        (cluster.cluster.worker(0).unwrap().grpc().to_owned(), WORKER)
    } else {
        (cluster.cluster.url(), ExpectedServer::Coordinator)
    }
}

fn ask(cluster: &TestCluster, connections: &Connections, rule: &Rpc) -> Result<(), ServiceError> {
    let (endpoint, expected) = endpoint(cluster, rule);
    let _inside = cluster.runtime.enter();
    let channel = connections.channel(&endpoint, expected).unwrap();
    cluster.runtime.block_on(call(channel, &path(rule), None, message(rule)))
}

#[test]
fn every_identity_at_every_rpc() {
    let cluster = start_with(1, |options| options.tls = true);
    let mut let_in = 0;
    let mut refused = 0;
    // Counts by identity and whether the worker was called.
    let mut refusals: BTreeMap<(&str, bool), u64> = BTreeMap::new();
    for identity in IDENTITIES {
        let dialing = cluster.cluster.dialing(&Role::parse(identity).unwrap()).unwrap();
        let connections = Connections::dialing(dialing);
        for rule in RPCS {
            let answer = ask(&cluster, &connections, rule);
            let reached = match &answer {
                Err(error) => error.kind() != "unavailable" || error.to_string().contains("checkpoint"),
                Ok(()) => true,
            };
            assert!(reached, "{identity} at {}: {answer:?}", rule.path);
            assert_eq!(
                !is_denied(&answer),
                may(&grant(identity), rule),
                "{identity} at {}: {answer:?}",
                rule.path
            );
            if is_denied(&answer) {
                assert_eq!(answer, Err(ServiceError::PermissionDenied), "{identity} at {}", rule.path);
                refused += 1;
                *refusals.entry((identity, rule.path.starts_with("/rustle.v1.Shards/"))).or_default() += 1;
            } else {
                let_in += 1;
            }
        }
    }
    println!("{} calls: {let_in} let in, {refused} refused", let_in + refused);
    assert!(refused > 80 && let_in > 40, "{let_in} {refused}");
    assert_each_is_logged_once_and_counted(&cluster, &refusals);

    // An operator of another trust domain, signed by our authority.
    let own = cluster.cluster.dir().join("tls");
    let other = rustle::certs::Authority::open(&own, "elsewhere").unwrap();
    let dir = cluster.dir.path().join("elsewhere");
    other.issue(&dir, &Role::Operator, Duration::from_secs(3600)).unwrap();
    let shown = tests::raw_tls::open(cluster.cluster.url().trim_start_matches("https://"), Some(&dir));
    assert!(shown.is_ok(), "the connection itself is fine: {shown:?}");
    // A caller with the right role and the wrong job.
    let third = Connections::dialing(cluster.cluster.dialing(&Role::Job("third".into())).unwrap());
    let get_job = rpc::find("/rustle.v1.Jobs/GetJob").unwrap();
    assert_eq!(ask(&cluster, &third, get_job), Err(ServiceError::PermissionDenied));
    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    assert!(log.contains("may not have"), "refusals are logged");
    assert!(log.lines().any(|line| line.contains("not its own") && line.contains("job/third")));
}

/// All refusals of a peer within a minute are one line in the log of the process that refused, and each counts.
fn assert_each_is_logged_once_and_counted(
    cluster: &TestCluster,
    refusals: &BTreeMap<(&'static str, bool), u64>,
) {
    for at_worker in [false, true] {
        let of = if at_worker { cluster.cluster.worker(0) } else { cluster.cluster.coordinator() };
        let log = fs::read_to_string(of.unwrap().log()).unwrap();
        for identity in IDENTITIES {
            let peer = format!("peer={identity} ");
            let lines = log.lines().filter(|line| line.contains("may not have") && line.contains(&peer));
            let expected = usize::from(refusals.contains_key(&(identity, at_worker)));
            assert_eq!(lines.count(), expected, "{identity}, at the worker: {at_worker}:\n{log}");
        }
        let page = get(of.unwrap().metrics(), "/metrics");
        let counted = "rustle_calls_refused_total{reason=\"forbidden\"} ";
        let counted = page.lines().find_map(|line| line.strip_prefix(counted)).unwrap();
        let expected: u64 = refusals.iter().filter(|((_, at), _)| *at == at_worker).map(|(_, n)| n).sum();
        assert_eq!(counted.parse(), Ok(expected), "at the worker: {at_worker}");
    }
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
        assert_eq!(may(&grant(identity), rpc::find(path).unwrap()), allowed, "{identity} at {path}");
    }
    assert!(rpc::find("/rustle.v1.Noise/Bindings").is_none());
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
        assert!(rpc::find(&path).is_some(), "{path} has no line in proto/src/rpc.rs: nobody may call it");
    }
}

#[test]
fn the_docs_print_the_table() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let docs = fs::read_to_string(docs).unwrap();
    assert!(docs.contains(&rpc::markdown()), "docs/security.md lacks this table:\n{}", rpc::markdown());
}

#[test]
fn without_tls_and_tokens_nobody_is_asked() {
    let cluster = start(1);
    for rule in RPCS {
        let answer = ask(&cluster, &Connections::new(), rule);
        assert!(!is_denied(&answer), "{}: {answer:?}", rule.path);
    }
}
