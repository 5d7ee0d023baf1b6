//! Two coordinators over a real etcd, with workers and a training job: leaders and etcd's members are killed, stopped
//! and cut off. No row is bound twice or lost, every byte is the oracle's, and training goes on.
//! `make test-etcd` prints how long each change of hands took.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use client::{Client, FetchRequest};
use ledger::Event;
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{Commitment, CoordinateRange, JobId, RowRange, ServiceError, pb};
use rustix::process::{Pid, Signal, kill_process};
use rustle::cluster::{ClusterOptions, Process};
use tempfile::TempDir;
use tests::{
    KEY, assert_same_bits,
    etcd::{Cable, Etcd, Security},
    etcd_tls::Authority,
    expected, flags, job, plans, program,
};

const DIMENSION: u64 = 2_000;
const ROWS: u64 = 40;
/// When the training job is so far, something happens.
const FAULT_AT: u64 = 12;
const LEASE: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(60);

struct Cluster {
    coordinators: Vec<Option<Process>>,
    urls: Vec<String>,
    _workers: Vec<Process>,
    runtime: Arc<Runtime>,
    options: ClusterOptions,
    _dir: TempDir,
}

impl Cluster {
    /// One coordinator for each store, the first of which leads, and two workers.
    fn start(stores: &[String]) -> Self {
        let dir = TempDir::new().unwrap();
        let options = ClusterOptions::new(program(), dir.path().to_owned(), 2);
        let runtime = Arc::new(Runtime::new().unwrap());
        let mut cluster =
            Self { coordinators: vec![], urls: vec![], _workers: vec![], runtime, options, _dir: dir };
        for store in stores {
            let started = cluster.start_coordinator(cluster.urls.len(), "127.0.0.1:0", store);
            cluster.urls.push(started.grpc().to_owned());
            cluster.coordinators.push(Some(started));
            cluster.wait_until("the first coordinator leads", |cluster| cluster.leads(0));
        }
        for index in 0..2 {
            let name = format!("worker-{index}");
            let mut of_worker = flags(&["worker", "--threads", "1", "--key-fd", "0", "--name", &name]);
            of_worker.extend(["--coordinator".to_owned(), cluster.urls.join(",")]);
            let state = cluster.options.dir.join(&name);
            of_worker.extend(["--state-dir".to_owned(), state.display().to_string()]);
            let worker = Process::start(&cluster.options, &name, of_worker, Some(&KEY)).unwrap();
            cluster._workers.push(worker);
        }
        cluster
    }

    fn start_coordinator(&self, index: usize, listen: &str, store: &str) -> Process {
        let name = format!("coordinator-{index}");
        let mut of_coordinator = flags(&["coordinator", "--listen", listen, "--store", store]);
        let data = self.options.dir.join(&name);
        of_coordinator.extend(["--data-dir".to_owned(), data.display().to_string()]);
        of_coordinator.extend(flags(&["--leader-lease-ttl", "3s", "--checkpoint-url", "none"]));
        of_coordinator.extend(flags(&["--heartbeat", "50ms", "--lease-ttl", "700ms"]));
        Process::start(&self.options, &name, of_coordinator, None).unwrap()
    }

    fn status(&self, index: usize) -> serde_json::Value {
        let process = self.coordinators[index].as_ref().unwrap();
        serde_json::from_str(&tests::get(process.metrics(), "/status")).unwrap()
    }

    fn leads(&self, index: usize) -> bool {
        self.status(index)["coordinator_epoch"].is_u64()
    }

    fn wait_until(&self, what: &str, mut happened: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !happened(self) {
            assert!(Instant::now() < deadline, "after {TIMEOUT:?} not yet: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, index: usize, signal: Signal) {
        let pid = self.coordinators[index].as_ref().unwrap().pid();
        kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
    }

    fn client(&self) -> Client {
        let _inside = self.runtime.enter();
        Client::connect(&self.urls.join(",")).unwrap()
    }

    fn create(&self, job: &JobId, plan: &Plan) {
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string().unwrap(),
            dimension: DIMENSION,
            shards: 2,
            key_commitment: JobKey::from_bytes(&KEY).unwrap().commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
        };
        self.runtime.block_on(self.client().jobs().create(request)).unwrap();
    }

    /// Calls this coordinator and no other, like a client that does not follow the leader.
    fn bind_at(&self, index: usize, job: &JobId, row: u64, text: &str) -> Result<usize, ServiceError> {
        let request = pb::BindRequest {
            job: job.to_string(),
            branch: 0,
            rows: Some(pb::RowRange { start: row, end: row + 1 }),
            commitments: vec![Commitment::of_text(text).to_bytes().to_vec()],
            range: None,
        };
        let url = self.urls[index].clone();
        self.runtime.block_on(async {
            let unreachable =
                |error: tonic::transport::Error| ServiceError::Unavailable { what: error.to_string() };
            let mut noise = pb::noise_client::NoiseClient::connect(url).await.map_err(unreachable)?;
            let answer = noise.bind(request).await.map_err(client::from_status)?;
            Ok(answer.into_inner().tokens.len())
        })
    }
}

/// A job that takes one row after the other.
struct Training {
    done: Arc<AtomicU64>,
    thread: JoinHandle<(Vec<Vec<f32>>, Duration)>,
}

impl Training {
    fn start(cluster: &Cluster, job: &JobId) -> Self {
        let client = cluster.client();
        let runtime = cluster.runtime.clone();
        let job = job.clone();
        let done = Arc::new(AtomicU64::new(0));
        let progress = done.clone();
        let thread = thread::spawn(move || {
            let mut taken = Vec::new();
            let mut longest = Duration::ZERO;
            let mut last = Instant::now();
            for row in 0..ROWS {
                let mut out = vec![f32::NAN; DIMENSION as usize];
                let request = FetchRequest {
                    job: job.clone(),
                    branch: 0,
                    rows: RowRange::new(row, row + 1).unwrap(),
                    range: CoordinateRange::new(0, DIMENSION).unwrap(),
                    commitments: vec![Commitment::of_text(&format!("step {row}"))],
                    deadline: (Instant::now() + TIMEOUT).into(),
                };
                runtime.block_on(client.fetch(request).into_slice(&mut out)).unwrap();
                taken.push(out);
                longest = longest.max(last.elapsed());
                progress.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(50));
                last = Instant::now();
            }
            (taken, longest)
        });
        Self { done, thread }
    }

    fn wait_for(&self, rows: u64) {
        let deadline = Instant::now() + TIMEOUT;
        while self.done.load(Ordering::SeqCst) < rows {
            assert!(!self.thread.is_finished() || self.done.load(Ordering::SeqCst) >= rows, "training ended");
            assert!(Instant::now() < deadline, "training does not get to row {rows}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// All rows are the oracle's, and each is bound once, to what the job gave.
    fn finish(self, cluster: &Cluster, job: &JobId, plan: &Plan, what: &str) {
        let (taken, longest) = self.thread.join().unwrap();
        assert_same_bits(&taken, &expected(job, plan, 0..ROWS, 0..DIMENSION));
        let entries = cluster.runtime.block_on(cluster.client().jobs().entries(job)).unwrap();
        let mut bound = BTreeMap::new();
        for entry in entries {
            if let Event::Bound { rows, .. } = serde_json::from_str(&entry.event).unwrap() {
                for row in rows {
                    assert_eq!(
                        bound.insert(row.row, row.commitment),
                        None,
                        "row {} was bound twice",
                        row.row
                    );
                }
            }
        }
        let expected = (0..ROWS).map(|row| (row, Commitment::of_text(&format!("step {row}"))));
        assert!(bound.into_iter().eq(expected), "other rows are bound than were trained with");
        println!("{what}: the longest wait for a row was {:.1} s (lease {LEASE:?})", longest.as_secs_f64());
    }
}

#[test]
fn the_leader_is_killed_and_later_its_successor_too() {
    let etcd = Etcd::start(1);
    let store = etcd.url("killed");
    let mut cluster = Cluster::start(&[store.clone(), store.clone()]);
    let job = job("killed");
    let plan = &plans()[3];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    let first = cluster.status(0)["coordinator_epoch"].as_u64().unwrap();
    cluster.coordinators[0].take().unwrap().kill().unwrap();
    cluster.wait_until("the other coordinator leads", |cluster| cluster.leads(1));
    assert!(
        cluster.status(1)["coordinator_epoch"].as_u64().unwrap() > first,
        "the epoch rises with each leader"
    );
    let address = cluster.urls[0].trim_start_matches("http://").to_owned();
    cluster.coordinators[0] = Some(cluster.start_coordinator(0, &address, &store));
    training.wait_for(2 * FAULT_AT);
    cluster.coordinators[1].take().unwrap().kill().unwrap();
    training.finish(&cluster, &job, plan, "leader killed, twice");
}

#[test]
fn a_leader_that_was_stopped_past_its_lease_releases_nothing() {
    let etcd = Etcd::start(1);
    let store = etcd.url("stopped");
    let cluster = Cluster::start(&[store.clone(), store]);
    let job = job("stopped");
    let plan = &plans()[4];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    cluster.signal(0, Signal::STOP);
    thread::scope(|scope| {
        // It waits at the stopped one's door, and is answered when that goes on.
        let thief = scope.spawn(|| cluster.bind_at(0, &job, ROWS - 1, "thief"));
        cluster.wait_until("the other coordinator leads", |cluster| cluster.leads(1));
        training.wait_for(FAULT_AT + 4);
        cluster.signal(0, Signal::CONT);
        thief.join().unwrap().expect_err("a leader of before has bound a row");
    });
    // Whatever it does next, also while it finds out: nothing is released.
    cluster.wait_until("the one that was stopped stands by", |cluster| {
        // A row that is bound already is no better.
        let again = cluster.bind_at(0, &job, 0, "step 0").expect_err("a leader of before has released a row");
        matches!(again, ServiceError::NotLeader { leader } if leader == cluster.urls[1])
    });
    training.finish(&cluster, &job, plan, "leader stopped, then continued");
    assert!(cluster.leads(1) && !cluster.leads(0));
}

#[test]
fn etcd_is_killed_for_longer_than_the_lease() {
    let mut etcd = Etcd::start(1);
    let store = etcd.url("outage");
    let cluster = Cluster::start(&[store.clone(), store]);
    let job = job("outage");
    let plan = &plans()[8];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    etcd.kill(0);
    cluster.wait_until("nobody leads", |cluster| !cluster.leads(0) && !cluster.leads(1));
    let before = training.done.load(Ordering::SeqCst);
    thread::sleep(LEASE);
    assert!(training.done.load(Ordering::SeqCst) <= before + 1, "rows were released without etcd");
    etcd.restart(0);
    training.finish(&cluster, &job, plan, "etcd killed, and started again after a lease");
}

#[test]
fn a_leader_that_is_cut_off_from_etcd_is_replaced() {
    let etcd = Etcd::start(1);
    let cable = Cable::to(etcd.address(0));
    let cluster = Cluster::start(&[format!("etcd://{}/cut", cable.address()), etcd.url("cut")]);
    let job = job("cut");
    let plan = &plans()[9];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    cable.cut();
    cluster.wait_until("the other coordinator leads", |cluster| {
        let old = cluster.leads(0);
        let new = cluster.leads(1);
        assert!(!(old && new), "two coordinators lead");
        new
    });
    cluster.bind_at(0, &job, ROWS - 1, "thief").expect_err("a row was bound without etcd");
    cable.mend();
    training.finish(&cluster, &job, plan, "leader cut off from etcd");
    cluster.wait_until("the one that was cut off knows who leads", |cluster| {
        cluster.status(0)["leader"] == cluster.urls[1].as_str()
    });
}

#[test]
fn one_member_of_three_may_be_lost() {
    let mut etcd = Etcd::start(3);
    let store = etcd.url("members");
    let cluster = Cluster::start(&[store.clone(), store]);
    let job = job("members");
    let plan = &plans()[3];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    // Each in turn: so etcd's own leader, and the member that the coordinator talks to, are among them.
    for member in 0..3 {
        training.wait_for(FAULT_AT * member as u64 / 2 + 6);
        etcd.kill(member);
        training.wait_for(FAULT_AT * member as u64 / 2 + 10);
        etcd.restart(member);
    }
    training.finish(&cluster, &job, plan, "each member of three killed in turn");
}

/// Wherever it ends: the next start knows which ledger the folder belongs to, and takes no other.
#[test]
fn a_coordinator_that_ends_as_it_notes_its_ledger_starts_again_on_it_alone() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    let etcd = Etcd::start(1);
    let other = Etcd::start(1);
    for (point, is_noted) in [
        ("begin", false),
        ("written", false),
        ("before_rename", false),
        ("after_rename", true),
        ("end", true),
    ] {
        let dir = TempDir::new().unwrap();
        let asked = dir.path().join("asked");
        let data = dir.path().join("data");
        let mut options = ClusterOptions::new(program(), dir.path().to_owned(), 0);
        options.environment.push(("RUSTLE_END_AT".to_owned(), asked.display().to_string()));
        let start = |store: &str| {
            let mut of_coordinator = flags(&["coordinator", "--listen", "127.0.0.1:0", "--store", store]);
            of_coordinator.extend(["--data-dir".to_owned(), data.display().to_string()]);
            of_coordinator.extend(flags(&["--checkpoint-url", "none"]));
            Process::start(&options, "coordinator", of_coordinator, None)
        };
        let store = etcd.url(point);
        let path = data.join("etcd-ledger");
        fs::write(&asked, format!("etcd_ledger::create::{point} 0")).unwrap();
        start(&store).expect_err("it was to end");
        assert!(!asked.exists(), "it ended before {point}");
        assert_eq!(path.exists(), is_noted, "{point}");
        drop(start(&store).unwrap());
        let noted = fs::read_to_string(&path).unwrap();
        let there = etcd.control(&["get", "--print-value-only", &format!("{point}/ledger")]);
        assert!(noted.len() > 8 && there.contains(&noted), "{point}: {noted:?} is noted, and {there} there");
        let error = format!("{:#}", start(&other.url(point)).expect_err("another ledger was taken"));
        assert!(error.contains("another cluster's store"), "{point}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), noted, "{point}");
    }
}

#[test]
fn a_coordinator_gets_into_an_etcd_that_asks_who_calls() {
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
        assert!(Instant::now() < deadline, "nobody leads: {}", status());
        thread::sleep(Duration::from_millis(20));
    }
    let theirs = Authority::generate().issue(dir.path(), "stranger");
    for (name, tls, password, says) in [
        ("guesses", &ours, "wrong horse", "authentication failed"),
        ("strays", &theirs, "correct horse", "invalid peer certificate"),
    ] {
        let Err(error) = start(name, tls, password) else { panic!("{name}: etcd let in whom it should not") };
        let error = format!("{error:#}");
        assert!(error.contains(says), "{name}: {error}");
        let log = fs::read_to_string(dir.path().join(format!("{name}.log"))).unwrap_or_default();
        assert!(!error.contains("horse") && !log.contains("horse"), "{name}: a password was told");
    }
    let log = fs::read_to_string(coordinator.log()).unwrap();
    assert!(log.len() > 1_000 && !log.contains("correct horse"), "a password was told");
}
