//! Tokens that the command line made: each is good for its role and job alone, and the file is read again when it
//! changes.

use std::fs;

use proto::ServiceError;

use crate::tokens::TokenCluster;

#[test]
fn a_token_is_good_for_its_role_and_job_alone() {
    let tokens = TokenCluster::start(|_| {});
    tokens.create("own");
    tokens.create("other");
    assert_eq!(tokens.list(Some("operator")).unwrap(), ["other", "own"]);
    assert_eq!(tokens.list(Some("own")).unwrap(), ["own"]);
    assert_eq!(tokens.list(Some("auditor")).unwrap(), ["own"]);
    assert_eq!(tokens.list(None), Err(ServiceError::Unauthenticated));
    assert_eq!(tokens.list(Some("brief")), Err(ServiceError::Unauthenticated));
    assert_eq!(tokens.list(Some("worker")), Err(ServiceError::PermissionDenied));

    let rows = tokens.fetch("own", 0..2_000).unwrap();
    assert_eq!(rows[0].len(), 2_000);
    for denied in ["other", "operator", "auditor"] {
        assert_eq!(tokens.fetch(denied, 0..8), Err(ServiceError::PermissionDenied), "{denied}");
    }
}

#[test]
fn new_and_withdrawn_tokens_count_without_a_restart() {
    let mut tokens = TokenCluster::start(|_| {});
    tokens.add("late", &["--role", "auditor"]);
    tokens.cluster.wait_until("the new token counts", || tokens.list(Some("late")).is_ok());
    fs::write(tokens.cluster.dir.path().join("tokens"), "").unwrap();
    tokens.cluster.wait_until("no token counts any more", || {
        tokens.list(Some("late")) == Err(ServiceError::Unauthenticated)
    });
}
