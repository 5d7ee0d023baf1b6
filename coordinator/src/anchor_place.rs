//! Whether a checkpoint store is elsewhere than the ledger.

use std::path::{Path, PathBuf};

use url::Url;

use crate::config::Settings;

/// Returns the URL of the checkpoint store, or why there is none that keeps an anchor: what is in the data folder goes back and is
/// cloned with the ledger, and knows no better. (So does another folder on the same volume, where all of that goes back.)
pub fn store_elsewhere(settings: &Settings) -> Result<String, &'static str> {
    let url = settings.checkpoint_url.clone().ok_or("checkpoints are turned off")?;
    let folder =
        Url::parse(&url).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
    let is_within = folder.is_some_and(|folder| resolved(&folder).starts_with(resolved(&settings.data_dir)));
    if is_within { Err("the checkpoint store is in the data folder") } else { Ok(url) }
}

/// Resolves links as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for known in path.ancestors() {
        if let Ok(known) = known.canonicalize() {
            return rest.iter().rev().fold(known, |path, name| path.join(name));
        }
        rest.extend(known.file_name());
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_the_data_folder_is_not_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(folder.path(), data.join("link")).unwrap();
        let settings = Settings::in_folder(&data).unwrap();
        let place = |url: String| {
            let settings = Settings { checkpoint_url: Some(url), ..settings.clone() };
            store_elsewhere(&settings).is_ok()
        };
        assert!(store_elsewhere(&settings).is_err(), "by default");
        assert!(store_elsewhere(&Settings { checkpoint_url: None, ..settings.clone() }).is_err());
        let under = |path: &Path| format!("file://{}", path.display());
        assert!(!place(under(&data.join("a/b"))));
        assert!(place(under(&data.join("link/b"))));
        assert!(place(under(&folder.path().join("data-2"))));
        assert!(place("s3://bucket/data".to_owned()));
    }
}
