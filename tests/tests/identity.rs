//! Tests that noise belongs to a ledger: one key, job and plan make other noise in another ledger and in a vector of another
//! dimension, and a ledger that is lost is not begun again in silence (invariant N-2).
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use rustle::cluster::{ClusterOptions, LocalCluster};
use tempfile::TempDir;
use tests::{KEY, TestCluster, assert_same_bits, expected_of, flags, job, plans, program, start, start_with};

const DIMENSION: u64 = 2_000;

/// A cluster of one worker in this folder.
fn start_in(folder: &Path) -> TestCluster {
    start_with(1, |options| options.dir = folder.to_owned())
}

fn run(words: &[&str]) -> Output {
    Command::new(program()).args(words).output().unwrap()
}

/// Returns what a call that must fail prints on standard error.
fn refused(words: &[&str]) -> String {
    let output = run(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{words:?}: {said}");
    said
}

/// Checks that rows differ in all numbers but those that are equal by chance.
#[track_caller]
fn assert_nothing_in_common(first: &[Vec<f32>], second: &[Vec<f32>]) {
    assert_eq!((first.len(), first[0].len()), (second.len(), second[0].len()));
    let pairs = first.iter().flatten().zip(second.iter().flatten());
    let same = pairs.filter(|(first, second)| first.to_bits() == second.to_bits()).count();
    assert!(same < 3, "{same} numbers of {} rows are the same", first.len());
}

#[test]
fn two_ledgers_make_two_noises_of_one_key_job_and_plan() {
    let job = job("same");
    for plan in [&plans()[0], &plans()[3]] {
        let [first, second] = [(), ()].map(|()| {
            let cluster = start(1);
            cluster.create(&job, plan, DIMENSION, 2).unwrap();
            let rows = cluster.fetch(&job, 0..5, 0..DIMENSION).unwrap();
            assert_same_bits(&rows, &cluster.expected(&job, plan, 0..5, 0..DIMENSION));
            rows
        });
        assert_nothing_in_common(&first, &second);
    }
}

#[test]
fn another_dimension_makes_other_noise_from_the_first_coordinate_on() {
    const LONGER: u64 = DIMENSION + 512;
    let cluster = start(1);
    let plan = &plans()[3];
    let [short, long] = [("short", DIMENSION), ("long", LONGER)].map(|(name, dimension)| {
        cluster.create(&job(name), plan, dimension, 1).unwrap();
        cluster.fetch(&job(name), 0..5, 0..DIMENSION).unwrap()
    });
    assert_nothing_in_common(&short, &long);
    // Not by the nonces alone.
    let noise_id = cluster.noise_id(&job("short"));
    let of = |dimension| expected_of(&noise_id, dimension, plan, 0..5, 0..DIMENSION);
    assert_same_bits(&short, &of(DIMENSION));
    assert_nothing_in_common(&short, &of(LONGER));
}

#[test]
fn a_lost_ledger_is_begun_on_request_alone_and_then_has_noise_of_its_own() {
    let folder = TempDir::new().unwrap();
    let job = job("same");
    let plan = &plans()[3];
    let cluster = start_in(folder.path());
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    let first = cluster.fetch(&job, 0..5, 0..DIMENSION).unwrap();
    let cursor = cluster.runtime.block_on(cluster.client.jobs().cursor(&job, None)).unwrap();
    let noise_id = cluster.noise_id(&job);
    drop(cluster);

    let data = folder.path().join("coordinator");
    let ledger = data.join("ledger.redb");
    fs::remove_file(&ledger).unwrap();
    let options = ClusterOptions::new(program(), folder.path().to_owned(), 1);
    let error = format!("{:#}", LocalCluster::start(options, KEY).unwrap_err());
    assert!(error.contains("is missing") && error.contains("rustle ledger init --data-dir"), "{error}");
    let data = data.to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    let error = refused(&[&["coordinator", "--data-dir", data][..], &listen].concat());
    assert!(error.contains("there is no ledger at") && error.contains("rustle ledger init"), "{error}");
    assert!(!ledger.exists(), "a refused start has begun a ledger");

    let init = ["ledger", "init", "--data-dir", data];
    let error = refused(&init);
    assert!(error.contains("ledger.redb.anchor-") && error.contains("of an earlier ledger"), "{error}");
    fs::remove_file(anchor_in(Path::new(data))).unwrap();
    let checkpoint = Path::new(data).join("checkpoints/same/1/manifest.json");
    fs::create_dir_all(checkpoint.parent().unwrap()).unwrap();
    fs::write(&checkpoint, "").unwrap();
    let error = refused(&init);
    assert!(error.contains("checkpoints/") && error.contains("of an earlier ledger"), "{error}");
    assert!(!ledger.exists(), "a ledger was begun beside what an earlier one left");
    fs::remove_dir_all(Path::new(data).join("checkpoints")).unwrap();
    assert!(run(&init).status.success());
    let begun = fs::read(&ledger).unwrap();
    assert!(refused(&init).contains("exists already"));
    assert!(fs::read(&ledger).unwrap() == begun, "a ledger was begun twice");

    // The worker's record of the lost ledger stays, and stops nothing: what is made now is no row of before.
    let cluster = start_in(folder.path());
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    assert_ne!(cluster.noise_id(&job), noise_id);
    let second = cluster.fetch(&job, 0..5, 0..DIMENSION).unwrap();
    assert_same_bits(&second, &cluster.expected(&job, plan, 0..5, 0..DIMENSION));
    assert_nothing_in_common(&first, &second);

    let jobs = cluster.client.jobs();
    let checked = cluster.runtime.block_on(jobs.check_cursor(&job, cursor.clone())).unwrap_err();
    assert_eq!(checked.kind(), "cursor_mismatch", "{checked}");
    let resumed = cluster.runtime.block_on(jobs.resume(&job, cursor, false)).unwrap_err();
    assert_eq!(resumed.kind(), "cursor_mismatch", "{resumed}");
}

/// Returns the anchor beside a coordinator's ledger.
fn anchor_in(data: &Path) -> PathBuf {
    let mut paths = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().contains("ledger.redb.anchor-")).expect("an anchor")
}

/// Copies the files and folders in `from`, as `cp -r` does.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_copied_cluster_binds_nothing_until_it_is_adopted_and_then_has_noise_of_its_own() {
    let [original, folder] = [(), ()].map(|()| TempDir::new().unwrap());
    let job = job("same");
    let plan = &plans()[3];
    let cluster = start_in(original.path());
    cluster.create(&job, plan, DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..3, 0..DIMENSION).unwrap();
    drop(cluster);
    copy(original.path(), folder.path());
    let cluster = start_in(original.path());
    let first = cluster.fetch(&job, 3..5, 0..DIMENSION).unwrap();
    drop(cluster);

    let cluster = start_in(folder.path());
    let refused = cluster.fetch(&job, 3..5, 0..DIMENSION).unwrap_err();
    assert_eq!(refused.kind(), "ledger_copied", "{refused}");
    assert!(refused.to_string().contains("another file (inode"), "{refused}");
    assert_eq!(cluster.noise_id(&job).lineage.branch(), 0);
    let status = cluster.runtime.block_on(cluster.client.jobs().status()).unwrap();
    assert!(status.contains(r#""kind":"ledger_copied""#), "{status}");
    let report = cluster.runtime.block_on(cluster.client.jobs().report(&job, 1e-6)).unwrap();
    assert!(report.contains(r#""ledger_doubt":"ledger "#), "{report}");
    drop(cluster);
    let data = folder.path().join("coordinator");
    let adopt = |more: &[&str]| {
        let output =
            run(&[&["ledger", "adopt", "--data-dir", data.to_str().unwrap(), "--format", "json"], more]
                .concat());
        (output.status.code(), [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()))
    };
    // Without a yes it says what was found and what it costs, and changes nothing.
    let (status, [_, cost]) = adopt(&[]);
    for part in
        ["another file (inode", "same from row 3: ", " before, ", "Nothing was changed: --yes is missing"]
    {
        assert!(status == Some(2) && cost.contains(part), "{part}: {cost}");
    }
    let (status, [said, cost]) = adopt(&["--yes"]);
    assert!(status == Some(0) && said.contains("same: branch 1 from row 3"), "{said} {cost}");
    let costs: serde_json::Value = serde_json::from_str(&said).unwrap();
    let cost = &costs["costs"][0];
    assert_eq!((&cost["job"], &cost["from_row"]), (&"same".into(), &3.into()));
    let after = cost["epsilon_after"].as_f64().unwrap();
    assert!(after > cost["epsilon_before"].as_f64().unwrap(), "{costs}");
    // It is a ledger of its own now, and nothing proves that it is a copy.
    let (status, [_, refused]) = adopt(&[]);
    assert!(
        status == Some(2) && refused.contains("Nothing was adopted") && refused.contains("at no cost"),
        "{refused}"
    );

    // What the copied worker remembers is of another ledger, and raises no alarm.
    let cluster = start_in(folder.path());
    let noise_id = cluster.noise_id(&job);
    assert_eq!(noise_id.lineage.branch(), 1);
    let report = cluster.runtime.block_on(cluster.client.jobs().report(&job, 1e-6)).unwrap();
    assert!(report.contains("adopted at row 3 of branch 0"), "{report}");
    let reported: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(reported["epsilon"].as_f64().unwrap(), after, "what was stated before is what is charged");
    let texts = ["a", "b"].map(str::to_owned).to_vec();
    let patience = Duration::from_secs(20);
    let second = cluster.fetch_on(&cluster.client, 1, &job, 3..5, 0..DIMENSION, texts, patience).unwrap();
    assert_same_bits(&second, &cluster.expected(&job, plan, 3..5, 0..DIMENSION));
    assert_nothing_in_common(&first, &second);
    drop(cluster);
    let cluster = start_in(original.path());
    cluster.fetch(&job, 5..6, 0..DIMENSION).expect("the original continues");
}

#[test]
fn a_store_elsewhere_finds_an_old_copy_that_was_put_back_with_its_anchor() {
    let [folder, elsewhere] = [(), ()].map(|()| TempDir::new().unwrap());
    let url = format!("file://{}/checkpoints", elsewhere.path().display());
    let start = || {
        start_with(1, |options| {
            options.dir = folder.path().to_owned();
            options.coordinator_flags.extend(flags(&["--checkpoint-url", &url]));
        })
    };
    let job = job("same");
    let cluster = start();
    cluster.create(&job, &plans()[3], DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..3, 0..DIMENSION).unwrap();
    drop(cluster);
    let data = folder.path().join("coordinator");
    let saved = [data.join("ledger.redb"), anchor_in(&data)].map(|path| (fs::read(&path).unwrap(), path));
    let cluster = start();
    cluster.fetch(&job, 3..5, 0..DIMENSION).expect("a restart raises no alarm");
    drop(cluster);
    // In the same files, as `cp -r backup/. run/` and a restored snapshot of the volume do it.
    for (bytes, path) in saved {
        fs::write(path, bytes).unwrap();
    }
    let cluster = start();
    let refused = cluster.fetch(&job, 3..5, 0..DIMENSION).unwrap_err();
    assert!(refused.kind() == "ledger_copied" && refused.to_string().contains(&url), "{refused}");
    let status = cluster.runtime.block_on(cluster.client.jobs().status()).unwrap();
    assert!(status.contains(r#""kind":"ledger_copied""#), "{status}");
}

#[test]
fn of_two_coordinators_on_two_copies_with_one_store_the_first_goes_on() {
    let [first, second, elsewhere] = [(), (), ()].map(|()| TempDir::new().unwrap());
    let url = format!("file://{}/checkpoints", elsewhere.path().display());
    // Copied before it was ever taken up, so that neither its file nor an anchor beside it gives it away.
    let ledgers = [&first, &second].map(|folder| folder.path().join("coordinator/ledger.redb"));
    coordinator::init_ledger(ledgers[0].parent().unwrap()).unwrap();
    fs::create_dir(ledgers[1].parent().unwrap()).unwrap();
    fs::copy(&ledgers[0], &ledgers[1]).unwrap();
    let start = |folder: &TempDir| {
        start_with(1, |options| {
            options.dir = folder.path().to_owned();
            options.coordinator_flags.extend(flags(&["--checkpoint-url", &url]));
        })
    };
    let job = job("same");
    let cluster = start(&first);
    cluster.create(&job, &plans()[3], DIMENSION, 1).unwrap();
    let other = start(&second);
    let refused = other.create(&job, &plans()[3], DIMENSION, 1).unwrap_err();
    assert!(refused.kind() == "ledger_copied" && refused.to_string().contains(&url), "{refused}");
    cluster.fetch(&job, 0..2, 0..DIMENSION).expect("the first continues");
}

#[test]
fn a_key_of_an_earlier_run_is_not_used_with_a_new_ledger() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(path("data")).unwrap();
    fs::write(path("plan.toml"), plans()[0].to_toml_string().unwrap()).unwrap();
    assert!(run(&["key", "new", "--out", &path("data/job.key")]).status.success());
    let up = ["up", "--plan", &path("plan.toml"), "--dimension", "512", "--data-dir", &path("data")];
    let error = refused(&up);
    assert!(error.contains("job.key is of an earlier ledger"), "{error}");
    assert!(error.contains("rustle ledger init --data-dir"), "{error}");
    assert!(!folder.path().join("data/coordinator/ledger.redb").exists());
}
