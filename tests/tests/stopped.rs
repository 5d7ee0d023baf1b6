//! Tests a coordinator whose disk refuses a write: it exits with a message and a status, and its successor has everything
//! that it acknowledged.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use client::Client;
use node::process::ready_file::ReadyFile;
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use proto::{Commitment, ReleasedRows, Result, RowRange, ServiceError, pb};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tempfile::TempDir;
use tests::{KEY, job, plans, program};

struct Coordinator {
    /// Killed when dropped.
    child: Option<Child>,
    client: Client,
    runtime: Runtime,
}

impl Coordinator {
    fn start(dir: &Path) -> Self {
        let ready = dir.join("ready.json");
        ReadyFile::clear(&ready).unwrap();
        // In a process that ignores SIGXFSZ, a write beyond the file's limit fails like any other fault of the disk. Its
        // output goes to a pipe, which has no limit.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(program())
            .args(["coordinator", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--ready-file")
            .arg(&ready)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !ready.exists() {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "it does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        let ready: ReadyFile = serde_json::from_slice(&fs::read(ready).unwrap()).unwrap();
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async { Client::connect(&ready.grpc) }).unwrap();
        Self { child: Some(child), client, runtime }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    fn create(&self) {
        let plan = &plans()[0];
        let request = pb::CreateJobRequest {
            job: "stopped".to_owned(),
            plan_toml: plan.to_toml_string().unwrap(),
            dimension: 2_000,
            shards: 1,
            key_commitment: JobKey::from_bytes(&KEY).unwrap().commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
            account: None,
        };
        self.runtime.block_on(self.client.jobs().create(request)).unwrap();
    }

    fn bind(&self, row: u64, text: &str) -> Result<ReleasedRows> {
        let rows = RowRange::new(row, row + 1)?;
        let commitments = [Commitment::of_text(text)];
        self.runtime.block_on(self.client.bind(&job("stopped"), 0, rows, &commitments))
    }

    /// Every write to a file fails from now on.
    fn refuse_writes(&self) {
        let limit = Rlimit { current: Some(0), maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit).unwrap();
    }

    fn end(mut self) -> Output {
        let mut child = self.child.take().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("it did not end: {:?}", child.wait_with_output().unwrap());
            }
            thread::sleep(Duration::from_millis(10));
        }
        child.wait_with_output().unwrap()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

#[test]
fn a_coordinator_whose_disk_fails_ends_with_an_error_and_the_next_one_has_all_it_answered() {
    let dir = TempDir::new().unwrap();
    coordinator::init_ledger(&dir.path().join("data")).unwrap();
    let coordinator = Coordinator::start(dir.path());
    coordinator.create();
    coordinator.bind(0, "a").unwrap();
    coordinator.refuse_writes();
    let error = coordinator.bind(1, "b").unwrap_err();
    assert!(matches!(error, ServiceError::Store { .. } | ServiceError::Unavailable { .. }), "{error}");
    let ended = coordinator.end();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("the coordinator stopped: ledger") && words.contains("ledger.redb"), "{words}");

    let next = Coordinator::start(dir.path());
    next.bind(0, "a").unwrap();
    assert_eq!(next.bind(0, "b").unwrap_err().kind(), "already_bound");
    next.bind(1, "c").unwrap();
    kill_process(next.pid(), Signal::TERM).unwrap();
    assert!(next.end().status.success());
}
