use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::*;

fn put(dir: &Path, job: &JobId, bytes: u8) {
    let path = dir.join(format!("{job}.key"));
    fs::write(&path, secret(bytes)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
}

/// 32 different bytes, from this one on.
fn secret(first: u8) -> [u8; 32] {
    std::array::from_fn(|at| first + at as u8)
}

fn of(bytes: u8) -> [u8; 32] {
    JobKey::from_bytes(&secret(bytes)).unwrap().commitment()
}

#[test]
fn a_jobs_file_counts_from_when_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let job = JobId::new("job").unwrap();
    let default = JobKey::from_bytes(&secret(1)).unwrap();
    let keyring = Keyring::new(Some(default), Some(dir.path().to_owned()));
    assert_eq!(keyring.key(&job).unwrap().commitment(), of(1));
    put(dir.path(), &job, 2);
    assert_eq!(keyring.key(&job).unwrap().commitment(), of(2));
}

#[test]
fn a_key_is_forgotten_with_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let job = JobId::new("job").unwrap();
    let keyring = Keyring::new(None, Some(dir.path().to_owned()));
    put(dir.path(), &job, 2);
    keyring.key(&job).unwrap();
    fs::remove_file(dir.path().join("job.key")).unwrap();
    keyring.keep(|held| *held == job);
    assert_eq!(keyring.key(&job).unwrap().commitment(), of(2), "it is held still");
    keyring.keep(|_| false);
    assert_eq!(keyring.key(&job).unwrap_err().kind(), "not_found");
}
