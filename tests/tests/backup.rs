//! A ledger that is copied while its coordinator runs, lost with its disk, and restored by the commands of docs/operations.md.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{TestCluster, job, plans, program, start};

const ROWS: u64 = 5;

/// Returns the commands of the first block below a heading of docs/operations.md.
fn commands_below(heading: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    let below = page.split_once(heading).unwrap_or_else(|| panic!("no {heading}")).1;
    let block = below.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    block.lines().map(|line| line.split(" #").next().unwrap().trim().to_owned()).collect()
}

/// Runs a command of the page in the cluster's folder.
fn run(cluster: &TestCluster, command: &str) -> String {
    let folder = program().parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-ec", command]).env("PATH", path).current_dir(cluster.dir.path());
    let output = bash.env("RUSTLE_COORDINATOR", cluster.cluster.url()).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_lost_ledger_is_restored_by_the_commands_of_the_page() {
    let mut cluster = start(1);
    let name = job("kept");
    cluster.create(&name, &plans()[0], 1024, 1).unwrap();
    cluster.wait_ready(&name);
    cluster.fetch(&name, 0..ROWS, 0..1024).unwrap();
    let backup = commands_below("## Backup");
    assert_eq!(backup.len(), 1, "{backup:?}");
    run(&cluster, &backup[0]);

    cluster.cluster.kill_coordinator().unwrap();
    fs::remove_dir_all(cluster.dir.path().join("coordinator")).unwrap();
    let mut restore = commands_below("### Restoring");
    assert!(restore.len() <= 4, "{restore:?}");
    // The harness starts the coordinator with flags of its own, on the same folder.
    assert_eq!(restore.pop().unwrap(), "rustle coordinator --data-dir coordinator");
    restore.iter().for_each(|command| drop(run(&cluster, command)));
    cluster.cluster.start_coordinator().unwrap();
    let shown: Value =
        serde_json::from_str(&run(&cluster, "rustle job show --job kept --format json")).unwrap();
    // The adopted copy continues on a branch of its own, at the first row that was not bound.
    assert_eq!((&shown["branch"], &shown["next_row"]), (&Value::from(1), &Value::from(ROWS)), "{shown}");
}

#[test]
fn the_ledger_is_never_its_own_backup() {
    let folder = tempfile::tempdir().unwrap();
    coordinator::init_ledger(folder.path()).unwrap();
    let ledger = folder.path().join("ledger.redb");
    let before = fs::read(&ledger).unwrap();
    let words = ["ledger", "backup", "--file"];
    let output = Command::new(program()).args(words).arg(&ledger).arg("--out").arg(&ledger).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(fs::read(&ledger).unwrap() == before);
}
