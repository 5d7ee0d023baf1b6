//! Tests invariant N-3: the rows have the same bytes through every change of the cluster.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::time::Duration;

use tests::{assert_same_bits, flags, job, plans, sha256, start, start_with};

const DIMENSION: u64 = 3_700;

#[test]
fn any_number_of_shards_gives_the_oracles_bytes_for_every_mechanism() {
    for (shards, workers) in [(1, 1), (2, 1), (3, 2), (7, 3)] {
        let cluster = start(workers);
        for (index, plan) in plans().iter().enumerate() {
            let job = job(&format!("job-{index}"));
            cluster.create(&job, plan, DIMENSION, shards).unwrap();
            let rows = cluster.fetch(&job, 0..plan.iterations(), 0..DIMENSION).unwrap();
            let all = cluster.expected(&job, plan, 0..plan.iterations(), 0..DIMENSION);
            assert_eq!(sha256(&rows), sha256(&all), "{} on {shards} shards", plan.mechanism().name());
        }
    }
}

#[test]
fn rows_in_any_order_and_any_range() {
    let cluster = start(2);
    let plan = &plans()[3];
    let job = job("order");
    cluster.create(&job, plan, DIMENSION, 3).unwrap();
    let requests = [
        (5..9, 0..3_700),
        (0..3, 511..513),
        (30..31, 100..3_699),
        (2..12, 0..1),
        (39..40, 0..3_700),
        (8..9, 7..2_000),
    ];
    for (rows, range) in requests {
        let got = cluster.fetch(&job, rows.clone(), range.clone()).unwrap();
        assert_same_bits(&got, &cluster.expected(&job, plan, rows, range));
    }
}

#[test]
fn resharding_in_mid_run_changes_no_byte() {
    let cluster = start(3);
    for plan in plans() {
        let job = job(&format!("reshard-{}", hex::encode(&plan.digest()[..4])));
        cluster.create(&job, &plan, DIMENSION, 2).unwrap();
        let mut rows = cluster.fetch(&job, 0..11, 0..DIMENSION).unwrap();
        for (shards, to) in [(7, 20), (1, 31), (3, 40)] {
            let status = cluster.runtime.block_on(cluster.client.jobs().reshard(&job, shards)).unwrap();
            assert_eq!(status.shards, shards);
            rows.extend(cluster.fetch(&job, rows.len() as u64..to, 0..DIMENSION).unwrap());
        }
        assert_same_bits(&rows, &cluster.expected(&job, &plan, 0..40, 0..DIMENSION));
    }
}

#[test]
fn a_killed_worker_costs_time_and_no_byte() {
    let mut cluster = start(3);
    let plan = &plans()[3];
    let job = job("kill");
    cluster.create(&job, plan, DIMENSION, 7).unwrap();
    let mut rows = cluster.fetch(&job, 0..10, 0..DIMENSION).unwrap();
    cluster.cluster.kill_worker(0).unwrap();
    rows.extend(cluster.fetch(&job, 10..15, 0..DIMENSION).unwrap());
    cluster.cluster.kill_worker(2).unwrap();
    rows.extend(cluster.fetch(&job, 15..22, 0..DIMENSION).unwrap());
    cluster.cluster.start_worker(0).unwrap();
    cluster.cluster.kill_worker(1).unwrap();
    rows.extend(cluster.fetch(&job, 22..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
}

#[test]
fn a_worker_restored_from_a_checkpoint_goes_on_with_the_same_bytes() {
    let mut cluster = start(2);
    for (index, plan) in plans().iter().enumerate() {
        let job = job(&format!("restore-{index}"));
        cluster.create(&job, plan, DIMENSION, 3).unwrap();
        let mut rows = cluster.fetch(&job, 0..17, 0..DIMENSION).unwrap();
        let checkpoint = cluster.runtime.block_on(cluster.client.jobs().checkpoint(&job)).unwrap();
        assert_eq!(checkpoint.shards, 3);
        assert!(checkpoint.next_row >= 17, "{checkpoint:?}");
        cluster.cluster.kill_worker(0).unwrap();
        cluster.cluster.kill_worker(1).unwrap();
        cluster.cluster.start_worker(0).unwrap();
        cluster.cluster.start_worker(1).unwrap();
        rows.extend(cluster.fetch(&job, 17..40, 0..DIMENSION).unwrap());
        assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
        cluster.runtime.block_on(cluster.client.jobs().destroy(&job)).unwrap();
    }
}

#[test]
fn a_checkpoint_also_serves_other_shards() {
    let mut cluster = start(2);
    let plan = &plans()[3];
    let job = job("restore-reshard");
    cluster.create(&job, plan, DIMENSION, 2).unwrap();
    let mut rows = cluster.fetch(&job, 0..17, 0..DIMENSION).unwrap();
    cluster.runtime.block_on(cluster.client.jobs().reshard(&job, 5)).unwrap();
    cluster.cluster.kill_worker(1).unwrap();
    rows.extend(cluster.fetch(&job, 17..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
}

#[test]
fn a_damaged_checkpoint_is_noticed_and_the_key_suffices() {
    let mut cluster = start(1);
    let plan = &plans()[3];
    let job = job("damaged");
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    let mut rows = cluster.fetch(&job, 0..17, 0..DIMENSION).unwrap();
    cluster.runtime.block_on(cluster.client.jobs().checkpoint(&job)).unwrap();
    damage(cluster.dir.path());
    cluster.cluster.kill_worker(0).unwrap();
    cluster.cluster.start_worker(0).unwrap();
    rows.extend(cluster.fetch(&job, 17..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
    let log = std::fs::read_to_string(cluster.cluster.worker(0).unwrap().log()).unwrap();
    assert!(log.contains("checkpoint not usable"), "the damage must be reported:\n{log}");
}

/// Flips one bit in the middle of every shard object.
fn damage(dir: &std::path::Path) {
    let mut damaged = 0;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "shard") {
                let mut bytes = std::fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                std::fs::write(&path, bytes).unwrap();
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0, "no shard object found");
}

#[test]
fn a_killed_coordinator_comes_back_with_bindings_and_bytes() {
    let mut cluster = start(2);
    let plan = &plans()[4];
    let job = job("coordinator");
    cluster.create(&job, plan, DIMENSION, 3).unwrap();
    let mut rows = cluster.fetch(&job, 0..17, 0..DIMENSION).unwrap();
    cluster.cluster.kill_coordinator().unwrap();
    cluster.cluster.start_coordinator().unwrap();
    let again = cluster.fetch(&job, 3..17, 0..DIMENSION).unwrap();
    assert_same_bits(&again, &rows[3..]);
    let other = vec!["another gradient".to_owned()];
    let refused = cluster.fetch_bound(&job, 5..6, 0..DIMENSION, other, Duration::from_secs(5)).unwrap_err();
    assert_eq!(refused.kind(), "already_bound", "{refused}");
    rows.extend(cluster.fetch(&job, 17..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
}

#[test]
fn threads_and_rows_ahead_change_no_byte() {
    for (threads, ahead) in [(1, "1"), (2, "3"), (3, "40")] {
        let cluster = start_with(1, |options| {
            options.threads_per_worker = threads;
            options.worker_flags = flags(&["--ahead-rows", ahead]);
        });
        let plan = &plans()[5];
        let job = job("threads");
        cluster.create(&job, plan, DIMENSION, 2).unwrap();
        let rows = cluster.fetch(&job, 0..40, 0..DIMENSION).unwrap();
        assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
    }
}

#[test]
fn two_jobs_at_once_do_not_disturb_each_other() {
    let cluster = start(2);
    let a = job("a");
    let b = job("b");
    let plan_a = &plans()[3];
    let plan_b = &plans()[1];
    cluster.create(&a, plan_a, DIMENSION, 3).unwrap();
    cluster.create(&b, plan_b, 1_025, 2).unwrap();
    let mut rows_a = vec![];
    let mut rows_b = vec![];
    for step in 0..20 {
        rows_a.extend(cluster.fetch(&a, step..step + 1, 0..DIMENSION).unwrap());
        rows_b.extend(cluster.fetch(&b, step * 2..step * 2 + 2, 0..1_025).unwrap());
    }
    assert_same_bits(&rows_a, &cluster.expected(&a, plan_a, 0..20, 0..DIMENSION));
    assert_same_bits(&rows_b, &cluster.expected(&b, plan_b, 0..40, 0..1_025));
}
