//! What the table of rights says, read anew, and calls that are about nothing there is.

use bytes::Bytes;
use node::auth::{
    Grant,
    table::{About, Rule},
};
use proto::ServiceError;

use crate::raw_call::about;

/// What requests are about: no such job or worker exists, so that nothing changes where a call is let through.
pub fn named(rule: &Rule) -> &'static str {
    if rule.about == About::Worker { "worker-9" } else { "own" }
}

/// Of one method, where the rule is for all of a service.
pub fn path(rule: &Rule) -> String {
    rule.path
        .replace("grpc.health.v1.Health/*", "grpc.health.v1.Health/Check")
        .replace("ServerReflection/*", "ServerReflection/ServerReflectionInfo")
}

/// Health and reflection take an empty message.
pub fn message(rule: &Rule) -> Bytes {
    if rule.path.contains("rustle") { about(named(rule)) } else { Bytes::new() }
}

/// Of the table alone.
pub fn may(grant: &Grant, rule: &Rule) -> bool {
    rule.roles.contains(&grant.role) && is_own(grant, rule)
}

pub fn is_own(grant: &Grant, rule: &Rule) -> bool {
    matches!(rule.about, About::Nothing | About::VisibleJobs) || grant.is_for(named(rule))
}

pub fn is_denied(answer: &Result<(), ServiceError>) -> bool {
    matches!(answer, Err(ServiceError::Unauthenticated | ServiceError::PermissionDenied))
}
