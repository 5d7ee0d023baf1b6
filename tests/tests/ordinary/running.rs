//! Operations on a cluster that runs.

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use tests::{TestCluster, job, plans, program};

use super::{DIMENSION, check_calm, name, start_in, train};

/// Does the operation after the first rows of a job, and checks that all is well after it.
#[track_caller]
fn calm_after(allowed: &[&str], operation: impl FnOnce(&mut TestCluster)) {
    let outer = TempDir::new().unwrap();
    let mut cluster = start_in(&outer.path().join("run"));
    train(&cluster);
    operation(&mut cluster);
    check_calm(&cluster, allowed);
}

#[test]
fn a_coordinator_that_is_killed_and_started() {
    calm_after(&[], |cluster| {
        cluster.cluster.kill_coordinator().unwrap();
        cluster.cluster.start_coordinator().unwrap();
    });
}

#[test]
fn a_worker_that_is_killed_and_started() {
    calm_after(&[], |cluster| {
        cluster.cluster.kill_worker(0).unwrap();
        cluster.cluster.start_worker(0).unwrap();
    });
}

#[test]
fn a_worker_that_is_drained_and_started() {
    calm_after(&[], |cluster| {
        cluster.cluster.stop_worker(1).unwrap();
        cluster.cluster.start_worker(1).unwrap();
    });
}

#[test]
fn a_worker_whose_disk_is_lost() {
    calm_after(&[], |cluster| {
        cluster.cluster.kill_worker(0).unwrap();
        fs::remove_dir_all(cluster.cluster.dir().join("workers/worker-0")).unwrap();
        cluster.cluster.start_worker(0).unwrap();
    });
}

#[test]
fn a_worker_that_is_replaced_by_one_of_another_name() {
    calm_after(&["worker_gone"], |cluster| {
        cluster.cluster.kill_worker(0).unwrap();
        cluster.cluster.add_worker().unwrap();
    });
}

#[test]
fn a_worker_that_is_added() {
    calm_after(&[], |cluster| {
        cluster.cluster.add_worker().unwrap();
    });
}

#[test]
fn all_processes_that_are_killed_and_started() {
    calm_after(&[], |cluster| {
        for worker in 0..2 {
            cluster.cluster.kill_worker(worker).unwrap();
        }
        cluster.cluster.kill_coordinator().unwrap();
        cluster.cluster.start_coordinator().unwrap();
        for worker in 0..2 {
            cluster.cluster.start_worker(worker).unwrap();
        }
    });
}

#[test]
fn a_backup_that_is_taken_and_kept_elsewhere() {
    let elsewhere = TempDir::new().unwrap();
    calm_after(&[], |cluster| {
        let data = cluster.cluster.dir().join("coordinator");
        let mut backup = Command::new(program());
        backup.args(["ledger", "backup", "--data-dir"]).arg(data).arg("--out");
        let output = backup.arg(elsewhere.path().join("ledger.redb")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        cluster.cluster.kill_coordinator().unwrap();
        cluster.cluster.start_coordinator().unwrap();
    });
}

#[test]
fn a_checkpoint_that_a_new_worker_reads() {
    calm_after(&[], |cluster| {
        cluster.runtime.block_on(cluster.client.jobs().checkpoint(&name())).unwrap();
        cluster.cluster.kill_worker(1).unwrap();
        fs::remove_dir_all(cluster.cluster.dir().join("workers/worker-1")).unwrap();
        cluster.cluster.start_worker(1).unwrap();
    });
}

#[test]
fn another_job_that_comes_and_is_finished() {
    calm_after(&[], |cluster| {
        let other = job("another");
        cluster.create(&other, &plans()[0], DIMENSION, 1).unwrap();
        cluster.fetch(&other, 0..2, 0..DIMENSION).unwrap();
        cluster.runtime.block_on(cluster.client.jobs().finish(&other)).unwrap();
        cluster.cluster.kill_coordinator().unwrap();
        cluster.cluster.start_coordinator().unwrap();
    });
}

#[test]
fn shards_that_are_cut_anew() {
    calm_after(&[], |cluster| {
        cluster.runtime.block_on(cluster.client.jobs().reshard(&name(), 4)).unwrap();
    });
}

#[test]
fn logs_that_are_removed() {
    calm_after(&[], |cluster| {
        for log in [cluster.cluster.coordinator().unwrap(), cluster.cluster.worker(0).unwrap()] {
            fs::remove_file(log.log()).unwrap();
        }
        cluster.cluster.kill_worker(0).unwrap();
        cluster.cluster.start_worker(0).unwrap();
    });
}
