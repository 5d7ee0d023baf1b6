//! Tests invariant N-6, that state is a cache: with a damaged, missing or stale checkpoint the rows still equal the
//! oracle's, and only time is lost.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use plan::Plan;
use proto::JobId;
use rustix::process::{Pid, Signal, kill_process};
use tests::{TestCluster, assert_same_bits, flags, get, job, plans, small_plan, start, start_with};

const DIMENSION: u64 = 3_700;

fn checkpoint(cluster: &TestCluster, job: &JobId) -> proto::Result<proto::pb::Checkpoint> {
    cluster.runtime.block_on(cluster.client.jobs().checkpoint(job))
}

fn restart_worker(cluster: &mut TestCluster) {
    cluster.cluster.kill_worker(0).unwrap();
    cluster.cluster.start_worker(0).unwrap();
}

fn log(cluster: &TestCluster) -> String {
    fs::read_to_string(cluster.cluster.worker(0).unwrap().log()).unwrap()
}

fn metric(base: &str, name: &str) -> f64 {
    let page = get(base, "/metrics");
    let line = page.lines().find(|line| line.starts_with(name));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn store(cluster: &TestCluster) -> PathBuf {
    cluster.dir.path().join("coordinator/checkpoints")
}

/// Every stored piece of one checkpoint.
fn pieces(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "shard")).collect()
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let plan = &plans()[3];
    let mut cluster = start(1);
    let job = job("older");
    cluster.create(&job, plan, DIMENSION, 2).unwrap();
    let mut rows = cluster.fetch(&job, 0..7, 0..DIMENSION).unwrap();
    let older = checkpoint(&cluster, &job).unwrap();
    rows.extend(cluster.fetch(&job, 7..17, 0..DIMENSION).unwrap());
    let newer = checkpoint(&cluster, &job).unwrap();
    assert!(newer.next_row > older.next_row);
    for piece in pieces(&store(&cluster).join(format!("{job}/{}", newer.id))) {
        let mut bytes = fs::read(&piece).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 0x80;
        fs::write(&piece, bytes).unwrap();
    }
    restart_worker(&mut cluster);
    rows.extend(cluster.fetch(&job, 17..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
    let log = log(&cluster);
    let count = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("checkpoint not usable"), 2, "once a shard:\n{log}");
    assert_eq!(count("restored from a checkpoint"), 2, "{log}");
    assert!(log.contains(&format!("checkpoint={}", older.id)), "{log}");
    let worker = cluster.cluster.worker(0).unwrap().metrics();
    assert_eq!(metric(worker, "rustle_worker_checkpoints_refused_total"), 2.0);
}

#[test]
fn without_any_checkpoint_the_key_suffices() {
    let plan = &plans()[4];
    let mut cluster = start(1);
    let job = job("none");
    cluster.create(&job, plan, DIMENSION, 2).unwrap();
    let mut rows = cluster.fetch(&job, 0..17, 0..DIMENSION).unwrap();
    checkpoint(&cluster, &job).unwrap();
    fs::remove_dir_all(store(&cluster)).unwrap();
    restart_worker(&mut cluster);
    rows.extend(cluster.fetch(&job, 17..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
    checkpoint(&cluster, &job).unwrap();
}

/// Rows go on while their state is written, from a copy or with making held; what is written is one moment's state.
#[test]
fn rows_made_during_a_snapshot_change_no_bit_of_it() {
    const LARGE: u64 = 300_000;
    const ROWS: u64 = 120;
    let plan: Plan = small_plan(plans()[3].mechanism().clone(), ROWS + 4);
    for budget in ["0", "64KiB", "1GiB"] {
        let mut cluster = start_with(1, |options| {
            options.worker_flags = flags(&["--snapshot-bytes", budget, "--ahead-rows", "4"]);
            // They are requested without pause.
            options.coordinator_flags.extend(flags(&["--max-checkpoints-per-minute", "1000000"]));
        });
        let job = job("during");
        cluster.create(&job, &plan, LARGE, 2).unwrap();
        let jobs = cluster.client.jobs();
        let name = job.clone();
        // Checkpoint after checkpoint, until the last row is there.
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let writing = cluster.runtime.spawn(async move {
            let mut stopped = stopped;
            let mut next_rows = Vec::new();
            while stopped.try_recv().is_err() {
                if let Ok(written) = jobs.checkpoint(&name).await {
                    next_rows.push(written.next_row);
                }
            }
            next_rows
        });
        // Rows of both shards: a shard without requests makes no more rows.
        let range = LARGE / 2 - 2_000..LARGE / 2 + 2_000;
        let fetched = (0..ROWS).flat_map(|row| cluster.fetch(&job, row..row + 1, range.clone()).unwrap());
        assert_same_bits(&fetched.collect::<Vec<_>>(), &cluster.expected(&job, &plan, 0..ROWS, range));
        stop.send(()).unwrap();
        let next_rows = cluster.runtime.block_on(writing).unwrap();
        assert!(next_rows.len() > 2 && next_rows.first() < next_rows.last(), "{budget}: {next_rows:?}");
        restart_worker(&mut cluster);
        let last = ROWS..ROWS + 4;
        let got = cluster.fetch(&job, last.clone(), 0..LARGE).unwrap();
        assert_same_bits(&got, &cluster.expected(&job, &plan, last, 0..LARGE));
        assert_eq!(log(&cluster).matches("restored from a checkpoint").count(), 2, "{budget}");
    }
}

#[test]
fn what_cut_off_checkpoints_left_is_gone_after_a_start() {
    let mut cluster = start(1);
    let job = job("orphans");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..5, 0..DIMENSION).unwrap();
    let kept = checkpoint(&cluster, &job).unwrap();
    let of_job = store(&cluster).join(job.as_str());
    let piece = pieces(&of_job.join(kept.id.to_string())).remove(0);
    let orphan = of_job.join((kept.id + 1).to_string());
    fs::create_dir(&orphan).unwrap();
    fs::copy(&piece, orphan.join(piece.file_name().unwrap())).unwrap();
    fs::write(orphan.join("0-512.shard#3"), "half").unwrap();
    cluster.cluster.kill_coordinator().unwrap();
    cluster.cluster.start_coordinator().unwrap();
    cluster.wait_until("the orphan is swept", || !orphan.exists());
    assert!(piece.exists());
    let rows = cluster.fetch(&job, 5..9, 0..DIMENSION).unwrap();
    assert_same_bits(&rows, &cluster.expected(&job, plan, 5..9, 0..DIMENSION));
}

#[test]
fn a_checkpoint_whose_caller_leaves_is_written_to_its_end() {
    let mut cluster = start(1);
    let job = job("left");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    let mut rows = cluster.fetch(&job, 0..7, 0..DIMENSION).unwrap();
    let worker = Pid::from_raw(cluster.cluster.worker(0).unwrap().pid() as i32).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    let patience = Duration::from_millis(500);
    let asked = cluster
        .runtime
        .block_on(async { tokio::time::timeout(patience, cluster.client.jobs().checkpoint(&job)).await });
    kill_process(worker, Signal::CONT).unwrap();
    assert!(asked.is_err(), "its worker stood still: {asked:?}");
    let coordinator = cluster.cluster.coordinator().unwrap().metrics().to_owned();
    cluster.wait_until("it is written", || metric(&coordinator, "rustle_coordinator_checkpoint_bytes") > 0.0);
    assert_eq!(metric(&coordinator, "rustle_coordinator_checkpoints_failed_total"), 0.0);
    restart_worker(&mut cluster);
    rows.extend(cluster.fetch(&job, 7..11, 0..DIMENSION).unwrap());
    let written = fs::read_dir(store(&cluster).join(job.as_str())).unwrap().next().unwrap().unwrap();
    let restored = format!("checkpoint={}", written.file_name().to_str().unwrap());
    assert!(log(&cluster).contains(&restored), "{restored}: {}", log(&cluster));
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..11, 0..DIMENSION));
}

#[test]
fn stored_objects_show_no_row() {
    let cluster = start(1);
    let job = job("sealed");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..9, 0..DIMENSION).unwrap();
    let written = checkpoint(&cluster, &job).unwrap();
    // Rows made ahead among them.
    let rows = cluster.expected(&job, plan, 0..20, 0..DIMENSION);
    let bytes = rows.concat().iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let secrets: HashSet<&[u8]> = bytes.windows(8).chain(tests::KEY.windows(8)).collect();
    let folder = store(&cluster).join(format!("{job}/{}", written.id));
    let mut scanned = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let stored = fs::read(entry.unwrap().path()).unwrap();
        scanned += stored.len();
        assert!(stored.windows(8).all(|window| !secrets.contains(window)));
    }
    assert!(scanned as u64 > DIMENSION * 4 * 3, "{scanned} bytes");
}

/// A file system of so many KiB, gone with the test. `None` where the system gives none.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(kib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={kib}k,mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_costs_a_checkpoint_and_nothing_else() {
    // Room for one checkpoint of 3 state slots and some rows ahead, and not for two.
    let Some(disk) = SmallDisk::new(400) else {
        eprintln!("SKIPPED: a small tmpfs can't be mounted here; it takes root");
        return;
    };
    let plan = &plans()[3];
    let url = format!("file://{}/store", disk.0.path().display());
    let mut cluster = start_with(1, |options| {
        options.coordinator_flags.extend(flags(&["--checkpoint-url", &url, "--keep-checkpoints", "3"]));
    });
    let job = job("full");
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    let mut rows = cluster.fetch(&job, 0..5, 0..DIMENSION).unwrap();
    let first = checkpoint(&cluster, &job).unwrap();
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![0; (400 << 10) - first.bytes as usize - (64 << 10)]).unwrap();
    rows.extend(cluster.fetch(&job, 5..9, 0..DIMENSION).unwrap());
    for _ in 0..3 {
        let error = checkpoint(&cluster, &job).unwrap_err();
        assert!(error.retry_safe(), "{error}");
    }
    let coordinator = cluster.cluster.coordinator().unwrap().metrics();
    assert_eq!(metric(coordinator, "rustle_coordinator_checkpoints_failed_total"), 3.0);
    let stored: Vec<_> = fs::read_dir(disk.0.path().join("store").join(job.as_str())).unwrap().collect();
    assert_eq!(stored.len(), 1, "the one before stays, and nothing else: {stored:?}");
    rows.extend(cluster.fetch(&job, 9..17, 0..DIMENSION).unwrap());
    restart_worker(&mut cluster);
    rows.extend(cluster.fetch(&job, 17..30, 0..DIMENSION).unwrap());
    assert!(log(&cluster).contains(&format!("checkpoint={}", first.id)), "{}", log(&cluster));
    // Once there is space, the next checkpoint succeeds without intervention.
    fs::remove_file(&filler).unwrap();
    assert!(checkpoint(&cluster, &job).unwrap().id > first.id);
    rows.extend(cluster.fetch(&job, 30..40, 0..DIMENSION).unwrap());
    assert_same_bits(&rows, &cluster.expected(&job, plan, 0..40, 0..DIMENSION));
}

#[test]
fn an_interval_is_kept_without_being_asked() {
    let cluster = start_with(1, |options| {
        let every = flags(&["--checkpoint-interval", "100ms"]);
        options.coordinator_flags.splice(4.., every);
    });
    let job = job("interval");
    let plan = &plans()[3];
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..5, 0..DIMENSION).unwrap();
    let coordinator = cluster.cluster.coordinator().unwrap().metrics();
    let written = || metric(coordinator, "rustle_coordinator_checkpoint_duration_seconds_count");
    cluster.wait_until("a checkpoint is written", || written() >= 1.0);
    assert_eq!(metric(coordinator, "rustle_coordinator_checkpoint_interval_seconds"), 0.1);
}
