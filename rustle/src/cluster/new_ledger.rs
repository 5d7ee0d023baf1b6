//! The ledger of a new cluster, begun where its folder holds nothing of an earlier one.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::ClusterOptions;

/// Begins the cluster's ledger in its folder, unless it has one there or in etcd.
///
/// # Errors
/// The ledger is missing beside a key, an anchor or a worker's record: they belong to an earlier ledger, which knows what was
/// released.
pub fn begin_ledger(options: &ClusterOptions) -> anyhow::Result<()> {
    let folder = options.dir.join("coordinator");
    let ledger = coordinator::ledger_file(&folder);
    let is_elsewhere = options.coordinator_flags.iter().any(|flag| flag == "--store");
    if is_elsewhere || ledger.try_exists()? {
        return Ok(());
    }
    if let Some(trace) = trace_of_earlier(&options.dir) {
        bail!(
            "{} is missing, and {} is of an earlier ledger, which knew what was released: restore the ledger from a \
             copy that is not older than the last released row, or take an empty folder. Only where no row of that \
             ledger was ever used, {}begin a new one: rustle ledger init --data-dir {}",
            ledger.display(),
            trace.display(),
            // Beside an anchor none is begun.
            anchor(&options.dir).map_or(String::new(), |path| format!("move {} away, and ", path.display())),
            folder.display(),
        );
    }
    coordinator::init_ledger(&folder)?;
    Ok(())
}

/// Returns a file that an earlier run with a ledger left in the cluster's folder.
fn trace_of_earlier(dir: &Path) -> Option<PathBuf> {
    let key = dir.join("job.key");
    if key.exists() {
        return Some(key);
    }
    anchor(dir).or_else(|| entries(dir, "workers").next())
}

/// Returns the anchor of an earlier ledger of the cluster.
fn anchor(dir: &Path) -> Option<PathBuf> {
    entries(dir, "coordinator").find(|path| path.to_string_lossy().contains("ledger.redb.anchor-"))
}

fn entries(dir: &Path, folder: &str) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir.join(folder)).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(dir: &Path) -> anyhow::Result<()> {
        begin_ledger(&ClusterOptions::new(PathBuf::from("rustle"), dir.to_owned(), 1))
    }

    #[test]
    fn a_ledger_that_is_gone_is_not_begun_anew() {
        for trace in ["job.key", "workers/worker-0/released.log", "coordinator/ledger.redb.anchor-00"] {
            let folder = tempfile::tempdir().unwrap();
            begun(folder.path()).unwrap();
            begun(folder.path()).unwrap();
            let ledger = folder.path().join("coordinator/ledger.redb");
            assert!(ledger.exists());
            let path = folder.path().join(trace);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            begun(folder.path()).unwrap();
            std::fs::remove_file(&ledger).unwrap();
            let error = begun(folder.path()).unwrap_err().to_string();
            assert!(error.contains("is missing") && error.contains("ledger init"), "{error}");
            assert!(!ledger.exists());
            // What it says to do is enough.
            let anchors = std::fs::read_dir(folder.path().join("coordinator")).unwrap().flatten();
            for anchor in
                anchors.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(".anchor-"))
            {
                assert!(error.contains(&format!("move {} away", anchor.display())), "{error}");
                std::fs::remove_file(anchor).unwrap();
            }
            coordinator::init_ledger(&folder.path().join("coordinator")).unwrap();
            begun(folder.path()).unwrap();
        }
    }
}
