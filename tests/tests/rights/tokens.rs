//! The table with bearer tokens: of every role of tokens, for the request's name and for another, expired, and unknown.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use client::Connections;
use node::{
    auth::{CallerRole, TokenEntry, digest_of},
    net::dial::DialOptions,
    tls::ExpectedServer,
};
use proto::{PersonId, ServiceError};
use tests::{TestCluster, flags, raw_call::call, start_with};

use crate::{
    refusals,
    table::{self, Row},
};

/// The roles of tokens. The other roles belong to processes and appear only in certificates.
const ROLES: [CallerRole; 5] = [
    CallerRole::Trainer,
    CallerRole::Operator,
    CallerRole::Auditor,
    CallerRole::Worker,
    CallerRole::Approver,
];

/// One call. Each has a token of its own, so that each refusal is the first of its caller and has its line in the log.
struct TokenCall {
    row: Row,
    token: String,
    entry: TokenEntry,
    is_expired: bool,
}

impl TokenCall {
    fn refusal(&self) -> Option<ServiceError> {
        if self.is_expired {
            return Some(ServiceError::Unauthenticated);
        }
        let refusal = self.row.refusal(self.entry.role, self.entry.name.as_deref());
        // The coordinator does not serve these, so that it checks the role and not the name.
        refusal.filter(|_| !self.row.is_of_workers() || self.row.right(self.entry.role) == "-")
    }
}

/// Returns every role, with the request's own name, another, and expired, at every RPC.
fn calls() -> Vec<TokenCall> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut calls = Vec::new();
    for role in ROLES {
        for (is_own, is_expired) in [(true, false), (false, false), (true, true)] {
            for row in table::rows() {
                let token = format!("rustle_token-number-{}-of-a-test", calls.len());
                let entry = TokenEntry {
                    sha256: digest_of(token.as_bytes()),
                    role,
                    name: Some(if is_own { row.subject() } else { "another" }.to_owned()),
                    expires: Some(if is_expired { now - 1 } else { now + 3600 }),
                    ranges: None,
                    tenant: None,
                    person: (role == CallerRole::Approver).then(|| PersonId::new("ben").unwrap()),
                };
                calls.push(TokenCall { row, token, entry, is_expired });
            }
        }
    }
    calls
}

/// Starts a cluster on loopback whose coordinator requires tokens. It has no worker: no call here needs one.
fn start(calls: &[TokenCall]) -> TestCluster {
    start_with(0, |options| {
        fs::create_dir_all(&options.dir).unwrap();
        let tokens = options.dir.join("tokens");
        let lines = calls.iter().map(|call| serde_json::to_string(&call.entry).unwrap() + "\n");
        fs::write(&tokens, lines.collect::<String>()).unwrap();
        options.coordinator_flags.extend(flags(&["--tokens-file", &tokens.display().to_string()]));
    })
}

/// Calls the coordinator, even for RPCs of workers: a wrong role is refused before the method is looked up.
fn answer(cluster: &TestCluster, row: &Row, bearer: Option<&str>) -> Result<(), ServiceError> {
    let _inside = cluster.runtime.enter();
    let connections = Connections::dialing(DialOptions::default());
    let channel = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
    let answer = call(channel, row.path, bearer, row.request());
    let answer = async { tokio::time::timeout(Duration::from_secs(20), answer).await.unwrap() };
    cluster.runtime.block_on(answer)
}

/// Returns bearers that are no token of the file: changed from `token`, its digest, and none.
fn unknown(token: &str) -> Vec<Option<String>> {
    let mut unknown = ["x", "\" or 1=1", "{}", "a b c"].map(str::to_owned).to_vec();
    unknown.extend([format!("{token}x"), token[..token.len() - 1].to_owned(), "x".repeat(4_000)]);
    unknown.push(digest_of(token.as_bytes()));
    unknown.into_iter().map(Some).chain([None]).collect()
}

#[test]
fn every_token_at_every_rpc() {
    let calls = calls();
    let cluster = start(&calls);
    let mut forbidden = Vec::new();
    let mut unauthenticated = 0;
    for call in &calls {
        let answer = answer(&cluster, &call.row, Some(&call.token));
        let caller = format!("{:?}, expired: {}", call.entry, call.is_expired);
        table::assert_answer(&answer, call.refusal(), &caller, &call.row);
        match answer {
            Err(ServiceError::PermissionDenied) => forbidden.push(call),
            Err(ServiceError::Unauthenticated) => unauthenticated += 1,
            _ => {}
        }
    }
    for row in table::rows() {
        for bearer in unknown(&calls[0].token) {
            let answer = answer(&cluster, &row, bearer.as_deref());
            let caller = format!("the bearer {bearer:?}");
            table::assert_answer(&answer, Some(ServiceError::Unauthenticated), &caller, &row);
            unauthenticated += 1;
        }
    }
    let coordinator = cluster.cluster.coordinator().unwrap();
    assert_eq!(refusals(coordinator, "forbidden"), forbidden.len() as u64);
    assert_eq!(refusals(coordinator, "unauthenticated"), unauthenticated);

    let log = fs::read_to_string(coordinator.log()).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("may not have")).collect();
    assert_eq!(lines.len(), forbidden.len(), "{log}");
    for TokenCall { row, entry, .. } in forbidden {
        let of_it: Vec<_> = lines.iter().filter(|line| line.contains(&entry.sha256[..12])).collect();
        assert_eq!(of_it.len(), 1, "{entry:?} at {}: {of_it:?}", row.path);
        let what = if row.right(entry.role) == "-" { row.path } else { "not its own" };
        assert!(of_it[0].contains(what), "{what}: {}", of_it[0]);
    }
    // Of one address within a minute there is one line, and nothing of what the callers sent.
    assert_eq!(log.matches("showed nothing that counts").count(), 1);
    assert!(!log.contains("1=1") && !log.contains("xxxx"), "a bearer is in the log");
}
