//! Tests invariant N-2: a row is bound to one commitment before a byte of it is released, and every other use is refused.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use proto::{PROTOCOL_VERSION, ServiceError, pb};
use tests::{KEY, TestCluster, assert_same_bits, flags, get, job, plans, program, start, start_with};

const DIMENSION: u64 = 2_000;

fn bound(cluster: &TestCluster, row: u64, text: &str) -> Result<Vec<Vec<f32>>, ServiceError> {
    let commitments = vec![text.to_owned()];
    cluster.fetch_bound(&job("bind"), row..row + 1, 0..DIMENSION, commitments, Duration::from_secs(5))
}

#[test]
fn one_commitment_a_row() {
    let cluster = start(2);
    let plan = &plans()[3];
    cluster.create(&job("bind"), plan, DIMENSION, 2).unwrap();
    let first = bound(&cluster, 7, "step a").unwrap();
    assert_same_bits(&bound(&cluster, 7, "step a").unwrap(), &first);
    let refused = bound(&cluster, 7, "step b").unwrap_err();
    assert!(matches!(refused, ServiceError::AlreadyBound { row: 7, .. }), "{refused}");
    assert!(!refused.retry_safe());
    let beyond = bound(&cluster, 40, "step a").unwrap_err();
    assert!(matches!(beyond, ServiceError::RowBeyondIterations { row: 40, iterations: 40 }), "{beyond}");
    let outside = cluster.fetch(&job("bind"), 0..1, 0..DIMENSION + 1).unwrap_err();
    assert!(outside.to_string().contains("2001") && outside.to_string().contains("2000"), "{outside}");
    let missing = cluster.fetch(&job("missing"), 0..1, 0..1).unwrap_err();
    assert!(matches!(missing, ServiceError::NotFound { .. }), "{missing}");
}

/// Two trainings whose commands differ in the output alone must not get the same rows.
#[test]
fn fetched_rows_are_bound_to_a_commitment_of_their_file() {
    let cluster = start(1);
    cluster.create(&job("bind"), &plans()[0], DIMENSION, 1).unwrap();
    let url = cluster.cluster.url();
    let fetch = |out: &str, more: &[&str]| -> Output {
        let out = cluster.dir.path().join(out);
        let words = ["--format", "json", "fetch", "--coordinator", &url, "--job", "bind"];
        let mut command = Command::new(program());
        command.args(words).args(["--range", "0..600", "--out"]).arg(out).args(more).output().unwrap()
    };
    let says = |output: &Output, text: &str| String::from_utf8_lossy(&output.stderr).contains(text);
    let of = |output: Output| -> serde_json::Value {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Row 40 does not exist: refused before anything is drawn or written.
    let early = fetch("a.npy", &["--steps", "39..41"]);
    assert_eq!(early.status.code(), Some(2), "{early:?}");
    let file = cluster.dir.path().join("a.npy.commitment");
    assert!(!cluster.dir.path().join("a.npy").exists() && !file.exists());
    // What a fetch that failed later has left is taken again.
    let drawn = "3c".repeat(32);
    std::fs::write(&file, &drawn).unwrap();
    let first = of(fetch("a.npy", &["--steps", "0..2"]));
    let text = first["commitment"].as_str().unwrap();
    assert_eq!(text, drawn);
    assert_eq!(std::fs::read_to_string(file).unwrap(), format!("{drawn}\ncomplete\n"));
    let other = fetch("b.npy", &["--steps", "0..2"]);
    assert!(says(&other, "bound to another commitment"), "{other:?}");
    // Whole: the same command would get the same rows for other data.
    let again = fetch("a.npy", &["--steps", "0..2"]);
    assert!(says(&again, "was written whole before") && says(&again, "--commitment"), "{again:?}");
    let named = of(fetch("b.npy", &["--steps", "0..2", "--commitment", text]));
    assert_eq!(named["sha256"], first["sha256"]);
}

/// Rows that are left out stay free, so that a gap is no error; it is said, since it may be a mistake.
#[test]
fn a_fetch_says_which_rows_before_it_are_not_bound() {
    let cluster = start(1);
    cluster.create(&job("gap"), &plans()[0], DIMENSION, 1).unwrap();
    let url = cluster.cluster.url();
    let fetch = |steps: &str| {
        let out = cluster.dir.path().join(format!("{steps}.npy"));
        let words =
            ["fetch", "--coordinator", &url, "--job", "gap", "--range", "0..600", "--steps", steps, "--out"];
        let output = Command::new(program()).args(words).arg(out).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        error.lines().find(|line| line.starts_with("note: rows")).map(str::to_owned)
    };
    assert_eq!(fetch("0..2"), None);
    let note = fetch("5..6").unwrap();
    assert!(note.contains("rows 2..5 of job gap are not bound") && note.contains("--steps 2..5"), "{note}");
    assert_eq!(fetch("6..7"), None, "the next row");
    assert_eq!(fetch("2..5"), None, "they are still free");
}

#[test]
fn a_refused_range_of_rows_binds_none_of_them() {
    let cluster = start(1);
    cluster.create(&job("bind"), &plans()[0], DIMENSION, 1).unwrap();
    bound(&cluster, 5, "step a").unwrap();
    let texts = vec!["step b".to_owned(); 3];
    let refused = cluster.fetch_bound(&job("bind"), 4..7, 0..8, texts, Duration::from_secs(5)).unwrap_err();
    assert_eq!(refused.kind(), "already_bound");
    bound(&cluster, 4, "step c").expect("row 4 is still free");
}

#[test]
fn a_range_without_an_owner_is_waited_for_then_named() {
    let mut cluster = start(0);
    let job = job("lonely");
    cluster.create(&job, &plans()[3], DIMENSION, 2).unwrap();
    let started = Instant::now();
    let texts = vec!["step 0".to_owned()];
    let error = cluster.fetch_bound(&job, 0..1, 100..1_500, texts, Duration::from_millis(600)).unwrap_err();
    assert!(started.elapsed() >= Duration::from_millis(600), "it must wait up to its deadline");
    assert!(error.retry_safe(), "{error}");
    assert!(error.to_string().contains("100..1500"), "the missing range must be named: {error}");
    cluster.cluster.add_worker().unwrap();
    let rows = cluster.fetch(&job, 0..1, 100..1_500).unwrap();
    assert_same_bits(&rows, &cluster.expected(&job, &plans()[3], 0..1, 100..1_500));
}

#[test]
fn a_worker_with_another_key_is_refused_and_says_why() {
    let cluster = start(1);
    let job = job("key");
    let plan = &plans()[0];
    let request = pb::CreateJobRequest {
        job: job.to_string(),
        plan_toml: plan.to_toml_string().unwrap(),
        dimension: DIMENSION,
        shards: 1,
        key_commitment: vec![9; 32],
        plan_digest: vec![],
        account: None,
    };
    cluster.runtime.block_on(cluster.client.jobs().create(request)).unwrap();
    let texts = vec!["step 0".to_owned()];
    let error = cluster.fetch_bound(&job, 0..1, 0..8, texts, Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.kind(), "range_unavailable", "{error}");
    let log = std::fs::read_to_string(cluster.cluster.worker(0).unwrap().log()).unwrap();
    assert!(log.contains("commitment"), "the worker must say why:\n{log}");
    let secrets = [hex::encode(KEY), format!("{KEY:?}")];
    assert!(secrets.iter().all(|secret| !log.contains(secret.as_str())), "the key is in the log");
}

#[test]
fn other_versions_and_plans_are_refused() {
    let cluster = start(0);
    let plan = &plans()[0];
    let register = |protocol_version, stream_version| {
        let request = pb::RegisterRequest {
            local: None,
            worker: "w".into(),
            endpoint: "http://127.0.0.1:1".into(),
            protocol_version,
            stream_version,
            incarnation: vec![0; 16],
            ..pb::RegisterRequest::default()
        };
        cluster.runtime.block_on(async {
            let mut workers =
                pb::workers_client::WorkersClient::connect(cluster.cluster.url()).await.unwrap();
            workers.register(request).await.map(|_| ()).map_err(ServiceError::from)
        })
    };
    assert_eq!(
        register(PROTOCOL_VERSION + 1, plan::STREAM_VERSION).unwrap_err().kind(),
        "protocol_version_mismatch"
    );
    assert_eq!(
        register(PROTOCOL_VERSION, plan::STREAM_VERSION + 1).unwrap_err().kind(),
        "stream_version_mismatch"
    );
    register(PROTOCOL_VERSION, plan::STREAM_VERSION).unwrap();

    let create = |plan_toml: String, plan_digest: Vec<u8>| {
        let request = pb::CreateJobRequest {
            job: "p".into(),
            plan_toml,
            dimension: DIMENSION,
            shards: 1,
            key_commitment: vec![9; 32],
            plan_digest,
            account: None,
        };
        cluster.runtime.block_on(cluster.client.jobs().create(request)).map(|_| ())
    };
    let text = plan.to_toml_string().unwrap();
    assert_eq!(create(text.clone(), vec![7; 32]).unwrap_err().kind(), "plan_digest_mismatch");
    let wrong = create(text.replace("noise_multiplier = 1.5", "noise_multiplier = nan"), vec![]).unwrap_err();
    assert!(wrong.to_string().contains("noise_multiplier"), "{wrong}");
    create(text.clone(), vec![]).unwrap();
    let other =
        create(text.replace("noise_multiplier = 1.5", "noise_multiplier = 1.25"), vec![]).unwrap_err();
    assert_eq!(other.kind(), "already_exists", "{other}");
    create(text, vec![]).expect("the same definition again is the same job");
}

#[test]
fn a_finished_job_binds_no_more_and_a_destroyed_one_serves_no_more() {
    let cluster = start(1);
    let job = job("bind");
    cluster.create(&job, &plans()[3], DIMENSION, 1).unwrap();
    let first = bound(&cluster, 3, "step").unwrap();
    cluster.runtime.block_on(cluster.client.jobs().finish(&job)).unwrap();
    assert_eq!(bound(&cluster, 4, "step").unwrap_err().kind(), "job_state");
    assert_same_bits(&bound(&cluster, 3, "step").unwrap(), &first);
    let gone = cluster.runtime.block_on(cluster.client.jobs().destroy(&job)).unwrap();
    assert_eq!(gone.rows_released, 1);
    assert!(gone.message.contains("recomputed"), "{}", gone.message);
    assert!(bound(&cluster, 3, "step").is_err());
}

#[test]
fn sigterm_drains_a_worker_and_the_rows_go_on() {
    let mut cluster = start(2);
    let job = job("drain");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 4).unwrap();
    let mut rows = cluster.fetch(&job, 0..10, 0..DIMENSION).unwrap();
    cluster.cluster.stop_worker(0).unwrap();
    rows.extend(cluster.fetch(&job, 10..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
}

#[test]
fn a_port_in_use_is_named() {
    let cluster = start(0);
    let address = cluster.cluster.url().replace("http://", "");
    let other = cluster.dir.path().join("other");
    coordinator::init_ledger(&other).unwrap();
    let output = std::process::Command::new(tests::program())
        .args(["coordinator", "--listen", &address, "--data-dir"])
        .arg(other)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(words.contains(&address), "{words}");
}

/// State + rows made ahead + at most 10 % and 64 MiB, said by metrics and checked against the process.
#[test]
fn a_workers_memory_is_what_its_metrics_say() {
    const LARGE: u64 = 6_000_000;
    let cluster = start_with(1, |options| {
        options.worker_flags = flags(&["--ahead-rows", "4"]);
        options.coordinator_flags =
            flags(&["--heartbeat", "50ms", "--lease-ttl", "3s", "--checkpoint-interval", "0s"]);
    });
    let job = job("memory");
    cluster.create(&job, &plans()[3], LARGE, 2).unwrap();
    for row in 0..6 {
        cluster.fetch(&job, row..row + 1, 0..LARGE).unwrap();
    }
    cluster.runtime.block_on(cluster.client.jobs().checkpoint(&job)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let metrics = get(cluster.cluster.worker(0).unwrap().metrics(), "/metrics");
    let value = |name: &str| -> f64 {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name}:\n{metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let state = value("rustle_worker_state_bytes");
    let ahead = value("rustle_worker_ahead_bytes");
    assert_eq!(state, 3.0 * 4.0 * LARGE as f64);
    let resident = resident_bytes(cluster.cluster.worker(0).unwrap().pid());
    let allowed = 1.1 * (state + ahead) + 64.0 * (1 << 20) as f64;
    println!("state {state}, ahead {ahead}, resident {resident}, allowed {allowed}");
    assert!(resident <= allowed, "resident {resident} > {allowed} (state {state}, ahead {ahead})");
}

fn resident_bytes(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}
