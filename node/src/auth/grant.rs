//! A grant: one role of a caller, for one job or worker or for all.

use std::ops::Range;

use proto::rpc::CallerRole;
use proto::{PersonId, TenantId};

use super::{Identity, Role};

/// One role of a caller, for one job or worker or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The role, which decides what may be called.
    pub role: CallerRole,
    /// The one job, or for a worker its own name; `None` for all.
    pub name: Option<String>,
    /// Coordinates that may be fetched, in order and not touching; `None` for all.
    pub ranges: Option<Vec<Range<u64>>>,
    /// The tenant that an operator acts for; `None` for none.
    pub tenant: Option<TenantId>,
    /// The person who holds it; `None` where none is named.
    pub person: Option<PersonId>,
}

impl Grant {
    /// Returns the grant of a role for all jobs and workers.
    pub fn for_all(role: CallerRole) -> Self {
        Self { role, name: None, ranges: None, tenant: None, person: None }
    }

    /// Returns the grant of a certificate's identity. A job's certificate counts as a trainer's token of that job.
    pub fn from_identity(identity: &Identity) -> Self {
        let named = |role, name: &String| Self { name: Some(name.clone()), ..Self::for_all(role) };
        match &identity.role {
            Role::Coordinator => Self::for_all(CallerRole::Coordinator),
            Role::Worker(name) => named(CallerRole::Worker, name),
            Role::Job(name) => named(CallerRole::Trainer, name),
            Role::Operator => Self::for_all(CallerRole::Operator),
            Role::TenantOperator(tenant) => {
                Self { tenant: Some(tenant.clone()), ..Self::for_all(CallerRole::Operator) }
            }
            Role::Auditor => Self::for_all(CallerRole::Auditor),
            Role::Scraper => Self::for_all(CallerRole::Scraper),
        }
    }

    /// Returns whether the grant covers the job or worker so named.
    pub fn is_for(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|own| own == name)
    }
}
