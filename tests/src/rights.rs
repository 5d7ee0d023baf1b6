//! The expected answer of the table of rights, computed independently, and calls that name no existing job or worker.

use bytes::Bytes;
use node::auth::Grant;
use proto::ServiceError;
use proto::rpc::{Rpc, Subject};

use crate::raw_call::about;

/// Returns the name in requests: no such job or worker exists, so that an allowed call changes nothing.
pub fn named(rule: &Rpc) -> &'static str {
    if rule.subject == Subject::Worker { "worker-9" } else { "own" }
}

/// Returns the path of one method, also where the rule covers a whole service.
pub fn path(rule: &Rpc) -> String {
    rule.path
        .replace("grpc.health.v1.Health/*", "grpc.health.v1.Health/Check")
        .replace("ServerReflection/*", "ServerReflection/ServerReflectionInfo")
}

/// Returns the message of a call; health and reflection take an empty one.
pub fn message(rule: &Rpc) -> Bytes {
    if rule.path.contains("rustle") { about(named(rule)) } else { Bytes::new() }
}

/// Returns whether the table allows the call.
pub fn may(grant: &Grant, rule: &Rpc) -> bool {
    rule.roles.contains(&grant.role) && is_own(grant, rule)
}

pub fn is_own(grant: &Grant, rule: &Rpc) -> bool {
    matches!(rule.subject, Subject::Nothing | Subject::VisibleJobs) || grant.is_for(named(rule))
}

pub fn is_denied(answer: &Result<(), ServiceError>) -> bool {
    matches!(answer, Err(ServiceError::Unauthenticated | ServiceError::PermissionDenied))
}
