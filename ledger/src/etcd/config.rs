//! The place of a ledger in etcd: `etcd://host:port[,host:port…][/prefix]`.

use std::{fmt, path::PathBuf, time::Duration};

use zeroize::Zeroizing;

use crate::{LedgerError, Result};

const SCHEME: &str = "etcd://";
const DEFAULT_PREFIX: &str = "rustle";
/// etcd itself grants no shorter one by default.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);

/// PEM files for TLS: the authority to trust, and this process's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// Certificate of the authority.
    pub ca: PathBuf,
    /// Certificate and key; `None` where etcd requires none of its clients.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// One of etcd's own users, where its authentication is on.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUser {
    /// The user's name.
    pub name: String,
    /// The user's password.
    pub password: Zeroizing<String>,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdUser({:?}, [secret])", self.name)
    }
}

/// The place of a ledger in etcd, and the way to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `host:port` of one or more members of one etcd cluster.
    pub members: Vec<String>,
    /// The start of all keys of the ledger.
    pub prefix: String,
    /// `None` for connections in plain text.
    pub tls: Option<EtcdTls>,
    /// `None` where etcd's authentication is off.
    pub user: Option<EtcdUser>,
    /// The life of a leader's lease: after a leader is gone, another can take over within this time.
    pub lease: Duration,
}

impl EtcdConfig {
    /// Reads `etcd://host:port[,host:port…][/prefix]`.
    pub fn parse(url: &str, tls: Option<EtcdTls>, lease: Duration) -> Result<Self> {
        let refused = || {
            let allowed =
                "etcd://host:port[,host:port…][/prefix]; a prefix has letters, digits, '.', '_', '-' and '/'";
            LedgerError::invalid("store", format!("{url:?}"), allowed)
        };
        let rest = url.strip_prefix(SCHEME).ok_or_else(refused)?;
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, DEFAULT_PREFIX));
        let members: Vec<String> = members.split(',').map(str::to_owned).collect();
        if !members.iter().all(|member| is_member(member)) {
            return Err(refused());
        }
        let prefix = prefix.trim_end_matches('/');
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if prefix.is_empty() || !prefix.bytes().all(allowed) || prefix.split('/').any(str::is_empty) {
            return Err(refused());
        }
        if lease < SHORTEST_LEASE {
            let allowed = format!("{SHORTEST_LEASE:?} or longer");
            return Err(LedgerError::invalid("leader_lease_ttl", format!("{lease:?}"), allowed));
        }
        Ok(Self { members, prefix: prefix.to_owned(), tls, user: None, lease })
    }

    /// Returns the member's URL, as etcd's client takes it.
    pub(super) fn endpoint(&self, member: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{member}")
    }

    /// Returns what errors call the store.
    pub fn name(&self) -> PathBuf {
        format!("{SCHEME}{}/{}", self.members.join(","), self.prefix).into()
    }
}

fn is_member(member: &str) -> bool {
    let Some((host, port)) = member.rsplit_once(':') else { return false };
    let bytes = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(bytes) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        let user = EtcdUser { name: "rustle".into(), password: Zeroizing::new("secret word".into()) };
        let config = EtcdConfig { user: Some(user), ..parse("etcd://a:1").unwrap() };
        assert!(!format!("{config:?}").contains("secret word"));
    }

    fn parse(url: &str) -> Result<EtcdConfig> {
        EtcdConfig::parse(url, None, Duration::from_secs(5))
    }

    #[test]
    fn urls_are_taken_apart() {
        let config = parse("etcd://a:2379,[::1]:2380/rustle/production/").unwrap();
        assert_eq!(config.members, ["a:2379", "[::1]:2380"]);
        assert_eq!(config.prefix, "rustle/production");
        assert_eq!(config.name().to_str().unwrap(), "etcd://a:2379,[::1]:2380/rustle/production");
        assert_eq!(parse("etcd://a:1").unwrap().prefix, "rustle");
    }

    #[test]
    fn what_is_no_store_is_refused_by_name() {
        let bad = [
            "",
            "http://a:1",
            "etcd://",
            "etcd://a",
            "etcd://a:0",
            "etcd://a:1,",
            "etcd://a:1/",
            "etcd://a:1/x//y",
        ];
        for url in bad {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains("store") && error.contains("etcd://host:port"), "{url}: {error}");
        }
        let short = EtcdConfig::parse("etcd://a:1", None, Duration::from_secs(1)).unwrap_err();
        assert!(short.to_string().contains("leader_lease_ttl"), "{short}");
    }
}
