//! What the table of rights says, read anew, and calls that are about nothing there is.

use bytes::Bytes;
use node::auth::Grant;
use proto::ServiceError;
use proto::rpc::{Rpc, Subject};

use crate::raw_call::about;

/// What requests are about: no such job or worker exists, so that nothing changes where a call is let through.
pub fn named(rule: &Rpc) -> &'static str {
    if rule.subject == Subject::Worker { "worker-9" } else { "own" }
}

/// Of one method, where the rule is for all of a service.
pub fn path(rule: &Rpc) -> String {
    rule.path
        .replace("grpc.health.v1.Health/*", "grpc.health.v1.Health/Check")
        .replace("ServerReflection/*", "ServerReflection/ServerReflectionInfo")
}

/// Health and reflection take an empty message.
pub fn message(rule: &Rpc) -> Bytes {
    if rule.path.contains("rustle") { about(named(rule)) } else { Bytes::new() }
}

/// Of the table alone.
pub fn may(grant: &Grant, rule: &Rpc) -> bool {
    rule.roles.contains(&grant.role) && is_own(grant, rule)
}

pub fn is_own(grant: &Grant, rule: &Rpc) -> bool {
    matches!(rule.subject, Subject::Nothing | Subject::VisibleJobs) || grant.is_for(named(rule))
}

pub fn is_denied(answer: &Result<(), ServiceError>) -> bool {
    matches!(answer, Err(ServiceError::Unauthenticated | ServiceError::PermissionDenied))
}
