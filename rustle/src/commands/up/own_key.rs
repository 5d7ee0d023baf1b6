//! The key of the job that `rustle up` runs.

use std::path::Path;

use anyhow::bail;
use ledger::Ledger;
use noise_kernel::JobKey;
use proto::JobId;

use crate::key_file;

/// Reads the named key before a cluster is begun.
///
/// # Errors
/// A file that can't be used. Nothing was written.
pub fn check(named: Option<&Path>) -> anyhow::Result<()> {
    named.map(key_file::read).transpose()?;
    Ok(())
}

/// Returns the key in `named`, or else the one in the cluster's folder, which is drawn where it is missing.
///
/// # Errors
/// A file that can't be used, and a key that is missing while the ledger has the job: another key would make other noise, and
/// would hide that the job's own one is lost.
pub fn key(named: Option<&Path>, dir: &Path, job: &JobId) -> anyhow::Result<JobKey> {
    if let Some(path) = named {
        return key_file::read(path);
    }
    let own = dir.join("job.key");
    if own.try_exists()? {
        return key_file::read(&own);
    }
    if let Some(record) = Ledger::open(&coordinator::ledger_file(&dir.join("coordinator")))?.job(job)? {
        bail!(
            "{} is missing, and the ledger has job {job}: restore the key, whose commitment is {}, or name its file by \
             --key-file",
            own.display(),
            hex::encode(record.key_commitment)
        );
    }
    key_file::create(&own)
}

#[cfg(test)]
mod tests {
    use plan::{Mechanism, Participation, Plan, PlanSpec};
    use proto::Nonce;

    use super::*;

    #[test]
    fn a_key_that_is_lost_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let data = dir.join("coordinator");
        coordinator::init_ledger(&data).unwrap();
        let name = JobId::new("default").unwrap();
        let drawn = key(None, dir, &name).unwrap();
        assert_eq!(key(None, dir, &name).unwrap().commitment(), drawn.commitment());

        let plan = Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: 10,
            noise_multiplier: 1.0,
            clip_norm: 1.0,
            participation: Participation { min_sep: 1, max_participations: 1 },
            mechanism: Mechanism::Identity,
            layout: None,
            grid: None,
        })
        .unwrap();
        let text = plan.to_toml_string().unwrap();
        let nonce = Nonce::from_bytes([1; 32]);
        let job =
            release::job::define(name.clone(), &plan, text, 1000, drawn.commitment(), 1, nonce).unwrap();
        let ledger = Ledger::open(&coordinator::ledger_file(&data)).unwrap();
        ledger.create_job(&job.record, &job.shards).unwrap();
        drop(ledger);
        let own = dir.join("job.key");
        let elsewhere = dir.join("elsewhere.key");
        std::fs::rename(&own, &elsewhere).unwrap();
        let refused = key(None, dir, &name).unwrap_err().to_string();
        assert!(refused.contains("job.key is missing"), "{refused}");
        assert!(refused.contains(&hex::encode(drawn.commitment())), "{refused}");
        assert!(!own.exists(), "a key was drawn");
        assert_eq!(key(Some(&elsewhere), dir, &name).unwrap().commitment(), drawn.commitment());
        key(None, dir, &JobId::new("another").unwrap()).unwrap();
    }
}
