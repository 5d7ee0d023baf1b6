//! Where a coordinator that is measured keeps its ledger.

use std::path::Path;

use super::etcd::Etcd;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// A file of the coordinator's own.
    Redb,
    /// An etcd of one member, started for this.
    Etcd,
    /// An etcd that runs. Nothing may lie under its prefix.
    At(String),
}

/// `redb`, `etcd` or `etcd://…`.
pub fn parse(text: &str) -> Result<Store, String> {
    match text {
        "redb" => Ok(Store::Redb),
        "etcd" => Ok(Store::Etcd),
        url if url.starts_with("etcd://") => Ok(Store::At(url.to_owned())),
        _ => Err("allowed: redb, etcd (one of its own is started) or etcd://host:port[,host:port…][/prefix]"
            .into()),
    }
}

/// There as long as it is measured.
pub enum Kept {
    Redb,
    Etcd(Etcd),
    At(String),
}

impl Store {
    pub fn name(&self) -> &str {
        match self {
            Self::Redb => "redb",
            Self::Etcd => "etcd",
            Self::At(url) => url,
        }
    }

    /// What a coordinator should answer within at the ninety-ninth hundredth, in seconds.
    pub fn target(&self) -> f64 {
        match self {
            Self::Redb => 0.020,
            Self::Etcd | Self::At(_) => 0.100,
        }
    }

    /// Starts what has to run beside the coordinator.
    pub fn open(&self, folder: &Path) -> anyhow::Result<Kept> {
        Ok(match self {
            Self::Redb => Kept::Redb,
            Self::Etcd => Kept::Etcd(Etcd::start(folder)?),
            Self::At(url) => Kept::At(url.clone()),
        })
    }
}

impl Kept {
    /// For `rustle coordinator --store`.
    pub fn url(&self) -> String {
        match self {
            Self::Redb => "file".to_owned(),
            Self::Etcd(etcd) => etcd.url(),
            Self::At(url) => url.clone(),
        }
    }

    pub fn own(&self) -> Option<&Etcd> {
        match self {
            Self::Etcd(etcd) => Some(etcd),
            Self::Redb | Self::At(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_told_apart() {
        assert_eq!(parse("redb"), Ok(Store::Redb));
        assert_eq!(parse("etcd"), Ok(Store::Etcd));
        assert_eq!(parse("etcd://a:1/x"), Ok(Store::At("etcd://a:1/x".into())));
        assert!(parse("file").unwrap_err().contains("redb, etcd"));
    }
}
