//! The table of rights over bearer tokens: a token of every role, with its own or another name, expired or unknown, calls
//! every RPC. Each refused call is one line in the log.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use node::{
    auth::{CallerRole, Grant, TokenEntry, digest_of},
    net::dial::DialOptions,
    tls::ExpectedServer,
};
use proto::{
    ServiceError,
    rpc::{RPCS, Rpc, Subject},
};
use tests::{
    TestCluster, flags, get,
    raw_call::call,
    rights::{is_own, may, message, named, path},
    start_with,
};

/// The roles of tokens. The other roles belong to processes and appear only in certificates.
const ROLES: [CallerRole; 4] =
    [CallerRole::Trainer, CallerRole::Operator, CallerRole::Auditor, CallerRole::Worker];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The token names the job or worker of the request.
    Own,
    Another,
    Expired,
}

/// Each call has a token of its own, so that each refusal is the first of its caller.
struct TokenCall {
    token: String,
    rule: &'static Rpc,
    kind: Kind,
    grant: Grant,
    expires: Option<u64>,
}

fn shown() -> Vec<TokenCall> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut all = Vec::new();
    for role in ROLES {
        for kind in [Kind::Own, Kind::Another, Kind::Expired] {
            for rule in RPCS {
                let name = if kind == Kind::Another { "another" } else { named(rule) };
                let grant = Grant { name: Some(name.to_owned()), ..Grant::for_all(role) };
                let token = format!("rustle_token-number-{}-of-a-test", all.len());
                let expires = Some(if kind == Kind::Expired { now - 1 } else { now + 3600 });
                all.push(TokenCall { token, rule, kind, grant, expires });
            }
        }
    }
    all
}

fn write_tokens(path: &Path, shown: &[TokenCall]) {
    let line = |shown: &TokenCall| {
        let entry = TokenEntry {
            sha256: digest_of(shown.token.as_bytes()),
            role: shown.grant.role,
            name: shown.grant.name.clone(),
            expires: shown.expires,
            ranges: None,
        };
        serde_json::to_string(&entry).unwrap() + "\n"
    };
    fs::write(path, shown.iter().map(line).collect::<String>()).unwrap();
}

/// Starts a cluster on loopback whose coordinator requires tokens. It has no worker: no test here needs one.
fn start(shown: &[TokenCall]) -> TestCluster {
    start_with(0, |options| {
        fs::create_dir_all(&options.dir).unwrap();
        let tokens = options.dir.join("tokens");
        write_tokens(&tokens, shown);
        options.coordinator_flags.extend(flags(&["--tokens-file", &tokens.display().to_string()]));
    })
}

/// Calls the coordinator, even for RPCs of workers: a wrong role is refused before the method is looked up.
fn ask(cluster: &TestCluster, rule: &Rpc, bearer: Option<&str>) -> Result<(), ServiceError> {
    let _inside = cluster.runtime.enter();
    let connections = client::Connections::dialing(DialOptions::default());
    let channel = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
    let path = path(rule);
    let asked = call(channel, &path, bearer, message(rule));
    let asked = async { tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap() };
    cluster.runtime.block_on(asked)
}

fn refusals_counted(cluster: &TestCluster, reason: &str) -> u64 {
    let page = get(cluster.cluster.coordinator().unwrap().metrics(), "/metrics");
    let name = format!("rustle_calls_refused_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn every_token_at_every_rpc_and_each_refusal_is_one_line() {
    let shown = shown();
    let cluster = start(&shown);
    let mut told: BTreeMap<String, &TokenCall> = BTreeMap::new();
    let mut let_in = 0;
    let mut expired = 0;
    for one in &shown {
        let TokenCall { token, rule, kind, grant, .. } = one;
        let answer = ask(&cluster, rule, Some(token));
        let who = || format!("{kind:?} {} at {}: {answer:?}", grant.role.name(), rule.path);
        // The coordinator does not serve these, so their names are not checked.
        let is_named_here = !rule.path.starts_with("/rustle.v1.Shards/");
        let allowed = rule.roles.contains(&grant.role) && (is_own(grant, rule) || !is_named_here);
        assert!(!is_named_here || allowed == may(grant, rule));
        match (*kind, allowed) {
            (Kind::Expired, _) => {
                assert_eq!(answer, Err(ServiceError::Unauthenticated), "{}", who());
                expired += 1;
            }
            (_, true) => {
                let denied = tests::rights::is_denied(&answer);
                let is_lost =
                    matches!(&answer, Err(ServiceError::Unavailable { what }) if what == "a status");
                assert!(!denied && !is_lost, "{}", who());
                let_in += 1;
            }
            (_, false) => {
                assert_eq!(answer, Err(ServiceError::PermissionDenied), "{}", who());
                told.insert(digest_of(token.as_bytes())[..12].to_owned(), one);
            }
        }
    }
    println!("{let_in} let in, {} forbidden, {expired} unauthenticated", told.len());
    assert_eq!(expired, ROLES.len() * RPCS.len());
    assert!(let_in > 60 && told.len() > 60, "{let_in} {}", told.len());

    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("may not have")).collect();
    assert_eq!(lines.len(), told.len(), "{log}");
    for (digest, TokenCall { rule, grant, .. }) in &told {
        let of_it: Vec<_> = lines.iter().filter(|line| line.contains(digest)).collect();
        assert_eq!(of_it.len(), 1, "{} at {}: {of_it:?}", grant.role.name(), rule.path);
        let what = if rule.roles.contains(&grant.role) { "not its own" } else { rule.path };
        assert!(of_it[0].contains(what), "{what}: {}", of_it[0]);
    }
    assert_eq!(refusals_counted(&cluster, "forbidden"), told.len() as u64);
    assert_eq!(refusals_counted(&cluster, "unauthenticated"), expired as u64);
    // One address: one line.
    assert_eq!(log.matches("showed nothing that counts").count(), 1);
}

#[test]
fn what_is_no_token_of_the_file_is_nobody_at_every_rpc() {
    let grant = Grant::for_all(CallerRole::Operator);
    let good = TokenCall {
        token: "rustle_a-good-token-of-an-operator".into(),
        rule: &RPCS[0],
        kind: Kind::Own,
        grant,
        expires: None,
    };
    let cluster = start(std::slice::from_ref(&good));
    let list = RPCS.iter().find(|rule| rule.subject == Subject::VisibleJobs).unwrap();
    assert_eq!(ask(&cluster, list, Some(&good.token)), Ok(()), "the control");
    let longer = format!("{}x", good.token);
    let shorter = good.token[..good.token.len() - 1].to_owned();
    let digest = digest_of(good.token.as_bytes());
    let long = "x".repeat(4_000);
    let garbage = ["x", &longer, &shorter, &digest, "\" or 1=1", "{}", "a b c", &long];
    for rule in RPCS {
        for bearer in garbage.into_iter().map(Some).chain([None]) {
            let answer = ask(&cluster, rule, bearer);
            assert_eq!(answer, Err(ServiceError::Unauthenticated), "{bearer:?} at {}", rule.path);
        }
    }
    let expected = RPCS.len() * (garbage.len() + 1);
    assert_eq!(refusals_counted(&cluster, "unauthenticated"), expected as u64);
    let log = fs::read_to_string(cluster.cluster.coordinator().unwrap().log()).unwrap();
    assert_eq!(log.matches("showed nothing that counts").count(), 1);
    assert!(!log.contains("1=1") && !log.contains("xxxx"), "what callers say is not logged");
}
