//! Identities, settings, token files, cursors, branches, and the description of a job.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use ledger::{Head, JobCursor};
use node::{
    auth::{Identity, Tokens, digest_of},
    config::settings::Layers,
};
use plan::Plan;
use prost::Message;
use proto::{
    JobId, Nonce,
    model::{JobMark, OpenBranch},
    pb,
};

use super::{files::folder, messages::checked};
use crate::{Target, outcome, words};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "cursor", seeds: cursor_seeds, run: cursor, slice: 3_000 },
        Target {
            name: "open-branch",
            seeds: branch_seeds,
            run: checked::<pb::OpenBranchRequest, OpenBranch>,
            slice: 3_000,
        },
        Target { name: "job-mark", seeds: mark_seeds, run: checked::<pb::JobMark, JobMark>, slice: 3_000 },
        Target { name: "identity", seeds: identity_seeds, run: identity, slice: 5_000 },
        Target { name: "settings", seeds: settings_seeds, run: settings, slice: 500 },
        Target { name: "tokens-file", seeds: tokens_seeds, run: tokens, slice: 500 },
        Target { name: "job-report", seeds: report_seeds, run: report, slice: 1_500 },
    ]
}

fn a_cursor() -> Option<JobCursor> {
    Some(JobCursor {
        job_nonce: Nonce::from_bytes([6; 32]),
        plan_digest: [1; 32],
        layout_digest: [2; 32],
        job: JobId::new("job-1").ok()?,
        branch: 1,
        next_row: 7,
        coordinator_epoch: 3,
        head: Head { entries: 9, hash: [4; 32] },
    })
}

fn cursor_seeds() -> Vec<Vec<u8>> {
    a_cursor().map(|cursor| cursor.to_bytes()).into_iter().collect()
}

/// Cursors carry a checksum, so that each input is run unchanged and again with a correct checksum.
fn cursor(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let body = &bytes[..bytes.len().saturating_sub(8)];
    let summed = [body, &Sha256::digest(body)[..8]].concat();
    let read = |bytes: &[u8]| match JobCursor::from_bytes(bytes) {
        Ok(cursor) => {
            assert_eq!(cursor.to_bytes(), bytes, "{cursor:?} has other bytes than those it was read from");
            "ok".to_owned()
        }
        Err(error) => words(error),
    };
    format!("{} {}", read(bytes), read(&summed))
}

fn branch_seeds() -> Vec<Vec<u8>> {
    let request =
        pb::OpenBranchRequest { job: "job-1".into(), from_row: 4, expected_branch: 1, parent: Some(0) };
    vec![request.encode_to_vec()]
}

fn mark_seeds() -> Vec<Vec<u8>> {
    let mark = pb::JobMark {
        job: "job-1".into(),
        branch: 1,
        next_row: 7,
        job_nonce: vec![3; 32],
        commitment: vec![1; 33],
    };
    vec![mark.encode_to_vec()]
}

fn identity_seeds() -> Vec<Vec<u8>> {
    ["coordinator", "worker/worker-1", "job/job-1", "operator", "auditor", "scraper"]
        .map(|role| format!("spiffe://rustle.local/rustle/{role}").into_bytes())
        .to_vec()
}

/// An accepted identity is written as the same text: no two texts mean one identity.
fn identity(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    let Some(identity) = Identity::parse(text) else { return "no identity".into() };
    let written = format!("spiffe://{}/rustle/{}", identity.trust_domain, identity.role);
    assert_eq!(written, text);
    "an identity".into()
}

fn settings_seeds() -> Vec<Vec<u8>> {
    let text = "lease_ttl = \"10s\"\n[metrics]\nlisten = \"127.0.0.1:9\"\n[tls]\nnames = [\"a\", \"b\"]\n";
    vec![text.as_bytes().to_vec()]
}

/// Writes the bytes to a private file.
fn with_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> Option<T> {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, bytes).ok()?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).ok()?;
    Some(read(&path))
}

fn settings(bytes: &[u8]) -> String {
    with_file(bytes, |path| outcome(Layers::load(Some(path)))).unwrap_or_default()
}

fn tokens_seeds() -> Vec<Vec<u8>> {
    let digest = digest_of(b"fuzz");
    let line = format!("{{\"sha256\":\"{digest}\",\"role\":\"operator\",\"expires\":4102444800}}\n");
    vec![line.into_bytes()]
}

/// A file grants nothing to a token that it does not list.
fn tokens(bytes: &[u8]) -> String {
    let loaded = with_file(bytes, Tokens::load);
    loaded.map_or_else(String::new, |loaded| match loaded {
        Ok(tokens) => {
            assert!(tokens.find(b"Bearer an unknown token").is_none());
            format!("ok {}", tokens.find(b"Bearer fuzz").is_some())
        }
        Err(error) => words(error),
    })
}

fn report_seeds() -> Vec<Vec<u8>> {
    super::text::plan_seeds()
        .iter()
        .filter_map(|plan| {
            let plan_toml = std::str::from_utf8(plan).ok()?;
            let plan_digest = hex::encode(Plan::from_toml_str(plan_toml).ok()?.digest());
            let branches = serde_json::json!([
                {"branch": 0, "from_row": 0, "released": [[0, 5]]},
                {"branch": 1, "parent": 0, "from_row": 3, "released": [[3, 4], [6, 9]]},
            ]);
            let answer = serde_json::json!({
                "job": "job-1", "state": "running", "dimension": 1300, "key_commitment": "00",
                "plan_digest": plan_digest, "plan_toml": plan_toml, "released": {"branches": branches},
            });
            Some(answer.to_string().into_bytes())
        })
        .collect()
}

fn report(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    outcome(report::Job::read(text))
}
