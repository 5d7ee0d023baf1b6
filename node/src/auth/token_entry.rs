//! One line of a tokens file: what a token is good for.

use std::ops::Range;

use proto::{CoordinateRange, PersonId, TenantId};
use serde::{Deserialize, Serialize};

use super::{CallerRole, Grant};

/// One line of a tokens file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The SHA-256 of the token's text, in hexadecimal.
    pub sha256: String,
    /// The role that the token grants.
    pub role: CallerRole,
    /// The one job, or for workers the one worker; left out for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Coordinates [a, b) that a trainer may fetch; left out for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<(u64, u64)>>,
    /// The tenant that an operator or a trainer acts for; left out for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The person who holds an approver's, operator's or trainer's token; left out for none. All tokens of one person name it alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
}

/// Reads a line. Error: what is wrong with it, without the token's digest.
pub fn parse(line: &str) -> Result<(String, (Grant, Option<u64>)), String> {
    let entry: TokenEntry = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let digest = entry.sha256.to_lowercase();
    if hex::decode(&digest).map_or(0, |bytes| bytes.len()) != 32 {
        return Err("sha256 is not 64 hexadecimal digits".into());
    }
    if matches!(entry.role, CallerRole::Coordinator | CallerRole::Scraper) {
        let role = entry.role.name();
        return Err(format!("role is {role}; allowed: trainer, operator, auditor, worker, approver"));
    }
    let ranges: Option<Vec<Range<u64>>> =
        entry.ranges.map(|ranges| ranges.into_iter().map(|(start, end)| start..end).collect());
    if ranges.is_some() && entry.role != CallerRole::Trainer {
        return Err(format!("role {} has ranges; allowed: for a trainer alone", entry.role.name()));
    }
    if entry.tenant.is_some() && !matches!(entry.role, CallerRole::Operator | CallerRole::Trainer) {
        return Err(format!("role {} has a tenant; allowed: for operators and trainers", entry.role.name()));
    }
    if entry.role == CallerRole::Approver && entry.person.is_none() {
        return Err("role approver has no person; allowed: with one".into());
    }
    if entry.person.is_some() && matches!(entry.role, CallerRole::Auditor | CallerRole::Worker) {
        return Err(format!(
            "role {} has a person; allowed: for approvers, operators and trainers",
            entry.role.name()
        ));
    }
    if ranges.iter().flatten().any(Range::is_empty) {
        return Err("a range is empty; allowed: [a, b] with a < b".into());
    }
    let ranges = ranges.map(joined);
    let TokenEntry { role, name, expires, tenant, person, .. } = entry;
    Ok((digest, (Grant { role, name, ranges, tenant, person }, expires)))
}

/// Joins ranges that touch: a request that spans both is allowed as well.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let joined = CoordinateRange::joined(ranges.into_iter().map(Into::into).collect());
    joined.iter().map(CoordinateRange::as_range).collect()
}
