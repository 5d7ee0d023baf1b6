//! The identity in a certificate: one URI, in the form of SPIFFE.

use std::fmt;

use proto::TenantId;

/// The identity `spiffe://TRUST-DOMAIN/rustle/ROLE[/NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The domain of the authority that signed the certificate.
    pub trust_domain: String,
    /// The role in that domain.
    pub role: Role,
}

/// The role of a process or person in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The coordinator.
    Coordinator,
    /// The worker of this name.
    Worker(String),
    /// A training job: may bind and fetch the rows of this job alone.
    Job(String),
    /// A person or program that creates, changes and ends jobs.
    Operator,
    /// An operator of this tenant: what it does is charged to the tenant.
    TenantOperator(TenantId),
    /// A reader of jobs, reports and ledger entries.
    Auditor,
    /// Reads metrics, and asks for health.
    Scraper,
}

impl Identity {
    /// Parses a URI; `None` for any that is not exactly of this form: an identity is never guessed.
    pub fn parse(uri: &str) -> Option<Self> {
        let (trust_domain, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
        if trust_domain.is_empty() {
            return None;
        }
        let role = Role::parse(path.strip_prefix("rustle/")?)?;
        Some(Self { trust_domain: trust_domain.to_owned(), role })
    }
}

impl Role {
    /// Returns the role of a path such as `worker/w-1`; `None` for anything else.
    pub fn parse(path: &str) -> Option<Self> {
        let name = |name: &str| is_name(name).then(|| name.to_owned());
        Some(match path.split_once('/') {
            None if path == "coordinator" => Self::Coordinator,
            None if path == "operator" => Self::Operator,
            None if path == "auditor" => Self::Auditor,
            None if path == "scraper" => Self::Scraper,
            Some(("worker", worker)) => Self::Worker(name(worker)?),
            Some(("job", job)) => Self::Job(name(job)?),
            Some(("operator", tenant)) => Self::TenantOperator(TenantId::new(tenant).ok()?),
            _ => return None,
        })
    }
}

/// Returns whether a name is safe to write: nothing in it may end a path, a line or a quotation.
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 128 && text.chars().all(allowed)
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator => f.write_str("coordinator"),
            Self::Worker(name) => write!(f, "worker/{name}"),
            Self::Job(name) => write!(f, "job/{name}"),
            Self::Operator => f.write_str("operator"),
            Self::TenantOperator(tenant) => write!(f, "operator/{tenant}"),
            Self::Auditor => f.write_str("auditor"),
            Self::Scraper => f.write_str("scraper"),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/rustle/{}", self.trust_domain, self.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_read_back_what_they_print() {
        for role in
            ["coordinator", "worker/w-1", "job/digits", "operator", "operator/ads", "auditor", "scraper"]
        {
            let uri = format!("spiffe://lab.example/rustle/{role}");
            assert_eq!(Identity::parse(&uri).unwrap().to_string(), uri);
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for bad in [
            "",
            "https://lab/rustle/operator",
            "spiffe:///rustle/operator",
            "spiffe://lab/operator",
            "spiffe://lab/rustle/",
            "spiffe://lab/rustle/Operator",
            "spiffe://lab/rustle/operator/",
            "spiffe://lab/rustle/operator/.ads",
            "spiffe://lab/rustle/auditor/ads",
            "spiffe://lab/rustle/worker",
            "spiffe://lab/rustle/worker/",
            "spiffe://lab/rustle/job/a/b",
            "spiffe://lab/rustle/job/a b",
            "spiffe://lab/rustle/operator?x",
        ] {
            assert_eq!(Identity::parse(bad), None, "{bad}");
        }
    }
}
