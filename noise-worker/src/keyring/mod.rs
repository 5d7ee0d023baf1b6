//! The keys of a worker: a default key, and others by job.

use std::{collections::HashMap, fmt, path::PathBuf, sync::Mutex};

use noise_kernel::JobKey;
use proto::{JobId, ServiceError};

/// The keys of a worker. A job's key is `<dir>/<job>.key` where that file exists, else the default key.
pub struct Keyring {
    default: Option<JobKey>,
    dir: Option<PathBuf>,
    /// Keys read from the folder. The default key is not cached by job: a file that appears later takes precedence.
    read: Mutex<HashMap<JobId, JobKey>>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyring([secret])")
    }
}

impl Keyring {
    /// Returns the keyring of a default key and a folder of further keys.
    pub fn new(default: Option<JobKey>, dir: Option<PathBuf>) -> Self {
        Self { default, dir, read: Mutex::default() }
    }

    /// Returns the key of a job. Fails where there is none or its file can't be read.
    pub fn key(&self, job: &JobId) -> Result<JobKey, ServiceError> {
        let mut read = self.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(key) = read.get(job) {
            return Ok(key.clone());
        }
        let path = self.dir.as_ref().map(|dir| dir.join(format!("{job}.key"))).filter(|path| path.exists());
        let Some(path) = path else {
            let missing = || ServiceError::NotFound { what: "key for job".into(), name: job.to_string() };
            return self.default.clone().ok_or_else(missing);
        };
        let bytes = node::config::secrets::read_key_file(&path).map_err(ServiceError::internal)?;
        let key = JobKey::from_bytes(bytes.expose_secret()).map_err(ServiceError::internal)?;
        read.insert(job.clone(), key.clone());
        Ok(key)
    }

    /// Forgets the keys of all other jobs: a job that was destroyed ends with its key.
    pub(crate) fn keep(&self, is_held: impl Fn(&JobId) -> bool) {
        self.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|job, _| is_held(job));
    }
}

#[cfg(test)]
mod tests;
