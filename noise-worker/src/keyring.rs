//! The keys this worker holds: one by default, others by job.

use std::{collections::HashMap, fmt, path::PathBuf, sync::Mutex};

use noise_kernel::JobKey;
use proto::{JobId, ServiceError};

/// Finds a job's key: `<dir>/<job>.key` where a folder is given and has it, else the default key.
pub struct Keyring {
    default: Option<JobKey>,
    dir: Option<PathBuf>,
    read: Mutex<HashMap<JobId, JobKey>>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyring([secret])")
    }
}

impl Keyring {
    pub fn new(default: Option<JobKey>, dir: Option<PathBuf>) -> Self {
        Self { default, dir, read: Mutex::default() }
    }

    pub fn key(&self, job: &JobId) -> Result<JobKey, ServiceError> {
        let mut read = self.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(key) = read.get(job) {
            return Ok(key.clone());
        }
        let path = self.dir.as_ref().map(|dir| dir.join(format!("{job}.key"))).filter(|path| path.exists());
        let key = match (path, &self.default) {
            (Some(path), _) => {
                let bytes = node::secret_source::read_key_file(&path).map_err(ServiceError::internal)?;
                JobKey::from_bytes(bytes.expose_secret()).map_err(ServiceError::internal)?
            }
            (None, Some(key)) => key.clone(),
            (None, None) => {
                return Err(ServiceError::NotFound { what: "key for job".into(), name: job.to_string() });
            }
        };
        read.insert(job.clone(), key.clone());
        Ok(key)
    }
}
