//! Checkpoints in a bucket of moto, which has conditional puts right.
//! `cargo nextest run -p checkpoint-store --features s3`
#![allow(clippy::unwrap_used)] // a test says best where it stands

#[path = "../../tests/src/ports.rs"]
mod ports;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use checkpoint_store::{
    CheckpointError, CheckpointKey, CheckpointStore, PlainHttp, ShardHeader, WrittenShard,
};
use proto::{
    CheckpointRecord, CoordinateRange, ElementType, JobId, Nonce, model::CheckpointPiece, piece_object,
};

/// `RUSTLE_MOTO`, else that of the tests' Python environment.
fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let own = root.join(".venv/bin/moto_server");
    std::env::var_os("RUSTLE_MOTO").map(PathBuf::from).or(Some(own)).filter(|path| path.exists())
}

struct Moto {
    process: Child,
    address: String,
}

impl Moto {
    fn start() -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("SKIPPED: no moto_server in .venv; tests/setup/python.sh installs it");
            return None;
        };
        let port = ports::free_port().to_string();
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
        let moto = Self { process: command.spawn().unwrap(), address };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&moto.address).is_err() {
            assert!(Instant::now() < deadline, "moto does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        assert!(moto.request("PUT", "/bucket").starts_with("HTTP/1.1 200"));
        Some(moto)
    }

    fn request(&self, method: &str, path: &str) -> String {
        request(&self.address, method, path)
    }

    /// Runs `test`, named so, in a process that has moto's address in its environment.
    fn run(&self, test: &str) {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.address))
            .envs([
                ("AWS_ACCESS_KEY_ID", "test"),
                ("AWS_SECRET_ACCESS_KEY", "test"),
                ("AWS_REGION", "us-east-1"),
            ])
            .status();
        assert!(status.unwrap().success(), "{test}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn request(address: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n");
    let credential = "Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
    let authorization = format!("Authorization: AWS4-HMAC-SHA256 {credential}\r\n");
    write!(stream, "{head}{authorization}Content-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_bucket_holds_checkpoints_as_a_folder_does() {
    let Some(moto) = Moto::start() else { return };
    moto.run("in_a_bucket");
    let uploads = moto.request("GET", "/bucket?uploads");
    assert!(!uploads.contains("<Upload>"), "an upload was not aborted: {uploads}");
}

fn job() -> JobId {
    JobId::new("j").unwrap()
}

fn key() -> CheckpointKey {
    CheckpointKey::new(&[3; 32])
}

const RANGE: CoordinateRange = CoordinateRange { start: 0, end: 512 };
/// More than two parts of 8 MiB.
const STATE: usize = 5_000_000;

fn header() -> ShardHeader {
    ShardHeader {
        job: "j".to_owned(),
        branch: 0,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        stream_version: 1,
        range: RANGE,
        next_row: 4,
        window_start: 4,
        block_state_len: STATE as u64,
        element: ElementType::F32,
    }
}

async fn write(store: &CheckpointStore, id: u64) -> (String, WrittenShard) {
    let object = piece_object(&job(), id, RANGE);
    let state = (0..STATE).map(|i| i as f32).collect();
    let written = store.write_shard(&object, header(), &key(), (state, vec![])).await.unwrap();
    (object, written)
}

fn record(id: u64, next_row: u64, object: &str, sha256: [u8; 32]) -> CheckpointRecord {
    let pieces = vec![CheckpointPiece { object: object.to_owned(), range: RANGE, next_row, sha256 }];
    CheckpointRecord { job: job(), id, branch: 0, plan_digest: [1; 32], next_row, bytes: 0, pieces }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by a_bucket_holds_checkpoints_as_a_folder_does, with moto's address"]
async fn in_a_bucket() {
    let url = "s3://bucket/some/prefix";
    let plain = CheckpointStore::open(url).unwrap();
    assert!(plain.sweep(&job(), |_| true).await.is_err(), "plain HTTP without being asked for");
    let store = CheckpointStore::open_over(url, PlainHttp::Allowed).unwrap();

    let (object, written) = write(&store, 1).await;
    let read = store.read_shard(&object, &written.sha256, &key(), |_| Ok(())).await.unwrap();
    assert!(read.state.iter().enumerate().all(|(i, value)| *value == i as f32));
    assert!(store.read_shard(&object, &[0; 32], &key(), |_| Ok(())).await.is_err());

    // One of many concurrent writers of a manifest wins.
    let races = (0..16).map(|next_row| {
        let store = store.clone();
        let record = record(1, next_row, &object, written.sha256);
        tokio::spawn(async move { store.write_manifest(&record).await.is_ok() })
    });
    let won: Vec<bool> = futures::future::join_all(races).await.into_iter().map(|won| won.unwrap()).collect();
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");

    // A writer that goes away, before an upload has begun or half-way, leaves nothing.
    let address = std::env::var("AWS_ENDPOINT_URL").unwrap().replace("http://", "");
    for (id, wait) in [(2, 0), (4, 1), (5, 3), (6, 10), (7, 30), (8, 100)] {
        let half = tokio::spawn({
            let store = store.clone();
            async move { write(&store, id).await }
        });
        tokio::time::sleep(Duration::from_millis(wait)).await;
        half.abort();
        let _ = half.await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let deadline = Instant::now() + Duration::from_secs(30);
        while request(&address, "GET", "/bucket?uploads").contains("<Upload>") {
            assert!(Instant::now() < deadline, "an upload stopped after {wait} ms was not aborted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    of_many_writers_of_an_anchor_one_succeeds(&store).await;

    write(&store, 3).await;
    let swept = store.sweep(&job(), |id| id == 1).await.unwrap();
    assert!(swept.contains(&3) && !swept.contains(&1), "{swept:?}");
    let gone = store.read_shard(&piece_object(&job(), 3, RANGE), &[0; 32], &key(), |_| Ok(())).await;
    assert!(matches!(gone, Err(CheckpointError::Unusable { .. })));
    store.delete_checkpoint(&record(1, 0, &object, written.sha256)).await.unwrap();
    assert!(store.sweep(&job(), |_| false).await.unwrap().is_empty());
}

/// A first one, and then over each version that was there.
async fn of_many_writers_of_an_anchor_one_succeeds(store: &CheckpointStore) {
    let ledger = Nonce::from_bytes([7; 32]);
    assert!(store.read_anchor(&ledger).await.unwrap().is_none());
    let mut over = None;
    for round in 0..4 {
        let mut newest = None;
        for writer in 0..3 {
            let bytes = format!("{round}-{writer}").into_bytes();
            let written = store.write_anchor(&ledger, bytes, over.as_ref()).await.unwrap();
            assert_eq!(written.is_some(), writer == 0, "round {round}, writer {writer}");
            newest = newest.or(written);
        }
        let read = store.read_anchor(&ledger).await.unwrap().unwrap();
        assert_eq!(read.bytes, format!("{round}-0").as_bytes());
        // That of the answer to the write, and that of a read.
        over = if round % 2 == 0 { newest } else { Some(read.version) };
    }
}
