//! The store that keeps the ledger: a file, or etcd.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;
use node::config::settings::Layers;
use node::config::units::parse_duration;

use crate::{defaults, renamed_settings};

/// The flags of the ledger's store.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LedgerStoreArgs {
    /// Where the ledger is: "file", which is in the data folder, or `etcd://host:port[,host:port…][/prefix]`, for several
    /// coordinators of which one leads and the others stand by
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Time after which the lease of a leader that is gone ends, with etcd
    #[arg(long, value_name = "DURATION", alias = "store-lease")]
    pub leader_lease_ttl: Option<String>,
    /// Folder with ca.pem, which etcd's certificate is checked against, and, if etcd requires a client certificate,
    /// cert.pem and key.pem
    #[arg(long, value_name = "DIR")]
    pub store_tls_dir: Option<String>,
    /// User of etcd, if its authentication is on; needs --store-password-file
    #[arg(long, value_name = "NAME")]
    pub store_user: Option<String>,
    /// File of that user's password, one line, mode 0400 or 0600
    #[arg(long, value_name = "FILE")]
    pub store_password_file: Option<String>,
    /// URL at which others reach this coordinator, if that is not the listening address
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
}

/// The store of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerStore {
    /// `ledger.redb` in the data folder.
    File,
    /// A log in etcd, which several coordinators share.
    #[cfg(feature = "etcd")]
    Etcd(ledger::etcd::EtcdConfig),
}

impl LedgerStoreArgs {
    /// Returns the store, and the URL at which others reach this coordinator. Fails if the flags contradict each other.
    pub fn resolve(self, layers: &mut Layers) -> anyhow::Result<(LedgerStore, Option<String>)> {
        let url =
            layers.with_default(defaults::STORE.name, self.store, defaults::STORE.value, String::from_str)?;
        let lease = renamed_settings::resolve(
            layers,
            defaults::LEADER_LEASE_TTL,
            self.leader_lease_ttl,
            parse_duration,
        )?;
        let tls_dir = layers.optional("store_tls_dir", self.store_tls_dir, PathBuf::from_str)?;
        let user = layers.optional("store_user", self.store_user, String::from_str)?;
        let password_file =
            layers.optional("store_password_file", self.store_password_file, PathBuf::from_str)?;
        let advertise = layers.optional("advertise", self.advertise, String::from_str)?;
        if url == "file" {
            let given = [
                ("store_tls_dir", tls_dir.is_some()),
                ("store_user", user.is_some()),
                ("store_password_file", password_file.is_some()),
            ];
            if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
                bail!("{name} is given, and store is \"file\"; allowed: etcd:// with it");
            }
            return Ok((LedgerStore::File, advertise));
        }
        let login = match (user, password_file) {
            (Some(user), Some(file)) => Some((user, file)),
            (None, None) => None,
            _ => bail!("store_user and store_password_file; allowed: both or neither"),
        };
        Ok((etcd(&url, Access { tls_dir, login }, lease)?, advertise))
    }
}

/// The credentials for etcd.
#[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "without etcd nothing uses them"))]
struct Access {
    tls_dir: Option<PathBuf>,
    /// A user, and the file with its password.
    login: Option<(String, PathBuf)>,
}

#[cfg(feature = "etcd")]
fn etcd(url: &str, access: Access, lease: Duration) -> anyhow::Result<LedgerStore> {
    use ledger::etcd::{EtcdConfig, EtcdTls, EtcdUser};

    let tls = access.tls_dir.map(|dir| {
        let cert = dir.join("cert.pem");
        let key = dir.join("key.pem");
        // One of the two alone is an error, which names the other when it is read.
        let has_identity = cert.exists() || key.exists();
        EtcdTls { ca: dir.join("ca.pem"), identity: has_identity.then_some((cert, key)) }
    });
    let user = access.login.map(|(name, file)| {
        node::config::secrets::read_password_file(&file).map(|password| EtcdUser { name, password })
    });
    Ok(LedgerStore::Etcd(EtcdConfig { user: user.transpose()?, ..EtcdConfig::parse(url, tls, lease)? }))
}

#[cfg(not(feature = "etcd"))]
fn etcd(url: &str, _access: Access, _lease: Duration) -> anyhow::Result<LedgerStore> {
    anyhow::bail!("store is {url:?}; allowed: \"file\", because this build lacks the feature `etcd`")
}

impl LedgerStore {
    /// Returns whether other coordinators use the store too, so that the cluster's data must not be on one of their
    /// disks.
    pub fn is_shared(&self) -> bool {
        *self != LedgerStore::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(url: &str, tls_dir: Option<&str>) -> anyhow::Result<(LedgerStore, Option<String>)> {
        let store_tls_dir = tls_dir.map(str::to_owned);
        let args =
            LedgerStoreArgs { store: Some(url.to_owned()), store_tls_dir, ..LedgerStoreArgs::default() };
        args.resolve(&mut Layers::from_parts([], None)?)
    }

    #[test]
    fn a_file_is_the_default_and_has_no_tls() {
        let (store, advertise) =
            LedgerStoreArgs::default().resolve(&mut Layers::from_parts([], None).unwrap()).unwrap();
        assert_eq!((store, advertise), (LedgerStore::File, None));
        assert!(resolve("file", Some("/tls")).unwrap_err().to_string().contains("store_tls_dir"));
    }

    #[test]
    fn what_is_no_store_is_refused_by_name() {
        for url in ["", "redis://a:1", "etcd://"] {
            let error = resolve(url, None).unwrap_err().to_string();
            assert!(error.contains("store is") && error.contains(&format!("{url:?}")), "{error}");
        }
    }

    #[test]
    #[cfg(not(feature = "etcd"))]
    fn a_build_without_etcd_says_so() {
        let error = resolve("etcd://a:2379", None).unwrap_err().to_string();
        assert!(error.contains("feature `etcd`"), "{error}");
    }

    #[test]
    #[cfg(feature = "etcd")]
    fn a_store_in_etcd_is_shared() {
        let (store, _) = resolve("etcd://a:2379/p", Some("/tls")).unwrap();
        assert!(store.is_shared() && !LedgerStore::File.is_shared());
        let LedgerStore::Etcd(config) = store else { panic!("not in etcd") };
        let tls = config.tls.unwrap();
        assert_eq!((tls.ca.to_str(), tls.identity), (Some("/tls/ca.pem"), None));
    }

    #[test]
    #[cfg(feature = "etcd")]
    fn a_user_has_a_password_in_a_private_file() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let resolve = |user: Option<&str>, file: Option<&std::path::Path>| {
            let args = LedgerStoreArgs {
                store: Some("etcd://a:1".into()),
                store_user: user.map(str::to_owned),
                store_password_file: file.map(|file| file.display().to_string()),
                ..LedgerStoreArgs::default()
            };
            args.resolve(&mut Layers::from_parts([], None).unwrap())
        };
        std::fs::write(&file, "a word\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
        let (LedgerStore::Etcd(config), _) = resolve(Some("rustle"), Some(&file)).unwrap() else { panic!() };
        assert_eq!(config.user.unwrap().password.as_str(), "a word");
        assert!(resolve(Some("rustle"), None).unwrap_err().to_string().contains("both or neither"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(resolve(Some("rustle"), Some(&file)).unwrap_err().to_string().contains("mode"));
    }
}
