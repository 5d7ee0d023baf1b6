//! The table over mTLS, for certificates of every role and for some that name no identity.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use node::{
    auth::{Grant, Identity, Role},
    tls::{Credentials, TlsError, TlsFiles},
};
use proto::ServiceError;
use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use tests::{
    TestCluster,
    certificates::{Leaf, OPERATOR},
    raw_call::call,
    raw_tls, start_with,
};

use crate::{
    refusals,
    table::{self, Row},
};

/// A certificate and what it stands for.
struct Caller {
    label: &'static str,
    certificate: PathBuf,
    /// `None` where the certificate names no identity of the cluster.
    role: Option<Role>,
}

impl Caller {
    fn refusal(&self, row: &Row) -> Option<ServiceError> {
        let Some(role) = &self.role else { return Some(ServiceError::Unauthenticated) };
        let identity = Identity { trust_domain: "local".into(), role: role.clone() };
        let grant = Grant::from_identity(&identity);
        row.refusal(grant.role, grant.name.as_deref())
    }
}

fn callers(cluster: &TestCluster) -> Vec<Caller> {
    let roles = [
        "coordinator",
        "worker/worker-9",
        "worker/worker-0",
        "job/own",
        "job/other",
        "operator",
        "auditor",
        "scraper",
    ];
    let issued = roles.map(|label| {
        let role = Role::parse(label).unwrap();
        Caller { label, certificate: cluster.cluster.certificate(&role).unwrap(), role: Some(role) }
    });
    let leaves = [
        // A caller needs no more than a certificate for clients.
        ("operator", Some(Role::Operator), Leaf { usages: vec![ClientAuth], ..Leaf::of(OPERATOR) }),
        ("no name", None, Leaf { uris: vec![], ..Leaf::of(OPERATOR) }),
        (
            "two names",
            None,
            Leaf { uris: vec![OPERATOR, "spiffe://local/rustle/auditor"], ..Leaf::of(OPERATOR) },
        ),
        ("another scheme", None, Leaf::of("https://local/rustle/operator")),
        ("an unknown role", None, Leaf::of("spiffe://local/rustle/king")),
        ("a role without its name", None, Leaf::of("spiffe://local/rustle/job")),
        ("another trust domain", None, Leaf::of("spiffe://elsewhere/rustle/operator")),
    ];
    let signed =
        leaves.map(|(label, role, leaf)| Caller { label, certificate: signed(cluster, label, &leaf), role });
    issued.into_iter().chain(signed).collect()
}

fn signed(cluster: &TestCluster, label: &str, leaf: &Leaf) -> PathBuf {
    leaf.issue(&cluster.cluster.dir().join("tls"), &cluster.dir.path().join("signed").join(label))
}

/// Calls the process that serves the RPC.
fn answer(cluster: &TestCluster, certificate: &Path, row: &Row) -> Result<(), ServiceError> {
    let _inside = cluster.runtime.enter();
    let worker = cluster.cluster.worker(0).unwrap().grpc().to_owned();
    let url = if row.is_of_workers() { worker } else { cluster.cluster.url() };
    let channel = raw_tls::channel(url.trim_start_matches("https://"), certificate);
    cluster.runtime.block_on(call(channel, row.path, None, row.request()))
}

#[test]
fn every_certificate_at_every_rpc() {
    let cluster = start_with(1, |options| options.tls = true);
    let callers = callers(&cluster);
    let mut forbidden: BTreeMap<(&str, bool), u64> = BTreeMap::new();
    for caller in &callers {
        for row in table::rows() {
            let answer = answer(&cluster, &caller.certificate, &row);
            table::assert_answer(&answer, caller.refusal(&row), caller.label, &row);
            if answer == Err(ServiceError::PermissionDenied) {
                *forbidden.entry((caller.label, row.is_of_workers())).or_default() += 1;
            }
        }
    }
    let identities = callers.iter().filter(|caller| caller.role.is_some()).map(|caller| caller.label);
    for at_worker in [false, true] {
        assert_each_is_logged_once_and_counted(&cluster, at_worker, identities.clone(), &forbidden);
    }
    // The right role for another job.
    let third = cluster.cluster.certificate(&Role::Job("third".into())).unwrap();
    let get_job = table::rows().find(|row| row.path == "/rustle.v1.Jobs/GetJob").unwrap();
    assert_eq!(answer(&cluster, &third, &get_job), Err(ServiceError::PermissionDenied));
    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    assert!(log.lines().any(|line| line.contains("not its own") && line.contains("job/third")));
}

/// Checks that all refusals of a peer within a minute are one line in the log of the process that refused, and that each
/// is counted.
fn assert_each_is_logged_once_and_counted<'a>(
    cluster: &TestCluster,
    at_worker: bool,
    identities: impl Iterator<Item = &'a str>,
    forbidden: &BTreeMap<(&'a str, bool), u64>,
) {
    let process = if at_worker { cluster.cluster.worker(0) } else { cluster.cluster.coordinator() }.unwrap();
    let log = fs::read_to_string(process.log()).unwrap();
    for identity in identities {
        let peer = format!("peer={identity} ");
        let lines = log.lines().filter(|line| line.contains("may not have") && line.contains(&peer));
        let expected = usize::from(forbidden.contains_key(&(identity, at_worker)));
        assert_eq!(lines.count(), expected, "{identity}, at the worker: {at_worker}:\n{log}");
    }
    let expected: u64 =
        forbidden.iter().filter(|((_, at), _)| *at == at_worker).map(|(_, count)| count).sum();
    assert_eq!(refusals(process, "forbidden"), expected, "at the worker: {at_worker}");
}

#[test]
fn certificates_without_an_identity_do_not_load() {
    let cluster = start_with(0, |options| options.tls = true);
    for caller in callers(&cluster)
        .iter()
        .filter(|caller| ["no name", "two names", "an unknown role"].contains(&caller.label))
    {
        let loaded = Credentials::load(TlsFiles::in_dir(&caller.certificate));
        assert!(matches!(loaded, Err(TlsError::NoIdentity { .. })), "{}: {loaded:?}", caller.label);
    }
}
