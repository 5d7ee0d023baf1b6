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

/// A job's whole life, and its archive: what is said of it before and after.
#[test]
fn a_destroyed_job_is_compacted_and_its_report_stays() {
    let mut cluster = start(1);
    let name = job("gone");
    cluster.create(&name, &plans()[0], 1024, 1).unwrap();
    cluster.wait_ready(&name);
    cluster.fetch(&name, 0..ROWS, 0..1024).unwrap();
    let shown = |cluster: &TestCluster| {
        ["rustle job show --job gone --format json", "rustle report --job gone --format json"].map(
            |command| {
                let mut answer: Value = serde_json::from_str(&run(cluster, command)).unwrap();
                // The moment at which the report is made.
                answer.as_object_mut().unwrap().remove("date");
                answer
            },
        )
    };
    run(&cluster, "rustle job destroy --job gone --yes");
    let before = shown(&cluster);
    let head = cluster.runtime.block_on(cluster.client.jobs().head(&name)).unwrap();
    let known = format!("gone={}", hex::encode(&head.hash));
    cluster.cluster.kill_coordinator().unwrap();

    let place = |name: &str| cluster.dir.path().join(name).to_str().unwrap().to_owned();
    let [data, export] = ["coordinator", "chains.jsonl"].map(place);
    assert_eq!(json(&["verify", "--data-dir", &data, "--head", &known]).0, 0);
    // The two commands of the page.
    let commands = commands_below("## Room in the ledger");
    assert_eq!(commands.len(), 2, "{commands:?}");
    run(&cluster, &commands[0]);
    let compacted: Value =
        serde_json::from_str(&run(&cluster, &format!("{} --format json", commands[1]))).unwrap();
    assert_eq!(compacted["archived"], serde_json::json!(["gone"]), "{compacted}");
    assert_eq!(compacted["left_as_they_are"], serde_json::json!([]), "{compacted}");
    assert_eq!(
        (&compacted["entries_removed"], &compacted["bindings_removed"]),
        (&head.entries.into(), &ROWS.into()),
        "{compacted}"
    );

    let (status, verified) = json(&["verify", "--data-dir", &data]);
    assert_eq!((status, &verified["verified"]), (0, &true.into()), "{verified}");
    let published = verified["heads"][0].as_str().unwrap().to_owned();
    assert_eq!(json(&["verify", "--data-dir", &data, "--head", &published]).0, 0);
    // The export from before has the entry itself.
    assert_eq!(json(&["verify", "--from", &export, "--head", &known]).0, 0);
    let after = place("after.jsonl");
    assert_eq!(ledger(&["export", "--data-dir", &data, "--out", &after]).0, 0);
    for place in [vec!["--data-dir", &data], vec!["--from", &after], vec!["--from", &after, "--partial"]] {
        let (status, named) = json(&[&["verify", "--head", &known], place.as_slice()].concat());
        assert_eq!((status, &named["named_not_proved"][0]), (1, &known.clone().into()), "{named}");
        let reason = named["reason"].as_str().unwrap();
        assert!(
            reason.contains("named by an archive, not proved: the entries before it are gone"),
            "{reason}"
        );
    }
    // Of both together every field is compared.
    let both = place("both.jsonl");
    fs::write(&both, [&export, &after].map(|path| fs::read_to_string(path).unwrap()).concat()).unwrap();
    assert_eq!(json(&["verify", "--from", &both, "--head", &known, "--head", &published]).0, 0);

    cluster.cluster.start_coordinator().unwrap();
    assert_eq!(shown(&cluster), before);
}

/// Runs `rustle ledger` and returns its exit status and what it printed.
fn ledger(words: &[&str]) -> (i32, String) {
    let output = Command::new(program()).arg("ledger").args(words).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

fn json(words: &[&str]) -> (i32, Value) {
    let (status, said) = ledger(&[words, &["--format", "json"]].concat());
    (status, serde_json::from_str(&said).unwrap_or_else(|error| panic!("{words:?}: {error}: {said}")))
}

#[test]
fn tools_read_a_ledger_that_nothing_has_open_and_find_what_differs() {
    let mut cluster = start(1);
    let name = job("kept");
    cluster.create(&name, &plans()[0], 1024, 1).unwrap();
    cluster.wait_ready(&name);
    cluster.fetch(&name, 0..ROWS, 0..1024).unwrap();
    let place = |name: &str| cluster.dir.path().join(name).to_str().unwrap().to_owned();
    let [data, copy, export] = ["coordinator", "copy.redb", "chains.jsonl"].map(place);
    // One in use is refused with what to do, and is copied.
    let (status, said) = ledger(&["log", "--data-dir", &data]);
    assert!(status == 1 && said.contains("rustle ledger backup"), "{said}");
    assert_eq!(ledger(&["backup", "--data-dir", &data, "--out", &copy]).0, 0);
    cluster.runtime.block_on(cluster.client.jobs().rewind(&name, 2, 0)).unwrap();
    let head = cluster.runtime.block_on(cluster.client.jobs().head(&name)).unwrap();
    cluster.cluster.kill_coordinator().unwrap();

    let (status, log) = ledger(&["log", "--data-dir", &data, "--job", "kept", "--since", "1h"]);
    assert!(status == 0 && log.contains("branch_opened") && log.contains("anyone"), "{log}");
    assert!(log.lines().all(|line| line.chars().count() <= 80), "{log}");
    assert!(!ledger(&["log", "--data-dir", &data, "--since", "0s"]).1.contains("created"));
    let (status, said) = ledger(&["log", "--data-dir", &data, "--job", "other"]);
    assert!(status == 2 && said.contains("it has: kept"), "{said}");

    let known = format!("kept={}", hex::encode(&head.hash));
    let (status, verified) = json(&["verify", "--data-dir", &data, "--head", &known]);
    assert!(status == 0 && verified["verified"] == true, "{verified}");
    assert!(verified["heads"].to_string().contains("kept="), "{verified}");
    // The copy is older: it lacks that entry.
    let (status, older) = json(&["verify", "--file", &copy, "--head", &known]);
    assert!(status == 1 && older["reason"].as_str().unwrap().contains("no entry of the hash"), "{older}");
    assert_eq!(json(&["verify", "--file", &copy]).0, 0);

    assert_eq!(ledger(&["export", "--data-dir", &data, "--out", &export]).0, 0);
    let (status, verified) = json(&["verify", "--from", &export, "--head", &known]);
    assert!(status == 0 && verified["verified"] == true, "{verified}");
    let lines = fs::read_to_string(&export).unwrap();
    // What a log that was begun later has.
    let late: String = lines.lines().skip(2).flat_map(|line| [line, "\n"]).collect();
    fs::write(&export, late).unwrap();
    let (status, found) = json(&["verify", "--from", &export]);
    assert_eq!((status, &found["entry"]), (1, &Value::from(2)), "{found}");
    let (status, found) = json(&["verify", "--from", &export, "--partial", "--head", &known]);
    assert_eq!((status, &found["begun_late"][0]), (0, &"kept at entry 2".into()), "{found}");
    // What an entry names as the hash before it is found in no log that lacks the entry before.
    let lacking: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let lacking = format!("kept={}", lacking["hash"].as_str().unwrap());
    let (status, found) = json(&["verify", "--from", &export, "--partial", "--head", &lacking]);
    assert!(status == 1 && found["reason"].as_str().unwrap().contains("no entry of the hash"), "{found}");
    // What a log has whose coordinator did not lead all the time.
    let with_gap: String =
        lines.lines().take(1).chain(lines.lines().skip(2)).flat_map(|line| [line, "\n"]).collect();
    fs::write(&export, with_gap).unwrap();
    let (status, found) = json(&["verify", "--from", &export, "--partial", "--head", &known]);
    assert_eq!((status, &found["gaps"][0]), (0, &"kept lacks entries 1 to 1".into()), "{found}");
    let edited = lines.replacen(r#"\"from_row\":2"#, r#"\"from_row\":3"#, 1);
    assert_ne!(edited, lines);
    fs::write(&export, edited).unwrap();
    let (status, found) = json(&["verify", "--from", &export]);
    let opened = lines.lines().position(|line| line.contains("branch_opened")).unwrap();
    assert_eq!((status, &found["entry"]), (1, &Value::from(opened)), "{found}");

    let (status, compared) = json(&["diff", &data, &copy]);
    assert_eq!((status, &compared["relation"]), (1, &"b_is_prefix".into()), "{compared}");
    let entries = compared["chains"][0]["entries_b"].clone();
    assert_eq!(compared["chains"][0]["first_difference"], entries, "{compared}");
    assert_eq!(json(&["diff", &data, &data]).0, 0);
    // An adopted copy parts from the original at its own branch.
    assert_eq!(ledger(&["adopt", "--yes", "--file", &copy]).0, 0);
    let (status, compared) = json(&["diff", &data, &copy]);
    assert_eq!((status, &compared["relation"]), (1, &"differs".into()), "{compared}");
    assert_eq!(compared["chains"][0]["first_difference"], entries, "{compared}");
    let (_, adopted) = ledger(&["log", "--file", &copy, "--format", "json"]);
    assert!(adopted.lines().last().unwrap().contains(r#""by":"local""#), "{adopted}");
}
