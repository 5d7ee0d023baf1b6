//! The memory of processes that hold secrets: only root can read it, neither through a crash nor through the system's
//! calls.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::ExitStatusExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustle::cluster::{ClusterOptions, LocalCluster};
use tempfile::TempDir;
use tests::{KEY, plans, program};

#[test]
fn processes_can_be_neither_dumped_nor_traced() {
    let cluster = tests::start(1);
    for process in [cluster.cluster.coordinator().unwrap(), cluster.cluster.worker(0).unwrap()] {
        assert_eq!(core_limits(process.pid()), Some(["0", "0"].map(str::to_owned)));
    }
}

/// Both limits of a process's cores: `None` once it has ended.
fn core_limits(pid: u32) -> Option<[String; 2]> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let core = limits.lines().find(|line| line.starts_with("Max core file size"))?;
    let word = |at| core.split_whitespace().nth(at).map(str::to_owned);
    Some([word(4)?, word(5)?])
}

/// Each waits for its key on a pipe without a writer; it has hardened itself before that.
#[test]
fn commands_are_hardened_before_they_read_a_key() {
    if getrlimit(Resource::Core).maximum == Some(0) {
        println!("no process may leave a core here: nothing was shown");
        return;
    }
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    assert!(Command::new("mkfifo").arg(path("key")).status().unwrap().success());
    fs::write(path("plan.toml"), plans()[3].to_toml_string().unwrap()).unwrap();
    let of_branch = ["--plan", &path("plan.toml"), "--key-file", &path("key")].map(str::to_owned);
    let any_id = "0".repeat(64);
    let verify = format!("verify --noise-id {any_id} --dimension 8 --step 0 --range 0..8 x.npy");
    let commands = [
        ("noise --steps 0..1 --dimension 8 --out x.npy", &of_branch[..]),
        (verify.as_str(), &of_branch),
        ("job create --dimension 8 --coordinator http://127.0.0.1:1", &of_branch),
        ("demo --workers 1 --seeds 1 --data-dir demo", &[]),
    ];
    for (words, key) in commands {
        let mut child = Command::new(program())
            .args(words.split_whitespace())
            .args(key)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while core_limits(child.id()) != Some(["0".to_owned(), "0".to_owned()]) {
            assert!(Instant::now() < deadline, "{words}: {:?}", core_limits(child.id()));
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A coordinator that listens, in a folder of its own.
fn coordinator(dir: &Path, more: &[&str]) -> Child {
    ::coordinator::init_ledger(&dir.join("data")).unwrap();
    let ready = dir.join("ready.json");
    let child = Command::new(program())
        .args(["coordinator", "--listen", "127.0.0.1:0", "--data-dir", "data", "--exit-with-parent"])
        .arg("--ready-file")
        .arg(&ready)
        .args(more)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready.exists() {
        assert!(Instant::now() < deadline, "the coordinator does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn a_crash_leaves_no_core() {
    // The processes inherit this limit on core files unless they set their own.
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    let dumped = |more: &[&str]| {
        let dir = TempDir::new().unwrap();
        let mut child = coordinator(dir.path(), more);
        kill_process(Pid::from_child(&child), Signal::ABORT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(6), "{status}");
        let files: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let has_core = files.iter().any(|name| name.to_string_lossy().starts_with("core"));
        status.core_dumped() || has_core
    };
    assert!(!dumped(&[]), "a coordinator has left a core");
    // The control: this system writes cores where it may.
    if !(dumped(&["--allow-core-dumps"])) {
        println!("this system writes no cores at all: nothing was shown")
    }
}

/// Run as root alone: only then there is another user to be.
#[test]
fn memory_and_environment_are_not_for_the_same_user() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        println!("only root can run a cluster as another user: left out");
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copied = dir.path().join("rustle");
    let wrapped = dir.path().join("as-nobody");
    fs::copy(program(), &copied).unwrap();
    let as_nobody = format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups");
    let script = format!("#!/bin/sh\nexec {as_nobody} {} \"$@\"\n", copied.display());
    fs::write(&wrapped, script).unwrap();
    fs::set_permissions(&wrapped, fs::Permissions::from_mode(0o755)).unwrap();
    // As readable as another process of this user is: of one that may be dumped.
    let reads = |pid: u32, file: &str| {
        let read = format!("head -c 64 /proc/{pid}/{file} > /dev/null 2>&1");
        Command::new("sh").args(["-c", &format!("{as_nobody} sh -c '{read}'")]).status().unwrap().success()
    };
    for (hardened, more) in [(true, None), (false, Some("--allow-core-dumps"))] {
        let cluster_dir = dir.path().join(format!("hardened-{hardened}"));
        fs::create_dir(&cluster_dir).unwrap();
        fs::set_permissions(&cluster_dir, fs::Permissions::from_mode(0o777)).unwrap();
        // Begun by this process, root would own it.
        let data = cluster_dir.join("coordinator");
        let begun = Command::new(&wrapped).args(["ledger", "init", "--data-dir"]).arg(data).output().unwrap();
        assert!(begun.status.success(), "{begun:?}");
        let mut options = ClusterOptions::new(wrapped.clone(), cluster_dir, 1);
        options.coordinator_flags.extend(more.map(str::to_owned));
        options.worker_flags.extend(more.map(str::to_owned));
        let cluster = LocalCluster::start(options, KEY).unwrap();
        for process in [cluster.coordinator().unwrap(), cluster.worker(0).unwrap()] {
            let pid = process.pid();
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")), "{status}");
            for file in ["mem", "environ", "maps"] {
                let owner = fs::metadata(format!("/proc/{pid}/{file}")).unwrap().uid();
                assert_eq!(owner, if hardened { 0 } else { NOBODY }, "{file}");
            }
            for file in ["environ", "maps"] {
                assert_eq!(reads(pid, file), !hardened, "/proc/{pid}/{file} for its own user");
            }
        }
    }
}
