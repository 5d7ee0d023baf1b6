//! Starts of a coordinator: on its own ledger and no other, and with the credentials that etcd requires.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustle::cluster::{ClusterOptions, Process};
use tempfile::TempDir;
use tests::{
    etcd::{Etcd, Security},
    etcd_tls::Authority,
    flags, job, plans, program,
};

use crate::{TIMEOUT, cluster::Cluster};

/// Wherever the process dies, the next start knows which ledger the data folder belongs to and accepts no other.
#[test]
fn a_coordinator_that_dies_while_it_records_its_ledger_restarts_on_that_ledger_alone() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    let etcd = Etcd::start(1);
    let other = Etcd::start(1);
    for (point, is_recorded) in [
        ("begin", false),
        ("written", false),
        ("before_rename", false),
        ("after_rename", true),
        ("end", true),
    ] {
        let dir = TempDir::new().unwrap();
        let armed = dir.path().join("armed");
        let data = dir.path().join("data");
        let mut options = ClusterOptions::new(program(), dir.path().to_owned(), 0);
        options.environment.push(("RUSTLE_END_AT".to_owned(), armed.display().to_string()));
        let start = |store: &str| {
            let mut of_coordinator = flags(&["coordinator", "--listen", "127.0.0.1:0", "--store", store]);
            of_coordinator.extend(["--data-dir".to_owned(), data.display().to_string()]);
            of_coordinator.extend(flags(&["--checkpoint-url", "none"]));
            Process::start(&options, "coordinator", of_coordinator, None)
        };
        let store = etcd.url(point);
        let path = data.join("etcd-ledger");
        fs::write(&armed, format!("etcd_ledger::create::{point} 0")).unwrap();
        start(&store).expect_err("it must die at the armed point");
        assert!(!armed.exists(), "it died before {point}");
        assert_eq!(path.exists(), is_recorded, "{point}");
        drop(start(&store).unwrap());
        let recorded = fs::read_to_string(&path).unwrap();
        let there = etcd.control(&["get", "--print-value-only", &format!("{point}/ledger")]);
        assert!(
            recorded.len() > 8 && there.contains(&recorded),
            "{point}: {recorded:?} is recorded, and etcd has {there}"
        );
        let error = format!("{:#}", start(&other.url(point)).expect_err("it accepted another ledger"));
        assert!(error.contains("another cluster's store"), "{point}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), recorded, "{point}");
    }
}

#[test]
fn a_restored_snapshot_binds_nothing_where_the_data_folder_has_seen_more() {
    let mut etcd = Etcd::start(1);
    let store = etcd.url("restored");
    let mut cluster = Cluster::start(std::slice::from_ref(&store));
    let job = job("restored");
    cluster.create(&job, &plans()[3]);
    cluster.bind_at(0, &job, 0, "a").unwrap();
    let folder = TempDir::new().unwrap();
    let snapshot = folder.path().join("snapshot");
    etcd.control(&["snapshot", "save", snapshot.to_str().unwrap()]);
    cluster.bind_at(0, &job, 1, "b").unwrap();
    let address = cluster.urls[0].trim_start_matches("http://").to_owned();
    let kill = |cluster: &mut Cluster| cluster.coordinators[0].take().unwrap().kill().unwrap();
    let start = |cluster: &mut Cluster| {
        let started = cluster.start_coordinator(0, &address, &store);
        cluster.coordinators[0] = Some(started);
        cluster.wait_until("the coordinator leads", |cluster| cluster.leads(0));
    };
    kill(&mut cluster);
    start(&mut cluster);
    cluster.bind_at(0, &job, 2, "c").expect("a restart raises no alarm");
    kill(&mut cluster);
    etcd.restore(&snapshot);
    start(&mut cluster);
    let refused = cluster.bind_at(0, &job, 1, "another").unwrap_err();
    let said = refused.to_string();
    assert!(refused.kind() == "ledger_copied" && said.contains("etcd-ledger.seen"), "{said}");
    assert!(said.contains("entries of its chains"), "{said}");
    let status = cluster.status(0);
    assert_eq!(status["problems"][0]["kind"], "ledger_copied", "{status}");
}

#[test]
fn a_coordinator_authenticates_at_etcd_with_certificate_and_password() {
    let dir = TempDir::new().unwrap();
    let authority = Authority::generate();
    let server = authority.issue(dir.path(), "server");
    let ours = authority.issue(dir.path(), "coordinator");
    let etcd = Etcd::start_secured(1, Security { dir: server, asks_clients: true });
    etcd.ask_for_passwords("rustle", "correct horse", "asks/");
    let options = ClusterOptions::new(program(), dir.path().to_owned(), 0);
    let start = |name: &str, tls: &Path, password: &str| {
        let file = dir.path().join(format!("{name}.password"));
        fs::write(&file, password).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        let data = dir.path().join(name);
        let mut of_coordinator = flags(&[
            "coordinator",
            "--listen",
            "127.0.0.1:0",
            "--store",
            &etcd.url("asks"),
            "--store-user",
            "rustle",
        ]);
        for (flag, path) in
            [("--store-tls-dir", tls), ("--store-password-file", &file), ("--data-dir", &data)]
        {
            of_coordinator.extend([flag.to_owned(), path.display().to_string()]);
        }
        of_coordinator.extend(flags(&["--checkpoint-url", "none", "--log-filter", "trace"]));
        Process::start(&options, name, of_coordinator, None)
    };
    let coordinator = start("leads", &ours, "correct horse").unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let status = || tests::get(coordinator.metrics(), "/status");
    let leads = |status: &str| {
        let status: serde_json::Value = serde_json::from_str(status).unwrap();
        status["coordinator_epoch"].is_u64()
    };
    while !leads(&status()) {
        assert!(Instant::now() < deadline, "the coordinator does not lead: {}", status());
        thread::sleep(Duration::from_millis(20));
    }
    let foreign = Authority::generate().issue(dir.path(), "foreign");
    for (name, tls, password, reason) in [
        ("wrong-password", &ours, "wrong horse", "authentication failed"),
        ("foreign-certificate", &foreign, "correct horse", "invalid peer certificate"),
    ] {
        let Err(error) = start(name, tls, password) else { panic!("{name}: etcd accepted the coordinator") };
        let error = format!("{error:#}");
        assert!(error.contains(reason), "{name}: {error}");
        let log = fs::read_to_string(dir.path().join(format!("{name}.log"))).unwrap_or_default();
        assert!(
            !error.contains("horse") && !log.contains("horse"),
            "{name}: a password is in the log or the error"
        );
    }
    let log = fs::read_to_string(coordinator.log()).unwrap();
    assert!(log.len() > 1_000 && !log.contains("correct horse"), "a password is in the log or the error");
}
