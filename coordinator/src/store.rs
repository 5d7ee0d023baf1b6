//! Which store keeps the ledger.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::ensure;
use node::quantities::parse_duration;
use node::settings::Layers;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct StoreArgs {
    /// Where the ledger is: "file", which is in the data folder, or etcd://host:port[,host:port…][/prefix], for several
    /// coordinators that stand by each other [default: file]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// How long a leader that is gone is waited for, with etcd [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub store_lease: Option<String>,
    /// Folder of ca.pem, cert.pem and key.pem: what etcd is shown, and whom to trust in that
    #[arg(long, value_name = "DIR")]
    pub store_tls_dir: Option<String>,
    /// URL by which others reach this coordinator, where that is not the listening address
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
}

/// As resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// `ledger.redb` in the data folder.
    File,
    #[cfg(feature = "etcd")]
    Etcd(ledger::etcd::EtcdConfig),
}

impl StoreArgs {
    /// The store, and the URL to tell others.
    pub fn resolve(self, layers: &mut Layers) -> anyhow::Result<(Store, Option<String>)> {
        let url = layers.with_default("store", self.store, "file", String::from_str)?;
        let lease = layers.with_default("store_lease", self.store_lease, "5s", parse_duration)?;
        let tls_dir = layers.optional("store_tls_dir", self.store_tls_dir, PathBuf::from_str)?;
        let advertise = layers.optional("advertise", self.advertise, String::from_str)?;
        if url == "file" {
            ensure!(
                tls_dir.is_none(),
                "store_tls_dir is given, and store is \"file\"; allowed: etcd:// with it"
            );
            return Ok((Store::File, advertise));
        }
        Ok((etcd(&url, tls_dir, lease)?, advertise))
    }
}

#[cfg(feature = "etcd")]
fn etcd(url: &str, tls_dir: Option<PathBuf>, lease: Duration) -> anyhow::Result<Store> {
    use ledger::etcd::{EtcdConfig, EtcdTls};

    let tls = tls_dir.map(|dir| EtcdTls {
        ca: dir.join("ca.pem"),
        cert: dir.join("cert.pem"),
        key: dir.join("key.pem"),
    });
    Ok(Store::Etcd(EtcdConfig::parse(url, tls, lease)?))
}

#[cfg(not(feature = "etcd"))]
fn etcd(url: &str, _tls_dir: Option<PathBuf>, _lease: Duration) -> anyhow::Result<Store> {
    anyhow::bail!("store is {url:?}; allowed: \"file\", for this build was made without the feature `etcd`")
}

impl Store {
    /// Whether other coordinators have it too, so that nothing of the cluster may lie with one of them.
    pub fn is_shared(&self) -> bool {
        *self != Store::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(url: &str, tls_dir: Option<&str>) -> anyhow::Result<(Store, Option<String>)> {
        let store_tls_dir = tls_dir.map(str::to_owned);
        let args = StoreArgs { store: Some(url.to_owned()), store_tls_dir, ..StoreArgs::default() };
        args.resolve(&mut Layers::from_parts([], None)?)
    }

    #[test]
    fn a_file_is_the_default_and_has_no_tls() {
        let (store, advertise) =
            StoreArgs::default().resolve(&mut Layers::from_parts([], None).unwrap()).unwrap();
        assert_eq!((store, advertise), (Store::File, None));
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
        assert!(store.is_shared() && !Store::File.is_shared());
        let Store::Etcd(config) = store else { panic!("not in etcd") };
        assert_eq!(config.tls.unwrap().key, std::path::Path::new("/tls/key.pem"));
    }
}
