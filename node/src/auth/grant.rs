//! One thing that a caller is: a role, of one job or worker or of all.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Identity, Role};

/// Columns of the table of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantRole {
    Coordinator,
    Worker,
    Trainer,
    Operator,
    Auditor,
    Scraper,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: GrantRole,
    /// The one job, or for a worker the one worker; `None` for all.
    pub name: Option<String>,
    /// Coordinates that may be fetched, in order and apart; `None` for all.
    pub ranges: Option<Vec<Range<u64>>>,
}

impl GrantRole {
    pub const ALL: [GrantRole; 6] = {
        use GrantRole::*;
        [Coordinator, Worker, Trainer, Operator, Auditor, Scraper]
    };

    /// As in token files and in the table of the docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Trainer => "trainer",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
            Self::Scraper => "scraper",
        }
    }
}

impl Grant {
    pub fn of_all(role: GrantRole) -> Self {
        Self { role, name: None, ranges: None }
    }

    /// A job's certificate stands for a trainer's token of that job.
    pub fn of(identity: &Identity) -> Self {
        let named = |role, name: &String| Self { role, name: Some(name.clone()), ranges: None };
        match &identity.role {
            Role::Coordinator => Self::of_all(GrantRole::Coordinator),
            Role::Worker(name) => named(GrantRole::Worker, name),
            Role::Job(name) => named(GrantRole::Trainer, name),
            Role::Operator => Self::of_all(GrantRole::Operator),
            Role::Auditor => Self::of_all(GrantRole::Auditor),
            Role::Scraper => Self::of_all(GrantRole::Scraper),
        }
    }

    pub fn is_for(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|own| own == name)
    }
}
