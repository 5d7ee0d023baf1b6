//! Tests rewinds: a new branch has fresh noise, and old branches and old ledgers are refused (invariants N-2, N-10).
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{fs, ops::Range, process::Command, time::Duration};

use proto::{Commitment, ReleaseToken, RowRange, ServiceError, pb};
use tests::{KEY, TestCluster, assert_same_bits, flags, job, plans, program, start, start_with};

const DIMENSION: u64 = 2_000;
const TIMEOUT: Duration = Duration::from_secs(20);

fn fetch(
    cluster: &TestCluster,
    branch: u64,
    rows: Range<u64>,
    text: &str,
) -> Result<Vec<Vec<f32>>, ServiceError> {
    let texts = rows.clone().map(|row| format!("{text} {row}")).collect();
    cluster.fetch_on(&cluster.client, branch, &job("back"), rows, 0..DIMENSION, texts, TIMEOUT)
}

/// Returns the lineage of the job's current branch without nonces.
fn lineage(cluster: &TestCluster) -> String {
    cluster.noise_id(&job("back")).lineage.rows_and_branches()
}

#[test]
fn a_rewound_job_gets_fresh_rows_and_keeps_the_rows_before() {
    for plan in [&plans()[0], &plans()[3]] {
        let cluster = start(2);
        let job = job("back");
        cluster.create(&job, plan, DIMENSION, 2).unwrap();
        let jobs = cluster.client.jobs();
        let first = fetch(&cluster, 0, 0..12, "first").unwrap();
        // A checkpoint from before the row, and from behind it.
        cluster.runtime.block_on(jobs.checkpoint(&job)).unwrap();
        let rewound = cluster.runtime.block_on(jobs.rewind(&job, 5, 0)).unwrap();
        assert_eq!((rewound.branch, rewound.next_row), (1, 5));
        let again = cluster.runtime.block_on(jobs.rewind(&job, 5, 0)).unwrap();
        assert_eq!(again.branch, 1);

        let second = fetch(&cluster, 1, 5..12, "second").unwrap();
        assert_eq!(lineage(&cluster), "0..5=0,5..=1");
        assert_same_bits(&second, &cluster.expected(&job, plan, 5..12, 0..DIMENSION));
        // The nonces of the new lineage make the rows before, too.
        assert_same_bits(&first[..5], &cluster.expected(&job, plan, 0..5, 0..DIMENSION));
        assert!(second.iter().zip(&first[5..]).all(|(new, old)| new != old), "a row came again");
        assert_same_bits(&fetch(&cluster, 1, 0..5, "first").unwrap(), &first[..5]);
        let kept = fetch(&cluster, 1, 4..5, "second").unwrap_err();
        assert_eq!(kept.kind(), "already_bound", "{kept}");
        for rows in [5..6, 2..3] {
            let old = fetch(&cluster, 0, rows, "first").unwrap_err();
            assert!(matches!(old, ServiceError::BranchSuperseded { current: 1, .. }), "{old}");
            assert!(!old.retry_safe());
        }

        let report: serde_json::Value =
            serde_json::from_str(&cluster.runtime.block_on(jobs.report(&job, 1e-6)).unwrap()).unwrap();
        let expected = serde_json::json!({ "branches": [
            { "branch": 0, "parent": null, "from_row": 0, "released": [[0, 12]] },
            { "branch": 1, "parent": 0, "from_row": 5, "released": [[5, 12]] },
        ]});
        assert_eq!(report["released"], expected);
    }
}

/// Straight to a worker, past the coordinator: a token of the old branch.
#[test]
fn a_worker_refuses_a_branch_that_was_left() {
    let cluster = start(1);
    let job = job("back");
    cluster.create(&job, &plans()[0], DIMENSION, 1).unwrap();
    fetch(&cluster, 0, 0..3, "first").unwrap();
    let commitments = [Commitment::of_text("first 1")];
    let row = RowRange { start: 1, end: 2 };
    let bind = cluster.client.bind(&job, 0, row, &commitments);
    let token = cluster.runtime.block_on(bind).unwrap().token(row).unwrap();
    cluster.runtime.block_on(cluster.client.jobs().rewind(&job, 1, 0)).unwrap();
    fetch(&cluster, 1, 1..2, "second").unwrap();
    let error = ask(&cluster, 0, 1, token).unwrap_err();
    assert!(matches!(error, ServiceError::BranchSuperseded { current: 1, .. }), "{error}");
}

fn ask(cluster: &TestCluster, branch: u64, row: u64, token: ReleaseToken) -> Result<(), ServiceError> {
    let routing = cluster.runtime.block_on(cluster.client.routing(&job("back"))).unwrap();
    let request = pb::FetchSliceRequest {
        job: "back".into(),
        branch,
        lease_epoch: routing.routes[0].lease_epoch,
        rows: Some(pb::RowRange { start: row, end: row + 1 }),
        range: Some(pb::CoordinateRange { start: 0, end: 8 }),
        token: Some(token.into()),
        deadline_ms: 5_000,
        ..pb::FetchSliceRequest::default()
    };
    let endpoint = routing.routes[0].endpoint.clone().unwrap();
    cluster.runtime.block_on(async {
        let mut worker = pb::shards_client::ShardsClient::connect(endpoint).await.unwrap();
        worker.fetch_slice(request).await.map(|_| ()).map_err(ServiceError::from)
    })
}

#[test]
fn a_token_ends_with_its_time_and_with_its_coordinator() {
    let mut cluster =
        start_with(1, |options| options.coordinator_flags.extend(flags(&["--token-ttl", "400ms"])));
    let job = job("back");
    cluster.create(&job, &plans()[0], DIMENSION, 1).unwrap();
    let first = fetch(&cluster, 0, 0..1, "first").unwrap();
    let bound = |cluster: &TestCluster| {
        let commitments = [Commitment::of_text("first 0")];
        let row = RowRange { start: 0, end: 1 };
        let bind = cluster.client.bind(&job, 0, row, &commitments);
        cluster.runtime.block_on(bind).unwrap().token(row).unwrap()
    };
    let token = bound(&cluster);
    ask(&cluster, 0, 0, token.clone()).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    let expired = ask(&cluster, 0, 0, token).unwrap_err();
    assert!(expired.kind() == "token_expired" && expired.retry_safe(), "{expired}");
    assert_same_bits(&fetch(&cluster, 0, 0..1, "first").unwrap(), &first);

    let token = bound(&cluster);
    cluster.cluster.kill_coordinator().unwrap();
    cluster.cluster.start_coordinator().unwrap();
    assert_same_bits(&fetch(&cluster, 0, 0..1, "first").unwrap(), &first);
    let stale = ask(&cluster, 0, 0, token).unwrap_err();
    assert!(stale.kind() == "stale_epoch" && stale.retry_safe(), "{stale}");
}

#[test]
fn an_old_ledger_is_refused_whether_the_worker_lived_on_or_started_anew() {
    for restart in [false, true] {
        let mut cluster = start(1);
        let job = job("back");
        cluster.create(&job, &plans()[0], DIMENSION, 1).unwrap();
        fetch(&cluster, 0, 0..3, "first").unwrap();
        cluster.cluster.kill_coordinator().unwrap();
        // With its anchor and in the same files, as a snapshot of the volume puts it back: the worker alone knows better.
        let data = cluster.dir.path().join("coordinator");
        let files = || fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
        let ledger = files().filter(|path| path.to_string_lossy().contains("ledger.redb"));
        let yesterday: Vec<_> = ledger.map(|path| (fs::read(&path).unwrap(), path)).collect();
        assert_eq!(yesterday.len(), 2);
        cluster.cluster.start_coordinator().unwrap();
        fetch(&cluster, 0, 3..6, "first").unwrap();
        cluster.cluster.kill_coordinator().unwrap();
        for (bytes, path) in yesterday {
            fs::write(path, bytes).unwrap();
        }
        if restart {
            cluster.cluster.kill_worker(0).unwrap();
        }
        cluster.cluster.start_coordinator().unwrap();
        if restart {
            cluster.cluster.start_worker(0).unwrap();
        }
        for (rows, text) in [(3..4, "second"), (0..1, "first"), (20..21, "first")] {
            let error = fetch(&cluster, 0, rows, text).unwrap_err();
            assert_eq!(error.kind(), "ledger_behind", "{error}");
            assert!(!error.retry_safe() && error.to_string().contains("restore"), "{error}");
        }
        let error = cluster.runtime.block_on(cluster.client.jobs().rewind(&job, 2, 0)).unwrap_err();
        assert_eq!(error.kind(), "ledger_behind", "{error}");
    }
}

#[test]
fn a_cursor_resumes_where_it_was_taken() {
    let cluster = start(1);
    let job = job("back");
    let jobs = cluster.client.jobs();
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    fetch(&cluster, 0, 0..4, "first").unwrap();
    let cursor = cluster.runtime.block_on(jobs.cursor(&job, None)).unwrap();
    let same = cluster.runtime.block_on(jobs.resume(&job, cursor.clone(), false)).unwrap();
    assert_eq!((same.next_row, same.opened_branch, same.job.unwrap().branch), (4, false, 0));
    fetch(&cluster, 0, 4..7, "first").unwrap();
    let check = cluster.runtime.block_on(jobs.check_cursor(&job, cursor.clone())).unwrap();
    assert_eq!((check.rows_beyond, check.continues, check.replayable), (3, false, false));
    // A caller that lost the answer and asks again gets the same one.
    for _ in 0..2 {
        let resumed = cluster.runtime.block_on(jobs.resume(&job, cursor.clone(), true)).unwrap();
        assert_eq!((resumed.next_row, resumed.opened_branch, resumed.job.unwrap().branch), (4, true, 1));
    }
    let rows = fetch(&cluster, 1, 4..6, "second").unwrap();
    assert_eq!(lineage(&cluster), "0..4=0,4..=1");
    assert_same_bits(&rows, &cluster.expected(&job, plan, 4..6, 0..DIMENSION));
    let damaged = [&cursor[..9], &[cursor[9] ^ 1], &cursor[10..]].concat();
    assert_eq!(
        cluster.runtime.block_on(jobs.check_cursor(&job, damaged)).unwrap_err().kind(),
        "invalid_argument"
    );
}

#[test]
fn the_command_line_goes_back_and_shows_the_chain() {
    let cluster = start(1);
    let plan = &plans()[3];
    cluster.create(&job("back"), plan, DIMENSION, 1).unwrap();
    fetch(&cluster, 0, 0..4, "first").unwrap();
    let url = cluster.cluster.url();
    let run = |words: &[&str]| {
        let output = Command::new(program()).args(["--format", "json"]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let on = |word: &'static str| vec!["job", word, "--coordinator", &url, "--job", "back"];
    let cursor = run(&on("cursor"))["cursor"].as_str().unwrap().to_owned();
    let rewound = run(&[&on("rewind")[..], &["--to-row", "2", "--yes"]].concat());
    assert_eq!((&rewound["branch"], &rewound["lineage"]), (&1.into(), &"0..2=0,2..=1".into()));
    let resumed = run(&[&on("resume")[..], &["--cursor", &cursor]].concat());
    assert_eq!((&resumed["branch"], &resumed["lineage"]), (&2.into(), &"0..4=0,4..=2".into()));
    let entries = run(&on("ledger"))["entries"].clone();
    let head = run(&on("head"));
    let last = entries.as_array().unwrap().last().unwrap();
    assert_eq!(last["hash"], head["hash"]);
    assert!(last["event"].as_str().unwrap().contains("branch_opened"), "{last}");

    // What a file of rows is verified by.
    let key = cluster.dir.path().join("key");
    let toml = cluster.dir.path().join("plan.toml");
    let npy = cluster.dir.path().join("x.npy");
    fs::write(&key, KEY).unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    fs::write(&toml, plan.to_toml_string().unwrap()).unwrap();
    let key = key.to_str().unwrap();
    let toml = toml.to_str().unwrap();
    let npy = npy.to_str().unwrap();
    run(&[
        "fetch",
        "--coordinator",
        &url,
        "--job",
        "back",
        "--branch",
        "2",
        "--steps",
        "4..6",
        "--range",
        "0..600",
        "--out",
        npy,
    ]);
    let shown = run(&on("show"));
    let noise_id = shown["noise_id"].as_str().unwrap();
    assert_eq!(noise_id, cluster.noise_id(&job("back")).to_string());
    let dimension = DIMENSION.to_string();
    let of = ["--plan", toml, "--key-file", key, "--noise-id", noise_id, "--dimension", &dimension];
    let verified =
        run(&[&["verify"], &of[..], &["--step", "5", "--row", "1", "--range", "0..600", npy]].concat());
    assert_eq!(verified["equal"], true);
}
